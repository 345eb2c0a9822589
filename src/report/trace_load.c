// Reading a trace, one event a line as Lockstep writes them: a million would be a gigabyte as a tree of JSON.
#define _GNU_SOURCE
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "report/trace_report.h"

#define TRACE_FORMAT 1
#define HEAD_BYTES   65536  // facts about the whole stand within so many
#define LABEL_BYTES  48     // each replica has a label at least, which takes more
#define MOST_LAYERS  65536

typedef struct span {
    double start, end;  // microseconds
} span;

typedef struct spans {
    span *list;
    int64_t count, capacity;
} spans;

// A span of what a step may consist of, until that step is known.
typedef struct part {
    double *sum;  // what it counts as
    double start, microseconds;
} part;

// What one track has told so far.
typedef struct track {
    int worker, replica;  // replica -1: a track that belongs to none, or to a loader
    part *parts;          // since the last step
    int64_t part_count, part_capacity;
    ls_trace_times sum;  // of all steps, microseconds
    int64_t steps;
} track;

// When a replica was ready in a step.
typedef struct arrival {
    int64_t step;
    int lane;
    double at;
} arrival;

typedef struct reader {
    const char *path;
    ls_lines lines;
    int64_t bytes;
    ls_trace_report *report;
    track *tracks;  // (workers, per_worker)
    int per_worker;
    char (*names)[64];  // (workers)
    spans *computing;   // (workers): forward and backward of its first replica
    spans *background;  // (workers): exchange on tracks that are no replica's
    arrival *arrivals;
    int64_t arrival_count, arrival_capacity;
    int layer_capacity, next_layer;
} reader;

static ls_status out_of_memory(const reader *r) {
    return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory while reading %s", r->path);
}

static ls_status broken(const reader *r, const char *what) {
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s, line %lld: %s; it is not a whole trace of 'lockstep train --trace': record it again", r->path,
                   (long long)r->lines.number, what);
}

static int grow(void *list, int64_t *capacity, int64_t count, size_t size) {
    if (count < *capacity) return 1;
    int64_t larger = *capacity ? 2 * *capacity : 256;
    void *grown = realloc(*(void **)list, (size_t)larger * size);
    if (!grown) return 0;
    *(void **)list = grown;
    *capacity = larger;
    return 1;
}

static ls_status add_span(const reader *r, spans *s, double start, double end) {
    if (!grow(&s->list, &s->capacity, s->count, sizeof *s->list)) return out_of_memory(r);
    s->list[s->count++] = (span){start, end};
    return LS_OK;
}

// --- the head ----------------------------------------------------------------------------------------------------------

static void copy(char *out, size_t size, const json_t *facts, const char *key) {
    const char *text = json_string_value(json_object_get(facts, key));
    snprintf(out, size, "%s", text ? text : "");
}

static int64_t whole(const json_t *facts, const char *key) {
    double x = json_number_value(json_object_get(facts, key));
    return x >= 0 && x < 1e15 ? (int64_t)x : 0;
}

