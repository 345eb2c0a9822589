#define _GNU_SOURCE
#include "cli/checkpoints.h"

#include <jansson.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/text.h"
#include "report/record.h"

#define AT(member) .offset = offsetof(cli_checkpoint_settings, member)
#define GROUP      .group = "Checkpoints"

static const ls_option table[] = {
    {"checkpoint", LS_OPTION_TEXT, AT(folder), .metavar = "DIR", GROUP,
     .help = "keep checkpoints in DIR: all that training goes on from, on any number of workers, with the same result"},
    {"checkpoint-every", LS_OPTION_TEXT, AT(every), .metavar = "WHEN", GROUP, .initial = "1epoch",
     .help = "take one so often: 200s, 10m, 2h, 500steps, 3epochs; and at the end, or where training is stopped"},
    {"keep", LS_OPTION_INT, AT(keep), .metavar = "N", .min = 1, .max = 100000, GROUP,
     .help = "keep the newest N, beside the one that was best where --validate tells"},
    {"keep-epochs", LS_OPTION_TEXT, AT(keep_epochs), .metavar = "E,E,...", GROUP, .initial = "none",
     .help = "keep those at the end of these epochs too, as 30,60,85"},
    {"resume", LS_OPTION_FLAG, AT(resume), GROUP,
     .help = "go on from the newest good one in --checkpoint's folder, with the recipe it was made by; begin where "
             "there is "
             "none"},
    {"resume-from", LS_OPTION_TEXT, AT(from), .metavar = "CKPT", GROUP, .initial = "none",
     .help =
         "begin with this one (or the newest in a folder of them), with the recipe given here: what differs is said"},
    {"restarts", LS_OPTION_INT, AT(restarts), .metavar = "N", .max = 100000, GROUP,
     .help = "with --workers: when a worker dies, start them again from the newest checkpoint, up to N times"},
    {.name = NULL},
};

const ls_option *cli_checkpoint_options(void) { return table; }

void cli_checkpoint_defaults(cli_checkpoint_settings *s) { *s = (cli_checkpoint_settings){.keep = 2}; }

// --- what was asked for ----------------------------------------------------------------------------------------------

static ls_status read_every(const char *text, ls_checkpoint_config *c) {
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"s", 1}, {"m", 60}, {"h", 3600}, {"step", 0}, {"steps", 0}, {"epoch", -1}, {"epochs", -1}};
    char *unit;
    double n = strtod(text, &unit);
    for (size_t i = 0; i < sizeof units / sizeof units[0] && n > 0 && n <= 1e9; i++) {
        if (strcmp(unit, units[i].unit) != 0 || (units[i].seconds <= 0 && n != (double)(int64_t)n)) continue;
        c->every_epochs = units[i].seconds < 0 ? (int)n : 0;
        c->every_steps = units[i].seconds == 0 ? (int64_t)n : 0;
        c->every_seconds = units[i].seconds > 0 ? n * units[i].seconds : 0;
        return LS_OK;
    }
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "--checkpoint-every: expected a number with s, m, h, steps or epochs behind it, as 200s or 500steps, "
        "got '%.40s'",
        text);
}

ls_status cli_checkpoints_check(cli_checkpoints *c) {
    const cli_checkpoint_settings *s = &c->set;
    const char *needs = s->every         ? "checkpoint-every"
                        : s->keep_epochs ? "keep-epochs"
                        : s->resume      ? "resume"
                        : s->restarts    ? "restarts"
                                         : NULL;
    ls_checkpoint_config_init(&c->config);
    if (!s->folder && needs)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "--%s: of which checkpoints? --checkpoint DIR names their folder",
                       needs);
    if (s->every) LS_TRY(read_every(s->every, &c->config));
    c->config.folder = s->folder;
    c->config.keep = s->keep;
    c->config.keep_epochs = s->keep_epochs;
    return LS_OK;
}

// --- the recipe ------------------------------------------------------------------------------------------------------

// What may change without the result changing; "data" is compared by the trainer, which sees its contents.
static int is_free(const char *name, const json_t *recipe) {
    static const char *const names[] = {"data",       "device",     "remat",          "strategy",     "servers",
                                        "algorithm",  "replicas",   "threads",        "hyperthreads", "bucket-size",
                                        "bind",       "comm-cores", "early-forward",  "evaluate",     "validate",
                                        "limit-test", "not-finite", "loader-threads", "push-log",     "slow",
                                        "broken",     "tune",       "cache",          "tta",          "cache-decoded"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0) return 1;
    if (strcmp(name, "epochs") != 0) return 0;
    if (json_number_value(json_object_get(recipe, "lookahead")) > 0)
        return 0;  // whose steps go by the share that is done
    const char *schedule = json_string_value(json_object_get(recipe, "schedule"));
    return schedule &&
           (strcmp(schedule, "constant") == 0 || strcmp(schedule, "step") == 0 || strcmp(schedule, "cyclic") == 0);
}

