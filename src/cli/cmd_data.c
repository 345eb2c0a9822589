// lockstep data: what a dataset has: samples, classes, sizes, what is broken, bytes, and what a run would have to read.
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/output.h"
#include "base/text.h"
#include "cli/data.h"

enum { MOST_CLASSES = 40 };  // that are listed one by one

typedef struct settings {
    const char *sheet, *json;
    int64_t samples;
    int threads, decode, storage, nodes;
    double rate;
} settings;

static const ls_option table[] = {
    {"samples", LS_OPTION_COUNT, .offset = offsetof(settings, samples), .metavar = "N", .min = 1, .group = "Data",
     .initial = "all", .help = "look at N samples of each set, evenly spread"},
    {"decode", LS_OPTION_FLAG, .offset = offsetof(settings, decode), .group = "Data",
     .help = "read images' headers alone: what is broken behind them is not found"},
    {"threads", LS_OPTION_INT, .offset = offsetof(settings, threads), .metavar = "T", .min = 1, .max = 256,
     .group = "Data", .initial = "one per core", .help = "threads that read and decode"},
    {"rate", LS_OPTION_REAL, .offset = offsetof(settings, rate), .metavar = "R", .min = 0, .group = "Data",
     .help = "samples per second of a training, as 'lockstep bench' tells them: what it would read"},
    {"nodes", LS_OPTION_INT, .offset = offsetof(settings, nodes), .metavar = "N", .min = 1, .max = 1000000,
     .group = "Data", .help = "that share this rate: what each of them would read"},
    {"storage", LS_OPTION_FLAG, .offset = offsetof(settings, storage), .group = "Data",
     .help = "do not measure what the files lie on, which takes three seconds"},
    {"sheet", LS_OPTION_TEXT, .offset = offsetof(settings, sheet), .metavar = "FILE", .group = "Output",
     .help = "draw ten training images of each class into FILE, a PNG"},
    {"json", LS_OPTION_TEXT, .offset = offsetof(settings, json), .metavar = "FILE", .group = "Output",
     .help = "write all of it to FILE, as JSON"},
    {.name = NULL},
};

typedef struct view {
    settings set;
    const char *spec;
    ls_dataset *dataset;
    data_found found;
    int cores;  // that decode at once
    data_rates rates;
} view;

static const char *const set_words[DATA_SETS] = {"train", "test"};

// --- numbers ---------------------------------------------------------------------------------------------------------

static int64_t good(const data_set *s) { return s->looked - s->broken; }
static double mean_bytes(const data_found *f) {
    int64_t bytes = 0, count = 0;
    for (int s = 0; s < DATA_SETS; s++) bytes += f->set[s].bytes, count += good(&f->set[s]);
    return count ? (double)bytes / (double)count : 0;
}
static int64_t looked(const data_found *f) { return f->set[DATA_TRAIN].looked + f->set[DATA_TEST].looked; }
static int64_t all_broken(const data_found *f) { return f->set[DATA_TRAIN].broken + f->set[DATA_TEST].broken; }
// Samples a second of a thread, as they were looked at, waiting for the storage and for a core included.
static double thread_rate(const data_found *f) {
    return f->seconds > 0 ? (double)looked(f) / f->seconds / f->threads : 0;
}
// Cores that work for so many samples a second, by the processor's own time: what is waited for is not in it.
static double busy_cores(const data_found *f, double rate) {
    return looked(f) > 0 ? rate * f->busy / (double)looked(f) : 0;
}
// Of the whole set, where only some were looked at: as many times more.
static double set_bytes(const data_set *s) {
    if (s->looked == s->count) return (double)s->bytes;
    return good(s) ? (double)s->bytes / (double)good(s) * (double)(s->count - s->broken) : 0;
}

