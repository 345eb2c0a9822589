#include "step/check_symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

ls_status ls__symbols_region(ls__symbols *m, int64_t elements, int *number) {
    if (m->count == m->capacity) {
        int capacity = m->capacity ? 2 * m->capacity : 64;
        ls__held *grown = realloc(m->regions, (size_t)capacity * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for checking a step's programs");
        m->regions = grown;
        m->capacity = capacity;
    }
    m->regions[m->count] = (ls__held){.elements = elements};
    *number = m->count++;
    return LS_OK;
}

static void forget(ls__run *run) {
    free(run->writers.list);
    free(run->readers.list);
}

void ls__symbols_free(ls__symbols *m) {
    for (int i = 0; i < m->count; i++) {
        for (int k = 0; k < m->regions[i].count; k++) forget(&m->regions[i].runs[k]);
        free(m->regions[i].runs);
        for (ls__send *s = m->regions[i].sends, *next; s; s = next) {
            next = s->next;
            free(s->runs);
            free(s);
        }
    }
    free(m->regions);
}

// --- runs ------------------------------------------------------------------------------------------------------------

static int grow(void **list, int *capacity, int count, size_t size) {
    if (count < *capacity) return 1;
    int larger = *capacity ? 2 * *capacity : 4;
    void *grown = realloc(*list, (size_t)larger * size);
    if (!grown) return 0;
    *list = grown;
    *capacity = larger;
    return 1;
}

static int add_access(ls__accesses *a, int queue, uint32_t clock) {
    for (int i = 0; i < a->count; i++)
        if (a->list[i].queue == queue) {
            if (clock > a->list[i].clock) a->list[i].clock = clock;
            return 1;
        }
    if (!grow((void **)&a->list, &a->capacity, a->count, sizeof *a->list)) return 0;
    a->list[a->count++] = (ls__access){queue, clock};
    return 1;
}

static ls__accesses copy_accesses(const ls__accesses *a) {
    ls__accesses c = {0};
    for (int i = 0; i < a->count; i++) add_access(&c, a->list[i].queue, a->list[i].clock);
    return c;
}

// The first run that ends behind `at`.
static int run_at(const ls__held *h, int64_t at) {
    int low = 0, high = h->count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (h->runs[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static ls__run *insert(ls__held *h, int index) {
    if (!grow((void **)&h->runs, &h->capacity, h->count, sizeof *h->runs)) return NULL;
    memmove(&h->runs[index + 1], &h->runs[index], (size_t)(h->count - index) * sizeof *h->runs);
    h->count++;
    h->runs[index] = (ls__run){0};
    return &h->runs[index];
}

// No run goes across `at` any more.
static int split(ls__held *h, int64_t at) {
    int i = run_at(h, at);
    if (i == h->count || h->runs[i].begin >= at) return 1;
    ls__run *right = insert(h, i + 1);
    if (!right) return 0;
    ls__run *left = &h->runs[i];
    *right = *left;
    right->writers = copy_accesses(&left->writers);
    right->readers = copy_accesses(&left->readers);
    left->end = right->begin = at;
    return 1;
}

// Runs cover [begin, end) without gaps: what was never written holds nothing.
static int fill(ls__held *h, int64_t begin, int64_t end) {
    if (!split(h, begin) || !split(h, end)) return 0;
    for (int64_t at = begin; at < end;) {
        int i = run_at(h, at);
        if (i < h->count && h->runs[i].begin == at) {
            at = h->runs[i].end;
            continue;
        }
        int64_t next = i < h->count && h->runs[i].begin < end ? h->runs[i].begin : end;
        ls__run *run = insert(h, i);
        if (!run) return 0;
        run->begin = at, run->end = next;
        at = next;
    }
    return 1;
}

// --- accesses --------------------------------------------------------------------------------------------------------

static int all_before(const ls__accesses *a, int queue, const uint32_t *clock) {
    for (int i = 0; i < a->count; i++)
        if (a->list[i].queue != queue && a->list[i].queue >= 0 &&
            (!clock || clock[a->list[i].queue] < a->list[i].clock))
            return 0;
    return 1;
}

static int holds(const ls__content *has, const ls__content *expected) {
    return has->kind == expected->kind && has->step == expected->step && has->raw == expected->raw &&
           (has->kind != LS__NODE || (has->first == expected->first && has->last == expected->last)) &&
           (has->shift == expected->shift || has->shift == LS__ANY_SHIFT || expected->shift == LS__ANY_SHIFT);
}

static ls_check_fault bounds(ls__symbols *m, int region, int64_t begin, int64_t end) {
    m->words[0] = 0;
    if (begin >= 0 && begin <= end && end <= m->regions[region].elements) return LS_CHECK_NONE;
    snprintf(m->words, sizeof m->words, "[%lld, %lld) of %lld", (long long)begin, (long long)end,
             (long long)m->regions[region].elements);
    return LS_CHECK_BOUNDS;
}

static ls_check_fault wrong(ls__symbols *m, const ls__run *run, const ls__content *expected) {
    snprintf(m->words, sizeof m->words, "[%lld, %lld) holds %d of step %d [%lld, %lld), not %d of step %d [%lld, %lld)",
             (long long)run->begin, (long long)run->end, run->content.kind, run->content.step,
             (long long)run->content.first, (long long)run->content.last, expected->kind, expected->step,
             (long long)expected->first, (long long)expected->last);
    return run->content.kind == LS__NOTHING || run->content.step < expected->step ? LS_CHECK_UNWRITTEN
                                                                                  : LS_CHECK_CONTENT;
}

// Reads without looking at what it is.
static ls_check_fault touch(ls__symbols *m, int region, int64_t begin, int64_t end, int queue, const uint32_t *clock) {
    ls__held *h = &m->regions[region];
    ls_check_fault fault = bounds(m, region, begin, end);
    if (fault || begin == end) return fault;
    if (!fill(h, begin, end)) return LS_CHECK_BOUNDS;
    for (int i = run_at(h, begin); i < h->count && h->runs[i].begin < end; i++) {
        if (!all_before(&h->runs[i].writers, queue, clock)) return LS_CHECK_RACE;
        add_access(&h->runs[i].readers, queue, clock[queue]);
    }
    return LS_CHECK_NONE;
}

ls_check_fault ls__symbols_read(ls__symbols *m, int region, int64_t begin, int64_t end, const ls__content *expected,
                                int queue, const uint32_t *clock) {
    ls_check_fault fault = touch(m, region, begin, end, queue, clock);
    ls__held *h = &m->regions[region];
    if (fault) return fault;
    for (int i = run_at(h, begin); i < h->count && h->runs[i].begin < end; i++)
        if (!holds(&h->runs[i].content, expected)) return wrong(m, &h->runs[i], expected);
    return LS_CHECK_NONE;
}

static int is_after(ls__access a, const uint32_t *clock) { return a.queue >= 0 && clock && clock[a.queue] >= a.clock; }

// Whether a message of these elements may still be on its way. What is over is forgotten.
static int is_sent(ls__held *h, const ls__run *run, const uint32_t *clock) {
    for (ls__send **at = &h->sends; *at;) {
        ls__send *s = *at;
        if (s->begin >= run->end || s->end <= run->begin) {
            at = &s->next;
            continue;
        }
        if (!is_after(s->receiver, clock) && !is_after(s->ended, clock)) return 1;
        if (s->runs || s->ended.queue < 0 || s->begin < run->begin || s->end > run->end) {
            at = &s->next;
            continue;
        }
        *at = s->next;
        free(s);
    }
    return 0;
}

ls_check_fault ls__symbols_write(ls__symbols *m, int region, int64_t begin, int64_t end, const ls__content *content,
                                 int queue, const uint32_t *clock) {
    ls__held *h = &m->regions[region];
    ls_check_fault fault = bounds(m, region, begin, end);
    if (fault || begin == end) return fault;
    if (!fill(h, begin, end)) return LS_CHECK_BOUNDS;
    for (int i = run_at(h, begin); i < h->count && h->runs[i].begin < end; i++) {
        ls__run *run = &h->runs[i];
        int joins = content->joint && holds(&run->content, content);
        int sending = is_sent(h, run, clock);
        if (sending || !all_before(&run->readers, queue, clock) ||
            (!joins && !all_before(&run->writers, queue, clock))) {
            snprintf(m->words, sizeof m->words, "[%lld, %lld)%s", (long long)run->begin, (long long)run->end,
                     sending ? ", a message of which may be on its way" : "");
            return LS_CHECK_RACE;
        }
        if (!joins) run->writers.count = run->readers.count = 0;
        run->content = *content;
        if (queue >= 0) add_access(&run->writers, queue, clock[queue]);
    }
    return LS_CHECK_NONE;
}

// What runs hold, written to another region, each element with what it held; `begin` becomes `at`.
static ls_check_fault carry(ls__symbols *m, const ls__run *runs, int count, int64_t begin, int to, int64_t at,
                            int queue, const uint32_t *clock) {
    for (int i = 0; i < count; i++) {
        ls__content content = runs[i].content;
        if (content.kind == LS__NOTHING) {
            snprintf(m->words, sizeof m->words, "[%lld, %lld)", (long long)runs[i].begin, (long long)runs[i].end);
            return LS_CHECK_UNWRITTEN;
        }
        if (content.shift != LS__ANY_SHIFT) content.shift -= at - begin;
        content.joint = 0;
        ls_check_fault fault =
            ls__symbols_write(m, to, at + runs[i].begin - begin, at + runs[i].end - begin, &content, queue, clock);
        if (fault) return fault;
    }
    return LS_CHECK_NONE;
}

// The runs of [begin, end), without who was there; the caller frees them.
static ls__run *snapshot(const ls__held *h, int64_t begin, int64_t end, int *count) {
    int first = run_at(h, begin), last = first;
    while (last < h->count && h->runs[last].begin < end) last++;
    ls__run *runs = calloc((size_t)(last - first) + 1, sizeof *runs);
    *count = runs ? last - first : 0;
    for (int i = 0; i < *count; i++)
        runs[i] = (ls__run){
            .begin = h->runs[first + i].begin, .end = h->runs[first + i].end, .content = h->runs[first + i].content};
    return runs;
}

ls_check_fault ls__symbols_copy(ls__symbols *m, int from, int64_t from_at, int to, int64_t to_at, int64_t count,
                                int queue, const uint32_t *clock) {
    int runs_count;
    ls_check_fault fault = touch(m, from, from_at, from_at + count, queue, clock);
    if (fault) return fault;
    ls__run *runs = snapshot(&m->regions[from], from_at, from_at + count, &runs_count);
    fault = carry(m, runs, runs_count, from_at, to, to_at, queue, clock);
    free(runs);
    return fault;
}

ls_check_fault ls__symbols_send(ls__symbols *m, int region, int64_t begin, int64_t end, int queue,
                                const uint32_t *clock, ls__send **out) {
    ls_check_fault fault = touch(m, region, begin, end, queue, clock);
    ls__held *h = &m->regions[region];
    *out = NULL;
    if (fault) return fault;
    ls__send *s = calloc(1, sizeof *s);
    if (!s) return LS_CHECK_BOUNDS;
    *s = (ls__send){.region = region, .queue = queue, .begin = begin, .end = end, .next = h->sends};
    s->runs = snapshot(h, begin, end, &s->run_count);
    s->receiver.queue = s->ended.queue = -1;
    h->sends = *out = s;
    return LS_CHECK_NONE;
}

void ls__symbols_sent(ls__symbols *m, int queue, const uint32_t *clock) {
    for (int i = 0; i < m->count; i++)
        for (ls__send *s = m->regions[i].sends; s; s = s->next)
            if (s->queue == queue && s->ended.queue < 0) s->ended = (ls__access){queue, clock[queue]};
}

ls_check_fault ls__symbols_receive(ls__symbols *m, ls__send *s, int to, int64_t at, int queue, const uint32_t *clock) {
    ls_check_fault fault = carry(m, s->runs, s->run_count, s->begin, to, at, queue, clock);
    s->receiver = (ls__access){queue, clock[queue]};
    free(s->runs);
    s->runs = NULL;
    return fault;
}

int ls__symbols_holds(ls__symbols *m, int region, int64_t begin, int64_t end, const ls__content *content) {
    ls__held *h = &m->regions[region];
    if (!fill(h, begin, end)) return 0;
    for (int i = run_at(h, begin); i < h->count && h->runs[i].begin < end; i++)
        if (!holds(&h->runs[i].content, content)) return 0;
    return 1;
}