static void value_text(const json_t *value, char text[48]) {
    char *dumped = value && !json_is_null(value) ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : NULL;
    const char *from = json_is_string(value) ? json_string_value(value) : dumped;
    snprintf(text, 48, "%s", from ? from : "unset");
    ls_text_clean(text);
    free(dumped);
}

static int differ(const json_t *a, const json_t *b) {
    if (json_is_null(a)) a = NULL;
    if (json_is_null(b)) b = NULL;
    if (json_is_number(a) && json_is_number(b)) return json_number_value(a) != json_number_value(b);
    return a && b ? !json_equal(a, b) : a != b;
}

// What differs, as "lr 0.1 -> 0.2, seed 1 -> 2"; how much.
static int differences(json_t *before, json_t *now, char *text, size_t size) {
    const char *name;
    json_t *value;
    int count = 0;
    size_t used = 0;
    json_object_foreach(now, name, value) {
        json_t *old = json_object_get(before, name);
        char a[48], b[48];
        if (!differ(old, value) || (is_free(name, before) && is_free(name, now))) continue;
        value_text(old, a);
        value_text(value, b);
        ls_text_add(text, size, &used, "%s%s%s %s -> %s", count ? ", " : "", strcmp(name, "model") == 0 ? "" : "--",
                    name, a, b);
        count++;
    }
    return count;
}

static ls_status compare(cli_checkpoints *c) {
    json_t *before = json_loads(ls_checkpoint_recipe(c->found), 0, NULL), *now = json_loads(c->recipe, 0, NULL);
    char text[1024] = "";
    int count = json_object_size(before) > 0 ? differences(before, now, text, sizeof text) : 0;
    json_decref(before);
    json_decref(now);
    if (count == 0) return LS_OK;
    const char *path = ls_checkpoint_path(c->found);
    if (c->branches) {
        snprintf(c->changed, sizeof c->changed, "%s", text);
        return LS_OK;
    }
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "--resume: %s was made by another recipe (%s): give the one it was made by, or begin a new training "
                   "with it by --resume-from %s and another --checkpoint folder",
                   path, text, path);
}

// --- going on --------------------------------------------------------------------------------------------------------

// Worker 0. Of --checkpoint's folder where there is one to resume from, else what --resume-from names; without either training begins.
static ls_status look(cli_checkpoints *c) {
    const cli_checkpoint_settings *set = &c->set;
    ls_status status = LS_STATUS_NOT_FOUND;
    if (set->folder && (set->resume || set->from)) status = ls_checkpoint_find(set->folder, &c->found);
    if (status != LS_OK && status != LS_STATUS_NOT_FOUND) return status;
    if (status == LS_OK && !set->resume)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "--checkpoint %s has checkpoints already: name an empty folder for the training that begins with "
            "--resume-from, or go on with it by --resume",
            set->folder);
    c->branches = status == LS_STATUS_NOT_FOUND && set->from;
    if (c->branches) status = ls_checkpoint_find(set->from, &c->found);
    if (status == LS_STATUS_NOT_FOUND && !c->branches) return LS_OK;
    LS_TRY(status);
    c->resumed = 1;
    if (ls_checkpoint_damaged(c->found)[0])
        fprintf(stderr, "lockstep train: %s; the one before is used, %s\n", ls_checkpoint_damaged(c->found),
                ls_checkpoint_path(c->found));
    snprintf(c->path, sizeof c->path, "%s", ls_checkpoint_path(c->found));
    c->epoch = ls_checkpoint_epoch(c->found);
    c->step = ls_checkpoint_step(c->found);
    return compare(c);
}

ls_status cli_checkpoints_find(cli_checkpoints *c, ls_context *context, const char *model, const char *data,
                               const ls_option_set *options) {
    if (!c->set.folder && !c->set.from) return LS_OK;
    ls_status status = ls_recipe_text(model, data, options, &c->recipe);
    if (status == LS_OK && ls_context_rank(context) == 0) status = look(c);
    LS_TRY(ls_context_agree(context, status));
    LS_TRY(ls_context_broadcast(context, &c->epoch, sizeof c->epoch, 0));
    LS_TRY(ls_context_broadcast(context, &c->branches, sizeof c->branches, 0));
    return ls_context_broadcast(context, &c->resumed, sizeof c->resumed, 0);
}

