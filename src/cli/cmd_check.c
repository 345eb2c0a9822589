// lockstep check: what this build and this machine can do, in one screen. Every line says OK or what to do.
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/check.h"

#define MAX_DIFFERENCES 8
#define MAX_TABLE       16  // workers shown one by one

typedef struct settings {
    int workers, json;
} settings;

static const ls_option table[] = {
    {"workers", LS_OPTION_INT, .offset = offsetof(settings, workers), .metavar = "N", .min = 1, .max = 65536,
     .initial = "1, or as many as a launcher started", .group = "Check",
     .help =
         "processes to start, as in training; they are compared and what an exchange between them costs is measured"},
    {"json", LS_OPTION_FLAG, .offset = offsetof(settings, json), .group = "Check", .help = "print JSON"},
    {.name = NULL},
};

static const struct {
    const char *key, *heading;
} lines[CHECK_COUNT] = {
#define CHECK_TEXTS(name, key, heading) {key, heading},
    CHECK_LIST(CHECK_TEXTS)
#undef CHECK_TEXTS
};

static const char *const status_words[] = {"OK", "WARN", "FAIL"};

void check_say(check_line *line, check_status status, const char *remedy, const char *format, ...) {
    va_list args;
    line->status = (int32_t)status;
    va_start(args, format);
    vsnprintf(line->found, sizeof line->found, format, args);
    va_end(args);
    snprintf(line->remedy, sizeof line->remedy, "%s", remedy ? remedy : "");
}

// What is shown: one line per check, and how the workers differ.
typedef struct summary {
    check_line line[CHECK_COUNT], differences[MAX_DIFFERENCES];
    int difference_count, warnings, failures;
} summary;

// --- all workers' lines into one -------------------------------------------------------------------------------------

// Worker 0's line, or that of the lowest rank for which it is worse.
static void merge_line(const check_worker *workers, int count, int which, check_line *out) {
    int worst = 0, as_bad = 0;
    for (int i = 1; i < count; i++)
        if (workers[i].line[which].status > workers[worst].line[which].status) worst = i;
    const check_line *l = &workers[worst].line[which];
    *out = *l;
    if (worst == 0) return;
    for (int i = 0; i < count; i++) as_bad += workers[i].line[which].status == l->status;
    if (as_bad > 1)
        snprintf(out->found, sizeof out->found, "worker %d (%.30s) and %d more: %.160s", worst,
                 workers[worst].facts.host, as_bad - 1, l->found);
    else
        snprintf(out->found, sizeof out->found, "worker %d (%.30s): %.180s", worst, workers[worst].facts.host,
                 l->found);
}

static void count_line(summary *s, const check_line *l) {
    s->warnings += l->status == CHECK_WARN;
    s->failures += l->status == CHECK_FAIL;
}

static void summarize(const check_worker *workers, int count, summary *s) {
    double bandwidth = 0;
    int cores = 0;
    *s = (summary){.warnings = 0};
    for (int i = 0; i < CHECK_COUNT; i++) merge_line(workers, count, i, &s->line[i]);
    for (int i = 0; i < count; i++)
        if (strcmp(workers[i].facts.host, workers[0].facts.host) == 0)
            bandwidth += workers[i].facts.bandwidth, cores += workers[i].facts.cores > 0 ? workers[i].facts.cores : 1;
    if (count > 1 && s->line[CHECK_BANDWIDTH].status == CHECK_OK)
        check_say(&s->line[CHECK_BANDWIDTH], CHECK_OK, NULL, "%.1f GB/s on this host, triad on %d threads at once",
                  bandwidth / 1e9, cores);
    s->difference_count = count > 1 ? check_compare(workers, count, s->differences, MAX_DIFFERENCES) : 0;
    for (int i = 0; i < CHECK_COUNT; i++) count_line(s, &s->line[i]);
    for (int i = 0; i < s->difference_count; i++) count_line(s, &s->differences[i]);
}

// --- output ----------------------------------------------------------------------------------------------------------

#define TEXT_COLUMN 21

static int width(void) {
    int columns = cli_terminal_width();
    return columns < 60 ? 60 : columns > 100 ? 100 : columns;
}

static void print_line(const check_line *l, const char *heading) {
    char left[64], remedy[sizeof l->remedy + 8];
    snprintf(left, sizeof left, "%-6s%s", status_words[l->status], heading);
    ls_print_entry(stdout, left, TEXT_COLUMN, width(), l->found);
    if (!l->remedy[0]) return;
    snprintf(remedy, sizeof remedy, "-> %s", l->remedy);
    ls_print_entry(stdout, "", TEXT_COLUMN, width(), remedy);
}