static ls_status take_facts(reader *r, const json_t *facts) {
    ls_trace_report *t = r->report;
    if (whole(facts, "lockstep_trace") != TRACE_FORMAT)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s is a trace of format %lld, and this lockstep reads format %d: use the lockstep that wrote it", r->path,
            (long long)whole(facts, "lockstep_trace"), TRACE_FORMAT);
    copy(t->model, sizeof t->model, facts, "model");
    copy(t->data, sizeof t->data, facts, "data");
    copy(t->precision, sizeof t->precision, facts, "precision");
    copy(t->strategy, sizeof t->strategy, facts, "strategy");
    t->hosts = (int)whole(facts, "hosts");
    t->epochs = whole(facts, "epochs");
    t->steps_per_epoch = whole(facts, "steps_per_epoch");
    t->steps_asked = whole(facts, "steps_asked");
    t->recorded_epochs = whole(facts, "recorded_epochs");
    t->recorded_first_step = whole(facts, "recorded_first_step");
    t->recorded_steps = whole(facts, "recorded_steps");
    t->dropped = whole(facts, "dropped_events");
    t->clock_error = json_number_value(json_object_get(facts, "clock_error_seconds"));
    int64_t workers = whole(facts, "workers"), replicas = whole(facts, "replicas_per_worker");
    if (workers < 1 || workers > 1 << 20 || replicas < 1 || replicas > 1 << 16)
        return broken(r, "the number of workers or replicas makes no sense");
    if (workers * replicas > r->bytes / LABEL_BYTES)
        return broken(r, "it speaks of more workers and replicas than it has room for");
    t->workers = (int)workers;
    t->replicas_per_worker = (int)replicas;
    r->per_worker = 2 * t->replicas_per_worker + 16;  // loaders, and threads that exchange
    LS_TRY(ls_calloc(workers * r->per_worker, sizeof *r->tracks, &r->tracks));
    LS_TRY(ls_calloc(workers, sizeof *r->names, &r->names));
    LS_TRY(ls_calloc(workers, sizeof *r->computing, &r->computing));
    LS_TRY(ls_calloc(workers, sizeof *r->background, &r->background));
    for (int64_t i = 0; i < workers * r->per_worker; i++)
        r->tracks[i] = (track){.worker = (int)(i / r->per_worker), .replica = -1};
    return LS_OK;
}

// Everything before the first event: an object that lacks its end.
static ls_status read_head(reader *r) {
    char *head = NULL;
    size_t used = 0;
    ls_status status = ls_calloc(HEAD_BYTES + 16, 1, &head);
    for (int found = 0, more; status == LS_OK && !found;) {
        status = ls_lines_next(&r->lines, &more);
        if (status != LS_OK) break;
        size_t n = (size_t)r->lines.bytes;
        if (!more || used + n > HEAD_BYTES) {
            status = broken(r, "the list of events does not begin");
            break;
        }
        memcpy(head + used, r->lines.text, n);
        used += n;
        found = strncmp(r->lines.text, "\"traceEvents\":[", 15) == 0;
    }
    if (status == LS_OK) {
        json_error_t error;
        snprintf(head + used, 16, "]}");
        json_t *root = json_loads(head, 0, &error);
        status = root ? take_facts(r, json_object_get(root, "otherData")) : broken(r, error.text);
        json_decref(root);
    }
    free(head);
    return status;
}

// --- events ------------------------------------------------------------------------------------------------------------

static ls_status add_layer(reader *r, const char *name, double microseconds) {
    ls_trace_report *t = r->report;
    int i = r->next_layer, tried = 0;  // most often it is the one behind the last
    for (; tried < t->layer_count; tried++, i = (i + 1) % t->layer_count)
        if (i < t->layer_count && strcmp(t->layers[i].name, name) == 0) break;
    if (tried == t->layer_count) {
        i = t->layer_count;
        if (i == MOST_LAYERS) return broken(r, "it has more layers than any network");
        int64_t capacity = r->layer_capacity;
        if (!grow(&t->layers, &capacity, t->layer_count, sizeof *t->layers)) return out_of_memory(r);
        r->layer_capacity = (int)capacity;
        t->layers[t->layer_count] = (ls_trace_layer){.seconds = 0};
        snprintf(t->layers[t->layer_count++].name, sizeof t->layers->name, "%s", name);
    }
    t->layers[i].seconds += microseconds;
    r->next_layer = (i + 1) % t->layer_count;
    return LS_OK;
}

