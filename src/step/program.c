#include "step/program.h"

#include <stdlib.h>

#include "base/error.h"

const char *const ls_region_words[LS_REGION_KINDS] = {
#define X(name, words) words,
    LS_REGION_LIST(X)
#undef X
};

const char *const ls_task_words[LS_TASK_KINDS] = {
#define X(name, words) words,
    LS_TASK_LIST(X)
#undef X
};

void ls_program_destroy(ls_program **program) {
    ls_program *p = *program;
    if (!p) return;
    for (int q = 0; p->queues && q < p->queue_count; q++) free(p->queues[q].tasks);
    free(p->queues);
    free(p->operands);
    free(p->signals);
    free(p);
    *program = NULL;
}

static int is_same(const ls_region *a, const ls_region *b) {
    return a->kind == b->kind && a->rank == b->rank && a->lane == b->lane && a->index == b->index;
}

static unsigned hash_of(const ls_region *r) {
    unsigned h = (unsigned)r->kind * 2654435761u;
    h = (h ^ (unsigned)r->rank) * 2246822519u;
    h = (h ^ (unsigned)r->lane) * 3266489917u;
    return (h ^ (unsigned)r->index) * 668265263u;
}

// The place of a region in the table: its own, or the first free one.
static int *place_of(const ls_regions *r, const ls_region *region) {
    unsigned mask = (unsigned)r->table_size - 1, h = hash_of(region);
    for (h ^= h >> 15;; h++) {
        int *at = &r->table[h & mask];
        if (*at < 0 || is_same(&r->list[*at], region)) return at;
    }
}

static int enlarge(ls_regions *r) {
    int capacity = r->capacity ? 2 * r->capacity : 32;
    ls_region *list = realloc(r->list, (size_t)capacity * sizeof *list);
    if (!list) return 0;
    r->list = list;
    int *table = realloc(r->table, (size_t)capacity * 2 * sizeof *table);
    if (!table) return 0;
    r->table = table;
    r->capacity = capacity;
    r->table_size = 2 * capacity;
    for (int i = 0; i < r->table_size; i++) table[i] = -1;
    for (int i = 0; i < r->count; i++) *place_of(r, &list[i]) = i;
    return 1;
}

int ls_regions_find(ls_regions *r, ls_region region) {
    if (r->count == r->capacity && !enlarge(r)) return -1;
    int *at = place_of(r, &region);
    if (*at >= 0) {
        ls_region *found = &r->list[*at];
        if (region.elements > found->elements) found->elements = region.elements;
        return *at;
    }
    r->list[r->count] = region;
    return *at = r->count++;
}

void ls_regions_free(ls_regions *r) {
    free(r->list);
    free(r->table);
    *r = (ls_regions){0};
}

// --- printing --------------------------------------------------------------------------------------------------------

static int holds_nodes(const ls_region *r) {
    return r->kind == LS_REGION_GRADIENTS || r->kind == LS_REGION_PUBLISHED || r->kind == LS_REGION_TOTALS ||
           r->kind == LS_REGION_MESSAGE || r->kind == LS_REGION_SPARSE;
}

static void print_operands(const ls_program *p, const ls_regions *regions, int first, int count, const char *word,
                           FILE *out) {
    for (int i = 0; i < count; i++) {
        const ls_operand *o = &p->operands[first + i];
        const ls_region *r = &regions->list[o->region];
        fprintf(out, "%s%s", i ? ", " : word, ls_region_words[r->kind]);
        if (r->lane >= 0)
            fprintf(out, " of lane %d.%d", r->rank, r->lane);
        else if (r->scope == LS_SCOPE_RANK)
            fprintf(out, " %d", r->index);
        if (o->at > 0) fprintf(out, " + %lld", (long long)o->at);
        if (!holds_nodes(r)) continue;
        int64_t end = o->node.level < 62 ? o->node.first + ((int64_t)1 << o->node.level) : p->micro_batches;
        if (end > p->micro_batches) end = p->micro_batches;
        fprintf(out, o->node.first + 1 < end ? " {%lld-%lld}" : " {%lld}", (long long)o->node.first,
                (long long)end - 1);
    }
}