static void on_written(void *user, const ls_checkpoint_report *report) {
    cli_checkpoints *c = user;
    c->seconds = report->seconds;
    c->latest_failed = report->status != LS_OK;
    if (report->status == LS_OK) return;
    if (c->pause) c->pause(c->user);
    fprintf(stderr, "lockstep train: %s\n", report->sentence);
    c->failed = 1;
}

// Worker 0: --resume is about the same samples, wherever they lie.
static ls_status check_data(const cli_checkpoints *c, const ls_dataset *dataset) {
    char now[32];
    if (!c->found || c->branches) return LS_OK;
    json_t *state = json_loads(ls_checkpoint_state(c->found), 0, NULL);
    const char *before = json_string_value(json_object_get(json_object_get(state, "training"), "dataset"));
    snprintf(now, sizeof now, "%016llx", (unsigned long long)ls_dataset_fingerprint(dataset));
    int same = before && strcmp(before, now) == 0;
    json_decref(state);
    if (same) return LS_OK;
    return LS_FAIL(
        LS_STATUS_INVALID_ARGUMENT,
        "--resume: %s was trained on other samples than these; to go on with others begin a new training with "
        "--resume-from %s and another --checkpoint folder",
        c->path, c->path);
}

ls_status cli_checkpoints_begin(cli_checkpoints *c, ls_context *context, ls_trainer *trainer, const ls_dataset *dataset,
                                void (*pause)(void *user), void *user) {
    if (c->resumed) LS_TRY(ls_context_agree(context, check_data(c, dataset)));
    if (c->resumed) LS_TRY(ls_trainer_resume(trainer, c->found));
    if (!c->set.folder) return LS_OK;
    c->pause = pause;
    c->user = user;
    c->config.recipe = c->recipe;
    c->config.written = on_written;
    c->config.user = c;
    return ls_trainer_checkpoints(trainer, &c->config);
}

void cli_checkpoints_say(const cli_checkpoints *c, const char *numerics) {
    if (!c->resumed) return;
    const char *before = ls_checkpoint_numerics(c->found);
    if (c->step > 0)
        cli_say("resumed from %s: epoch %d, after step %lld", c->path, c->epoch, (long long)c->step);
    else
        cli_say("resumed from %s: epoch %d", c->path, c->epoch);
    if (c->changed[0]) cli_say("not as it was there: %s", c->changed);
    if (strcmp(before, numerics) != 0)
        cli_say("which %s computed, and here it is %s: the weights may come out otherwise in their last bits", before,
                numerics);
}

void cli_checkpoints_end(cli_checkpoints *c) {
    ls_checkpoint_close(&c->found);
    free(c->recipe);
    c->recipe = NULL;
}

// --- being asked to stop ---------------------------------------------------------------------------------------------

static volatile sig_atomic_t asked;
static atomic_llong asked_at;  // milliseconds

// The second is an order, whichever it is. Schedulers signal each process and launchers pass the signal on, so what comes
// at once is the same request.
static void note_signal(int number) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    long long now = 1000LL * t.tv_sec + t.tv_nsec / 1000000;
    int order = asked && now - atomic_load(&asked_at) >= CLI_REPEAT_MS;
    if (!asked) {
        atomic_store(&asked_at, now);
        asked = number;
    }
    if (number == SIGTERM && cli_job_note_end(order)) return;
    if (!order) return;
    signal(number, SIG_DFL);
    raise(number);
}

// What is ignored stays ignored: nohup and shells have asked for that.
static void handle(void (*handler)(int)) {
    static const int wishes[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
    struct sigaction action = {.sa_handler = handler, .sa_flags = (int)SA_RESTART}, before;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++) sigaddset(&action.sa_mask, wishes[i]);
    for (size_t i = 0; i < sizeof wishes / sizeof wishes[0]; i++)
        if (sigaction(wishes[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(wishes[i], &action, NULL);
}

void cli_checkpoints_listen(void) { handle(note_signal); }
void cli_checkpoints_deafen(void) {
    handle(SIG_DFL);
    cli_job_hear();
}

int cli_checkpoints_asked(void) { return asked; }