// A step is written after what it consists of; what began before it (the end of an epoch) is no part of it. Its gradients were complete when
// its first wait began.
static ls_status end_step(reader *r, track *t, const json_t *event, double start, double end) {
    double ready = NAN;
    for (int64_t i = 0; i < t->part_count; i++) {
        const part *p = &t->parts[i];
        if (p->start < start) continue;
        *p->sum += p->microseconds;
        if (p->sum == &t->sum.wait && !isfinite(ready)) ready = p->start;
    }
    t->part_count = 0;
    t->sum.step += end - start;
    t->steps++;
    if (!isfinite(ready)) return LS_OK;
    if (!grow(&r->arrivals, &r->arrival_capacity, r->arrival_count, sizeof *r->arrivals)) return out_of_memory(r);
    int64_t step = json_integer_value(json_object_get(json_object_get(event, "args"), "step"));
    int lane = t->worker * r->report->replicas_per_worker + t->replica;
    r->arrivals[r->arrival_count++] = (arrival){step, lane, ready};
    return LS_OK;
}

static ls_status take_span(reader *r, track *t, const json_t *event) {
    const char *kind = json_string_value(json_object_get(event, "cat"));
    const char *name = json_string_value(json_object_get(event, "name"));
    double start = json_number_value(json_object_get(event, "ts"));
    double long_for = json_number_value(json_object_get(event, "dur")), end = start + long_for;
    if (!kind || !name || !isfinite(end) || long_for < 0) return broken(r, "a span without name, category or times");
    r->report->spans++;
    if (t->replica < 0) {
        if (strcmp(kind, "exchange") == 0) return add_span(r, &r->background[t->worker], start, end);
        return LS_OK;
    }
    if (strcmp(kind, "step") == 0) return end_step(r, t, event, start, end);
    if (strcmp(kind, "layer") == 0) return add_layer(r, name, long_for);
    const struct {
        const char *kind;
        double *sum;
    } sums[] = {{"load", &t->sum.load},         {"forward", &t->sum.forward}, {"backward", &t->sum.backward},
                {"exchange", &t->sum.exchange}, {"wait", &t->sum.wait},       {"update", &t->sum.update},
                {"serial", &t->sum.serial}};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) {
        if (strcmp(kind, sums[i].kind) != 0) continue;
        if (!grow(&t->parts, &t->part_capacity, t->part_count, sizeof *t->parts)) return out_of_memory(r);
        t->parts[t->part_count++] = (part){sums[i].sum, start, long_for};
    }
    if (t->replica == 0 && (strcmp(kind, "forward") == 0 || strcmp(kind, "backward") == 0))
        return add_span(r, &r->computing[t->worker], start, end);
    return LS_OK;
}

static void take_label(reader *r, int worker, track *t, const json_t *event) {
    const char *what = json_string_value(json_object_get(event, "name"));
    const char *name = json_string_value(json_object_get(json_object_get(event, "args"), "name"));
    if (!what || !name) return;
    if (strcmp(what, "process_name") == 0) snprintf(r->names[worker], sizeof *r->names, "%s", name);
    int replica;
    if (strcmp(what, "thread_name") == 0 && sscanf(name, "replica %d", &replica) == 1 && replica >= 0 &&
        replica < r->report->replicas_per_worker)
        t->replica = replica;
}

static ls_status take_event(reader *r, const json_t *event) {
    json_int_t process = json_integer_value(json_object_get(event, "pid"));
    json_int_t thread = json_integer_value(json_object_get(event, "tid"));
    const char *kind = json_string_value(json_object_get(event, "ph"));
    if (!kind || process < 1 || process > r->report->workers || thread < 0 || thread >= r->per_worker)
        return broken(r, "an event of a worker or thread that there is not");
    track *t = &r->tracks[(process - 1) * r->per_worker + thread];
    if (strcmp(kind, "X") == 0) return take_span(r, t, event);
    if (strcmp(kind, "M") == 0) take_label(r, (int)process - 1, t, event);
    return LS_OK;
}

static ls_status read_events(reader *r) {
    for (int more;;) {
        LS_TRY(ls_lines_next(&r->lines, &more));
        if (!more) return broken(r, "the file ends in the middle");
        if (strncmp(r->lines.text, "]}", 2) == 0) return LS_OK;
        json_t *event = json_loads(r->lines.text, JSON_DISABLE_EOF_CHECK, NULL);  // behind it is a comma
        ls_status status = event ? take_event(r, event) : broken(r, "no event");
        json_decref(event);
        LS_TRY(status);
    }
}