static const char *amount(double bytes, char text[32]) {
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int unit = 0;
    while (bytes >= 1000 && unit < 5) bytes /= 1000, unit++;
    snprintf(text, 32, unit && bytes < 100 ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

// --- text ------------------------------------------------------------------------------------------------------------

static const char *class_text(const view *v, int class, char text[64]) {
    const char *name = ls_dataset_class(v->dataset, class);
    if (name)
        snprintf(text, 64, "%s", name);
    else
        snprintf(text, 64, "%d", class);
    ls_text_clean(text);
    return text;
}

static void print_row(const view *v, const char *name, void (*text)(const data_set *s, char out[96])) {
    printf("%-20s", name);
    for (int s = 0; s < DATA_SETS; s++) {
        char out[96] = "";
        if (v->found.set[s].count) text(&v->found.set[s], out);
        printf("%24s", out);
    }
    printf("\n");
}

static void count_text(const data_set *s, char out[96]) { cli_count(s->count, out); }
static void looked_text(const data_set *s, char out[96]) { cli_count(s->looked, out); }
static void broken_text(const data_set *s, char out[96]) { cli_count(s->broken, out); }
static void bytes_text(const data_set *s, char out[96]) { amount(set_bytes(s), out); }
static void size_text(const data_set *s, char out[96]) {
    char a[32], b[32];
    snprintf(out, 96, "%s to %s", amount((double)s->size.least, a), amount((double)s->size.most, b));
}
static void range_text(const data_range *r, char out[96]) {
    if (r->least == r->most)
        snprintf(out, 96, "%lld", (long long)r->least);
    else
        snprintf(out, 96, "%lld to %lld (%lld)", (long long)r->least, (long long)r->most, (long long)r->median);
}
static void height_text(const data_set *s, char out[96]) { range_text(&s->height, out); }
static void width_text(const data_set *s, char out[96]) { range_text(&s->width, out); }
static void grey_text(const data_set *s, char out[96]) { cli_count(s->grey, out); }

static void print_sets(const view *v) {
    const data_set *train = &v->found.set[DATA_TRAIN];
    printf("%-20s%24s%24s\n", "", set_words[0], set_words[1]);
    print_row(v, "samples", count_text);
    if (train->looked < train->count) print_row(v, "looked at", looked_text);
    print_row(v, "broken", broken_text);
    print_row(v, "bytes", bytes_text);
    print_row(v, "bytes of a sample", size_text);
    if (train->height.most == 0) return;
    print_row(v, "height (median)", height_text);
    print_row(v, "width (median)", width_text);
    if (v->set.decode) print_row(v, "grey images", grey_text);
}

static void print_classes(const view *v) {
    const data_found *f = &v->found;
    char name[64], a[32], b[32];
    int shown = f->classes < MOST_CLASSES ? f->classes : MOST_CLASSES;
    if (!f->classes) return;
    printf("\n%-20s%24s%24s\n", "class", set_words[0], set_words[1]);
    for (int c = 0; c < shown; c++)
        printf("%-20s%24s%24s\n", class_text(v, c, name), cli_count(f->set[DATA_TRAIN].class_count[c], a),
               f->set[DATA_TEST].count ? cli_count(f->set[DATA_TEST].class_count[c], b) : "");
    if (shown < f->classes) printf("... and %s more, which --json has\n", cli_count(f->classes - shown, a));
}

static void print_rate(const view *v) {
    const data_found *f = &v->found;
    char a[32], b[32], c[32];
    double rate = v->set.rate, alone = thread_rate(f), cores = busy_cores(f, rate),
           threads = alone > 0 ? rate / alone : 0;
    printf("\n");
    cli_say("looked at %s samples in %.2f s with %d thread%s: %.0f samples and %s a second from each thread%s",
            cli_count(looked(f), a), f->seconds, f->threads, f->threads == 1 ? "" : "s", alone,
            amount(alone * mean_bytes(f), b), v->set.decode ? ", all of each image decoded" : "");
    if (rate > 0)
        cli_say(
            "a training at %g samples per second reads %s a second, an epoch %s; as here it would keep %.2f core%s "
            "busy, by the processor's own time, and %.2f thread%s, waiting included",
            rate, amount(rate * mean_bytes(f), b), amount(set_bytes(&f->set[DATA_TRAIN]), c), cores,
            cores == 1 ? "" : "s", threads, threads == 1 ? "" : "s");
    if (rate > 0 && v->set.nodes > 1)
        cli_say("each of %d nodes: %.3g samples and %s a second, %.2f cores", v->set.nodes, rate / v->set.nodes,
                amount(rate / v->set.nodes * mean_bytes(f), b), cores / v->set.nodes);
}

// Which of reading and decoding gives fewer samples, on each node; where storage was measured. Without decoding there is reading alone, which is worth
// a sentence where it is too slow.
static void print_limit(const view *v, double wanted) {
    const data_found *f = &v->found;
    double read = v->rates.samples, decoded = f->busy > 0 ? (double)looked(f) / f->busy * v->cores : 0;
    int reading = !v->set.decode || decoded <= 0 || read < decoded;
    double least = reading ? read : decoded;
    const char *what = reading ? "reading is the limit" : "decoding is the limit";
    if (read <= 0 || (!v->set.decode && read >= wanted)) return;
    if (least >= wanted)
        cli_say("%s: up to %.0f samples a second on a node like this, and %.3g are wanted", what, least, wanted);
    else
        cli_say("%s, and too slow: %.0f samples a second on a node like this, where %.3g are wanted%s", what, least,
                wanted, reading ? "; pack the files into a container, keep them on the nodes, or give --cache" : "");
}

static void print_storage(const view *v) {
    const data_rates *r = &v->rates;
    double wanted = v->set.rate / v->set.nodes;
    char a[32], b[32], c[32];
    if (!r->files) return;
    cli_say(
        "what the files lie on gives %s a second in order, %s a second in samples at random with %d thread%s (%.0f "
        "samples); what stays in the system's cache though it was asked to leave comes from there",
        amount(r->in_order, a), amount(r->at_random, b), r->threads, r->threads == 1 ? "" : "s", r->samples);
    cli_say("one thread opens %s files a second that the system has looked at before: %s",
            cli_count((int64_t)r->opened, c),
            r->remote ? "on a file system of servers, as here, they are mostly asked all the same"
                      : "on a disk of this machine, as here, the first time is slower, and is not measured");
    if (wanted > 0) print_limit(v, wanted);
}

static void print_broken(const view *v) {
    const data_found *f = &v->found;
    fflush(stdout);
    for (int i = 0; i < f->broken_told; i++) {
        char sentence[1024];
        snprintf(sentence, sizeof sentence, "%s", f->broken[i].sentence);
        ls_text_clean(sentence);
        fprintf(stderr, "lockstep data: %s\n", sentence);
    }
}

// --- JSON ------------------------------------------------------------------------------------------------------------

static json_t *text(const char *s) {
    json_t *j = json_string(s);
    return j ? j : json_string("(not UTF-8)");
}

static json_t *range_json(const data_range *r) {
    return json_pack("{s:I,s:I,s:I}", "least", (json_int_t)r->least, "most", (json_int_t)r->most, "median",
                     (json_int_t)r->median);
}

static json_t *set_json(const data_set *s) {
    if (s->count == 0) return json_null();
    return json_pack("{s:I,s:I,s:I,s:I,s:o,s:o,s:o,s:I}", "samples", (json_int_t)s->count, "looked_at",
                     (json_int_t)s->looked, "broken", (json_int_t)s->broken, "bytes", (json_int_t)set_bytes(s),
                     "sample_bytes", range_json(&s->size), "height", range_json(&s->height), "width",
                     range_json(&s->width), "grey", (json_int_t)s->grey);
}

static json_t *classes_json(const view *v) {
    json_t *list = json_array();
    for (int c = 0; c < v->found.classes; c++) {
        char name[64];
        json_array_append_new(list, json_pack("{s:o,s:I,s:I}", "name", text(class_text(v, c, name)), "train",
                                              (json_int_t)v->found.set[DATA_TRAIN].class_count[c], "test",
                                              (json_int_t)v->found.set[DATA_TEST].class_count[c]));
    }
    return list;
}

static json_t *broken_json(const data_found *f) {
    json_t *list = json_array();
    for (int i = 0; i < f->broken_told; i++)
        json_array_append_new(list, json_pack("{s:s,s:I,s:o}", "set", set_words[f->broken[i].set], "sample",
                                              (json_int_t)f->broken[i].sample, "failure", text(f->broken[i].sentence)));
    return list;
}

static ls_status cannot_write(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a place that can be written to", path, strerror(errno));
}

static ls_status write_json(const view *v) {
    const data_found *f = &v->found;
    ls_output output;
    if (!v->set.json) return LS_OK;
    if (ls_output_open(v->set.json, &output) != 0) return cannot_write(v->set.json);
    const data_rates *r = &v->rates;
    json_t *storage = r->files
                          ? json_pack("{s:I,s:i,s:f,s:f,s:f,s:f,s:b}", "files", (json_int_t)r->files, "threads",
                                      r->threads, "in_order_bytes_per_second", r->in_order, "random_bytes_per_second",
                                      r->at_random, "random_samples_per_second", r->samples, "files_opened_per_second",
                                      r->opened, "file_system_of_servers", r->remote)
                          : json_null();
    json_t *o = json_pack("{s:i,s:o,s:o,s:o,s:o,s:o,s:f,s:f,s:i,s:b,s:f,s:o}", "lockstep_data", 1, "data",
                          text(v->spec), "train", set_json(&f->set[DATA_TRAIN]), "test", set_json(&f->set[DATA_TEST]),
                          "classes", classes_json(v), "broken", broken_json(f), "seconds", f->seconds,
                          "processor_seconds", f->busy, "threads", f->threads, "decoded", v->set.decode,
                          "mean_sample_bytes", mean_bytes(f), "storage", storage);
    char *json = o ? ls_json_shorten(json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(17))) : NULL;
    int failed = !json || fprintf(output.file, "%s\n", json) < 0;
    free(json);
    json_decref(o);
    return ls_output_close(&output, v->set.json, !failed) != 0 || failed ? cannot_write(v->set.json) : LS_OK;
}

// --- the command -----------------------------------------------------------------------------------------------------

static ls_status find_threads(view *v, cli *c) {
    ls_topology *topology;
    LS_TRY(ls_topology_create(c->context, &topology));
    v->cores = ls_topology_host_cores(topology);
    ls_topology_destroy(&topology);
    if (v->cores < 1) v->cores = 1;
    if (!v->set.threads) v->set.threads = v->cores;
    if (v->cores > v->set.threads) v->cores = v->set.threads;
    return LS_OK;
}

static ls_status show(view *v, cli *c) {
    char name[256];
    c->stage = CLI_STAGE_TOGETHER;
    if (v->set.json && ls_output_check(v->set.json) != 0) return cannot_write(v->set.json);
    if (v->set.sheet && ls_output_check(v->set.sheet) != 0) return cannot_write(v->set.sheet);
    LS_TRY(ls_context_create_alone(&c->context));
    LS_TRY(find_threads(v, c));
    LS_TRY(ls_dataset_open(c->context, v->spec, &v->dataset));
    LS_TRY(data_look(v->dataset, v->set.samples, v->set.threads, v->set.decode, &v->found));
    if (v->set.storage) LS_TRY(data_storage(v->dataset, mean_bytes(&v->found), v->set.threads, &v->rates));
    snprintf(name, sizeof name, "%s", v->spec);
    ls_text_clean(name);
    cli_say("%s: %s classes", name, cli_count(v->found.classes, (char[32]){0}));
    if (*ls_dataset_note(v->dataset)) cli_say("%s", ls_dataset_note(v->dataset));
    printf("\n");
    print_sets(v);
    print_classes(v);
    print_rate(v);
    print_storage(v);
    if (v->set.sheet) LS_TRY(data_sheet(v->dataset, v->set.sheet));
    LS_TRY(write_json(v));
    int64_t broken = all_broken(&v->found);
    print_broken(v);
    if (!broken) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%lld of %lld samples cannot be read%s", (long long)broken,
                   (long long)looked(&v->found),
                   broken > DATA_TOLD ? ", the first of which were named above" : ", as was said above");
}

static ls_status run(cli *c, int argc, char **argv) {
    view v = {.set = {.decode = 1, .rate = 100, .storage = 1, .nodes = 1}};
    ls_words words;
    const ls_option_set options[] = {{table, &v.set}, {NULL, NULL}};
    LS_TRY(ls_options_parse(options, argc, argv, 1, &words));
    if (words.help) {
        printf("Usage: lockstep data SPEC [OPTIONS]\n\n");
        ls_print_entry(
            stdout, "", 0, cli_help_width(),
            "Looks at every sample of a dataset and tells how many there are of each class, how large they are, "
            "which are broken, and what a training would read. 'lockstep datasets' lists what SPEC may be. The "
            "exit status is 1 where samples are broken.");
        ls_options_help(stdout, options, cli_help_width());
        return LS_OK;
    }
    if (words.count == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "which dataset? Usage: lockstep data SPEC; 'lockstep datasets' lists what there is");
    v.spec = words.word[0];
    ls_status status = show(&v, c);
    data_found_free(&v.found);
    ls_dataset_destroy(&v.dataset);
    return status;
}

const cli_command cli_command_data = {"data", "tell what a dataset has, and what is broken in it", run};