static void print_signal(const ls_program *p, const ls_task *t, FILE *out) {
    int times = p->signals[t->signal].per_step;
    fprintf(out, " %d", t->signal);
    if (t->bucket >= 0) fprintf(out, " of bucket %d", t->bucket);
    if (times > 1) fprintf(out, ", given %d times a step", times);
    if (t->lag) fprintf(out, ", of the step before");
}

static void print_text(const ls_program *p, const ls_regions *regions, int queue, const ls_task *t, FILE *out) {
    fprintf(out, "%s %d: %s", queue < p->lanes ? "lane" : "exchange", queue < p->lanes ? queue : queue - p->lanes,
            ls_task_words[t->kind]);
    if (t->kind == LS_TASK_RUN) fprintf(out, " %s", t->pass == LS_RUN_BACKWARD ? "backward" : "forward");
    if (t->kind == LS_TASK_RUN || t->kind == LS_TASK_SELECT) fprintf(out, " micro-batch %lld", (long long)t->value);
    int signals = t->kind == LS_TASK_SIGNAL || t->kind == LS_TASK_WAIT;
    if (t->bucket >= 0 && !signals) fprintf(out, " bucket %d", t->bucket);
    if (t->end > t->begin) fprintf(out, " [%lld, %lld)", (long long)t->begin, (long long)t->end);
    if (t->kind == LS_TASK_SEND || t->kind == LS_TASK_RECEIVE)
        fprintf(out, " %s rank %d, tag %d", t->kind == LS_TASK_SEND ? "to" : "from", t->peer, t->tag);
    if (signals) print_signal(p, t, out);
    print_operands(p, regions, t->input, t->inputs, " from ", out);
    print_operands(p, regions, t->output, t->outputs, " to ", out);
    fputc('\n', out);
}

static void print_json_operands(const ls_program *p, const ls_regions *regions, const char *name, int first, int count,
                                FILE *out) {
    if (count == 0) return;
    fprintf(out, ", \"%s\": [", name);
    for (int i = 0; i < count; i++) {
        const ls_operand *o = &p->operands[first + i];
        const ls_region *r = &regions->list[o->region];
        fprintf(out,
                "%s{\"region\": \"%s\", \"rank\": %d, \"lane\": %d, \"index\": %d, \"at\": %lld, \"node\": [%lld, %d]}",
                i ? ", " : "", ls_region_words[r->kind], r->rank, r->lane, r->index, (long long)o->at,
                (long long)o->node.first, o->node.level);
    }
    fputc(']', out);
}

static void print_json(const ls_program *p, const ls_regions *regions, int queue, const ls_task *t, FILE *out) {
    fprintf(out, "{\"queue\": %d, \"task\": \"%s\"", queue, ls_task_words[t->kind]);
    if (t->kind == LS_TASK_RUN) fprintf(out, ", \"pass\": \"%s\"", t->pass == LS_RUN_BACKWARD ? "backward" : "forward");
    if (t->kind == LS_TASK_RUN || t->kind == LS_TASK_SELECT)
        fprintf(out, ", \"micro_batch\": %lld", (long long)t->value);
    if (t->bucket >= 0) fprintf(out, ", \"bucket\": %d", t->bucket);
    if (t->end > t->begin) fprintf(out, ", \"begin\": %lld, \"end\": %lld", (long long)t->begin, (long long)t->end);
    if (t->kind == LS_TASK_SEND || t->kind == LS_TASK_RECEIVE)
        fprintf(out, ", \"peer\": %d, \"tag\": %d", t->peer, t->tag);
    if (t->kind == LS_TASK_SIGNAL || t->kind == LS_TASK_WAIT)
        fprintf(out, ", \"signal\": %d, \"lag\": %d", t->signal, t->lag);
    print_json_operands(p, regions, "inputs", t->input, t->inputs, out);
    print_json_operands(p, regions, "outputs", t->output, t->outputs, out);
    fputc('}', out);
}

void ls_program_print(const ls_program *p, const ls_regions *regions, int json, FILE *out) {
    int printed = 0;
    if (json) fputc('[', out);
    for (int q = 0; q < p->queue_count; q++)
        for (int i = 0; i < p->queues[q].count; i++) {
            const ls_task *t = &p->queues[q].tasks[i];
            if (json) {
                fputs(printed++ ? ",\n " : "", out);
                print_json(p, regions, q, t, out);
            } else {
                print_text(p, regions, q, t, out);
            }
        }
    if (json) fputs("]\n", out);
}