// --- putting it together -----------------------------------------------------------------------------------------------

static int by_start(const void *a, const void *b) {
    double x = ((const span *)a)->start, y = ((const span *)b)->start;
    return (x > y) - (x < y);
}

// How long `a` and `b` are both under way; neither overlaps with itself.
static double overlap(spans *a, spans *b) {
    double sum = 0;
    if (a->count) qsort(a->list, (size_t)a->count, sizeof *a->list, by_start);
    if (b->count) qsort(b->list, (size_t)b->count, sizeof *b->list, by_start);
    for (int64_t i = 0, j = 0; i < a->count && j < b->count;) {
        double both = fmin(a->list[i].end, b->list[j].end) - fmax(a->list[i].start, b->list[j].start);
        if (both > 0) sum += both;
        if (a->list[i].end < b->list[j].end)
            i++;
        else
            j++;
    }
    return sum;
}

enum { TIMES = sizeof(ls_trace_times) / sizeof(double) };

static void add_times(ls_trace_times *to, const ls_trace_times *t, double scale) {
    for (int i = 0; i < TIMES; i++) ((double *)to)[i] += scale * ((const double *)t)[i];
}

// Rows are workers, or the replicas of the only one.
static int row_of(const ls_trace_report *t, int worker, int replica) { return t->workers > 1 ? worker : replica; }

static ls_status make_rows(reader *r) {
    ls_trace_report *t = r->report;
    int lanes = t->workers * t->replicas_per_worker;
    t->row_count = t->workers > 1 ? t->workers : t->replicas_per_worker;
    LS_TRY(ls_calloc(t->row_count, sizeof *t->rows, &t->rows));
    for (int i = 0; i < t->workers * r->per_worker; i++) {
        track *k = &r->tracks[i];
        if (k->replica < 0) continue;
        if (k->steps == 0) return broken(r, "there is no step of one of the replicas");
        ls_trace_times *s = &k->sum;
        s->rest = s->step - s->load - s->forward - s->backward - s->exchange - s->wait - s->update - s->serial;
        s->hidden = overlap(&r->background[k->worker], &r->computing[k->worker]);
        ls_trace_row *row = &t->rows[row_of(t, k->worker, k->replica)];
        row->steps = k->steps;
        double per_step = 1e-6 / (double)k->steps;
        add_times(&row->times, s, t->workers > 1 ? per_step / t->replicas_per_worker : per_step);
        add_times(&t->mean, s, per_step / lanes);
        if (t->workers > 1)
            snprintf(row->name, sizeof row->name, "%s", r->names[k->worker]);
        else
            snprintf(row->name, sizeof row->name, "replica %d", k->replica);
    }
    return LS_OK;
}

static int by_step(const void *a, const void *b) {
    const arrival *x = a, *y = b;
    if (x->step != y->step) return (x->step > y->step) - (x->step < y->step);
    return x->lane - y->lane;
}

// Who was last in each step that all replicas recorded.
static void find_last(reader *r) {
    ls_trace_report *t = r->report;
    int lanes = t->workers * t->replicas_per_worker, steps = 0;
    if (r->arrival_count) qsort(r->arrivals, (size_t)r->arrival_count, sizeof *r->arrivals, by_step);
    for (int64_t i = 0, n; i < r->arrival_count; i += n) {
        const arrival *a = &r->arrivals[i];
        double mean = 0;
        int last = 0;
        for (n = 0; i + n < r->arrival_count && a[n].step == a->step; n++) {
            mean += a[n].at / lanes;
            if (a[n].at > a[last].at) last = (int)n;
        }
        if (n != lanes) continue;
        steps++;
        t->rows[row_of(t, a[last].lane / t->replicas_per_worker, a[last].lane % t->replicas_per_worker)].last++;
        for (int k = 0; k < lanes; k++) {
            int replicas = t->workers > 1 ? t->replicas_per_worker : 1;
            t->rows[row_of(t, a[k].lane / t->replicas_per_worker, a[k].lane % t->replicas_per_worker)].lateness +=
                1e-6 * (a[k].at - mean) / replicas;
        }
    }
    for (int i = 0; i < t->row_count && steps > 0; i++) t->rows[i].lateness /= steps;
}