static void print_workers(const check_worker *workers, int count) {
    printf("\n%6s  %-24s %5s  %-12s %9s %9s\n", "worker", "host", "cores", "CPUs", "memory", "triad");
    for (int i = 0; i < count && i < MAX_TABLE; i++) {
        const check_facts *f = &workers[i].facts;
        printf("%6d  %-24.24s %5d  %-12.12s %6.1f GB %4.1f GB/s\n", i, f->host, f->cores, f->bound,
               (double)f->memory / 1e9, f->bandwidth / 1e9);
    }
    if (count > MAX_TABLE) printf("%6s  and %d more: --json has all of them\n", "...", count - MAX_TABLE);
}

static void print_text(const check_worker *workers, int count, int hosts, const summary *s) {
    const check_facts *f = &workers[0].facts;
    printf("lockstep %s, %d worker%s on %d host%s; %s: %s\n\n", f->version, count, count == 1 ? "" : "s", hosts,
           hosts == 1 ? "" : "s", f->host, f->cpu);
    for (int i = 0; i < CHECK_COUNT; i++) print_line(&s->line[i], lines[i].heading);
    check_line alike;
    check_say(&alike, CHECK_OK, NULL, "%d, alike in program, kernels, MPI, processor, cores, memory, speed", count);
    if (count > 1 && s->difference_count == 0) print_line(&alike, "Workers");
    for (int i = 0; i < s->difference_count; i++) print_line(&s->differences[i], "Workers");
    if (count > 1) print_workers(workers, count);
    if (s->failures == 0 && s->warnings == 0)
        printf("\nReady to train.\n");
    else if (s->failures == 0)
        printf("\nReady to train; %d line%s what to do (->).\n", s->warnings, s->warnings == 1 ? " says" : "s say");
}

static json_t *line_json(const check_line *l, const char *key) {
    json_t *o = json_pack("{s:s,s:s,s:s}", "check", key, "status", status_words[l->status], "found", l->found);
    json_object_set_new(o, "to_do", l->remedy[0] ? json_string(l->remedy) : json_null());
    return o;
}

// 0 stands for what was not measured or is not told.
static void set_number(json_t *o, const char *key, double value) {
    json_object_set_new(o, key, value > 0 ? json_real(value) : json_null());
}

static void set_count(json_t *o, const char *key, int64_t value) {
    json_object_set_new(o, key, value > 0 ? json_integer((json_int_t)value) : json_null());
}

static json_t *worker_json(const check_facts *f, int rank) {
    json_t *o =
        json_pack("{s:i,s:s,s:s,s:s,s:s,s:s,s:i,s:s}", "worker", rank, "host", f->host, "processor", f->cpu, "kernels",
                  f->kernels, "mpi", f->mpi, "lockstep", f->version, "cores", (int)f->cores, "cpus", f->bound);
    set_count(o, "memory_bytes", f->memory);
    set_count(o, "memory_available_bytes", f->memory_available);
    set_count(o, "shared_memory_bytes", f->shm_total);
    set_count(o, "shared_memory_free_bytes", f->shm_free);
    set_count(o, "disk_free_bytes", f->disk_free);
    set_number(o, "clock_hz", f->clock);
    set_number(o, "bandwidth_bytes_per_second", f->bandwidth);
    set_number(o, "exchange_seconds", f->exchange);
    set_number(o, "disk_write_bytes_per_second", f->disk_write);
    set_number(o, "disk_read_bytes_per_second", f->disk_read);
    set_number(o, "disk_random_bytes_per_second", f->disk_random);
    return o;
}

static ls_status print_json(const check_worker *workers, int count, int hosts, const summary *s) {
    json_t *checks = json_array(), *all = json_array();
    for (int i = 0; i < CHECK_COUNT; i++) json_array_append_new(checks, line_json(&s->line[i], lines[i].key));
    for (int i = 0; i < s->difference_count; i++)
        json_array_append_new(checks, line_json(&s->differences[i], "workers"));
    for (int i = 0; i < count; i++) json_array_append_new(all, worker_json(&workers[i].facts, i));
    json_t *root =
        json_pack("{s:i,s:b,s:i,s:i,s:i,s:o,s:o}", "lockstep_check", 1, "usable", s->failures == 0, "warnings",
                  s->warnings, "failures", s->failures, "hosts", hosts, "checks", checks, "workers", all);
    if (!root) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(root);
    return LS_OK;
}

// By the worker that speaks. A failure is said again on the standard error, which is where scripts look.
static ls_status report(const settings *set, const check_worker *workers, int count, int hosts) {
    summary s;
    char names[256] = "";
    summarize(workers, count, &s);
    if (set->json)
        LS_TRY(print_json(workers, count, hosts, &s));
    else
        print_text(workers, count, hosts, &s);
    if (s.failures == 0) return LS_OK;
    size_t used = 0;
    for (int i = 0; i < CHECK_COUNT; i++)
        if (s.line[i].status == CHECK_FAIL)
            ls_text_add(names, sizeof names, &used, "%s%s", used ? ", " : "", lines[i].heading);
    return LS_FAIL(LS_STATUS_UNSUPPORTED, "cannot train like this: see what is marked FAIL (%s)",
                   names[0] ? names : "Workers");
}