static int slowest_first(const void *a, const void *b) {
    double x = ((const ls_trace_layer *)a)->seconds, y = ((const ls_trace_layer *)b)->seconds;
    return (x < y) - (x > y);
}

static void finish_layers(ls_trace_report *t) {
    double all = 0, steps = t->row_count > 0 && t->rows[0].steps > 0 ? (double)t->rows[0].steps : 1;
    for (int i = 0; i < t->layer_count; i++) all += t->layers[i].seconds;
    for (int i = 0; i < t->layer_count; i++) {
        t->layers[i].share = all > 0 ? t->layers[i].seconds / all : 0;
        t->layers[i].seconds *= 1e-6 / steps;
    }
    if (t->layer_count) qsort(t->layers, (size_t)t->layer_count, sizeof *t->layers, slowest_first);
}

// --- the public functions ----------------------------------------------------------------------------------------------

// The file that `path` stands for.
static const char *file_of(const char *path, char *buffer, size_t size) {
    struct stat there;
    if (stat(path, &there) != 0 || !S_ISDIR(there.st_mode)) return path;
    snprintf(buffer, size, "%s%strace.json", path, path[strlen(path) - 1] == '/' ? "" : "/");
    return buffer;
}

int ls_trace_report_is(const char *path) {
    char buffer[4096], head[64] = "";
    struct stat there;
    snprintf(buffer, sizeof buffer, "%s/study.json", path);
    if (stat(buffer, &there) == 0) return 0;
    FILE *file = ls_input_open(file_of(path, buffer, sizeof buffer));
    if (!file) return 0;
    size_t n = fread(head, 1, sizeof head - 1, file);
    fclose(file);
    head[n] = 0;
    return strstr(head, "\"lockstep_trace\"") != NULL;
}

static void free_reader(reader *r) {
    for (int w = 0; w < r->report->workers; w++) {
        if (r->computing) free(r->computing[w].list);
        if (r->background) free(r->background[w].list);
        for (int i = 0; r->tracks && i < r->per_worker; i++) free(r->tracks[w * r->per_worker + i].parts);
    }
    free(r->computing);
    free(r->background);
    free(r->tracks);
    free(r->names);
    free(r->arrivals);
}

ls_status ls_trace_report_load(const char *path, ls_trace_report **out) {
    char buffer[4096];
    reader r = {.path = file_of(path, buffer, sizeof buffer)};
    *out = NULL;
    FILE *file = ls_input_open(r.path);
    if (!file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", r.path,
                       ls_input_why(errno));
    r.lines = (ls_lines){.file = file, .path = r.path};
    ls_status status = ls_calloc(1, sizeof *r.report, &r.report);
    struct stat there;
    if (status == LS_OK) {
        r.bytes = fstat(fileno(file), &there) == 0 ? there.st_size : 0;
        status = read_head(&r);
        if (status == LS_OK) status = read_events(&r);
        if (status == LS_OK) status = make_rows(&r);
        if (status == LS_OK) {
            find_last(&r);
            finish_layers(r.report);
        }
        free_reader(&r);
    }
    free(r.lines.text);
    fclose(file);
    if (status == LS_OK)
        *out = r.report;
    else
        ls_trace_report_free(&r.report);
    return status;
}

void ls_trace_report_free(ls_trace_report **report) {
    if (!*report) return;
    free((*report)->rows);
    free((*report)->layers);
    free(*report);
    *report = NULL;
}