// --- the command -----------------------------------------------------------------------------------------------------

// When the job cannot be joined, the process that speaks checks the rest alone and shows why.
static ls_status check_alone(check *c, const settings *set) {
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    if (cli_job_rank() > 0) return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s", sentence);
    LS_TRY(ls_context_create_alone(&c->context));
    c->info = ls_context_describe(c->context);
    ls_status status = ls_topology_create(c->context, &c->topology);
    if (status == LS_OK) {
        check_kernels(c);
        check_accelerators(c);
        check_cores(c);
        check_memory(c);
        check_shared_memory(c);
        check_disk(c);
        check_open_files(c);
        check_say(&c->mine.line[CHECK_MPI], CHECK_FAIL, "Mend this first; nothing between workers was measured.", "%s",
                  sentence);
        check_say(&c->mine.line[CHECK_BANDWIDTH], CHECK_OK, NULL, "not measured");
        check_say(&c->mine.line[CHECK_EXCHANGE], CHECK_OK, NULL, "not measured");
        status = report(set, &c->mine, 1, 1);
    }
    ls_topology_destroy(&c->topology);
    ls_context_destroy(&c->context);
    return status;
}

// What worker 0 finds of all: none of them failed more than the others.
typedef struct verdict {
    ls_status status;
    char sentence[512];
} verdict;

static ls_status check_together(check *c, const settings *set) {
    check_worker *all = NULL;
    c->context = c->cli->context;
    c->info = ls_context_describe(c->context);
    LS_TRY(ls_topology_create(c->context, &c->topology));
    check_mpi(c);
    check_kernels(c);
    check_accelerators(c);
    check_cores(c);
    check_memory(c);
    check_shared_memory(c);
    check_open_files(c);
    // The disk before the others: they would wait for it at the next step they take together, not compete with it.
    if (c->info.local_rank == 0) check_disk(c);
    ls_status status = check_bandwidth(c);
    if (status == LS_OK) status = check_exchange(c);
    ls_topology_destroy(&c->topology);
    LS_TRY(status);
    LS_TRY(ls_context_agree(c->context, ls_calloc(c->info.size, sizeof *all, &all)));
    status = ls_context_gather(c->context, &c->mine, all, sizeof c->mine);
    verdict v = {.status = status};
    if (status == LS_OK && c->info.rank == 0) v.status = report(set, all, c->info.size, c->info.hosts);
    if (v.status != LS_OK) snprintf(v.sentence, sizeof v.sentence, "%s", ls_error_message());
    free(all);
    LS_TRY(ls_context_agree(c->context, status));
    LS_TRY(ls_context_broadcast(c->context, &v, sizeof v, 0));
    return v.status == LS_OK ? LS_OK : LS_FAIL(v.status, "%s", v.sentence);
}

static ls_status join_and_check(check *c, const settings *set) {
    cli *program = c->cli;
    ls_status room = LS_OK;
    if (set->workers > 1 && cli_job_size() == 0) room = check_shared_room();
    if (room == LS_OK) LS_TRY(cli_job_launch(program, set->workers));
    program->stage = CLI_STAGE_TOGETHER;
    gethostname(c->mine.facts.host, sizeof c->mine.facts.host - 1);
    snprintf(c->mine.facts.version, sizeof c->mine.facts.version, "%s", ls_version());
    if (cli_job_rank() <= 0) {  // before MPI runs: some of its transports mind programs that start others
        check_launcher(c);
        check_slurm(c);
    }
    if (room != LS_OK || cli_job_join(program, "check", set->workers) != LS_OK) return check_alone(c, set);
    return check_together(c, set);
}

static ls_status run_check(cli *program, int argc, char **argv) {
    settings set = {.workers = 0};
    const ls_option_set options[] = {{table, &set}, {NULL, NULL}};
    ls_words words;
    LS_TRY(ls_options_parse(options, argc, argv, 0, &words));
    if (words.help) {
        printf("Usage: lockstep check [OPTIONS]\n\n");
        ls_print_entry(stdout, "", 0, cli_help_width(),
                       "Prints what this build and this machine can do, one line each: OK, or what to do. With several "
                       "workers it compares them and names the one that differs. The exit status is 1 when training is "
                       "impossible; warnings leave it at 0.");
        ls_options_help(stdout, options, cli_help_width());
        return LS_OK;
    }
    check *c;
    LS_TRY(ls_calloc(1, sizeof *c, &c));
    c->cli = program;
    ls_status status = join_and_check(c, &set);
    free(c);
    return status;
}

const cli_command cli_command_check = {
    "check", "what this build and this machine can do, and what to do about the rest", run_check};
