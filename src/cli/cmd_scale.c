// lockstep scale: trains the same thing with different numbers of workers, one run after the other, each as processes of its
// own, and makes tables, charts and a page of what they took. What was measured stays: the same command goes on where it stopped.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/input.h"
#include "base/text.h"
#include "cli/deadline.h"
#include "cli/scale.h"
#include "report/study.h"

enum { ENDING_SECONDS = 2 };  // what a run ends before its limit, to be on the safe side

typedef struct scale {
    cli *cli;
    scale_request asked;
    char folder[4096];
    scale_plan plan;
    int lock;                  // of the folder
    int at, terminal, length;  // the run under way; of the live line
    double left;               // estimated for what comes after it
    cli_deadline deadline;
} scale;

// --- progress ----------------------------------------------------------------------------------------------------------

// Of the same network, trained in the same way.
static int like_it(const scale_run *a, const scale_run *b) {
    return json_equal(json_object_get(a->entry, "model"), json_object_get(b->entry, "model")) &&
           scale_number(a, "variant") == scale_number(b, "variant");
}

// The run that tells most about another one: of its model, on as many nodes, with the nearest number of workers. `state`: runs of
// that kind only. NULL: there is none.
static const scale_run *nearest(const scale_plan *p, const scale_run *r, scale_state state) {
    const scale_run *best = NULL;
    double least = INFINITY;
    for (int i = 0; i < p->count; i++) {
        const scale_run *other = &p->runs[i];
        if (other->state != state || other->seconds <= 0) continue;
        double far = fabs(log((double)scale_number(other, "workers") / scale_number(r, "workers")));
        if (scale_number(other, "nodes") != scale_number(r, "nodes")) far += 100;
        if (!like_it(other, r)) far += 1000;
        if (far < least) best = other;
        least = fmin(least, far);
    }
    return best;
}

// What a run will take: about as long as the run that is most like it. 0: nothing is known yet.
static double expected(const scale_plan *p, const scale_run *r) {
    const scale_run *like = nearest(p, r, SCALE_DONE);
    return like ? like->seconds : 0;
}

// What a run will take at least, by the runs of its model: with more workers than those it may be as much faster, with fewer
// it is not faster; one that was stopped would have taken longer.
static double at_least(const scale *s, const scale_run *r) {
    double seconds = 0;
    for (scale_state state = SCALE_DONE; state <= SCALE_STOPPED; state++) {
        const scale_run *like = state == SCALE_FAILED ? NULL : nearest(&s->plan, r, state);
        if (!like || !like_it(like, r)) continue;
        double faster = (double)scale_number(like, "workers") / scale_number(r, "workers");
        seconds =
            fmax(seconds, (s->asked.grid.mode == SCALE_WEAK) || faster > 1 ? like->seconds : like->seconds * faster);
    }
    return seconds;
}

// Seconds that a run started now may take.
static double time_left(const scale *s) {
    return s->deadline.at > 0 ? s->deadline.at - s->deadline.margin - ENDING_SECONDS - ls_clock() : INFINITY;
}

// Of the runs after the one under way; < 0 where nothing is known.
static double expected_after(const scale *s) {
    double left = 0;
    for (int i = s->at + 1; i < s->plan.count; i++) {
        if (s->plan.runs[i].state != SCALE_TO_RUN || s->plan.runs[i].late) continue;
        double seconds = expected(&s->plan, &s->plan.runs[i]);
        if (seconds == 0) return -1;
        left += seconds;
    }
    return left;
}

static void draw(void *user, double seconds) {
    scale *s = user;
    if (!s->terminal) return;
    char what[160], now[32], then[32], left[64] = "";
    double own = expected(&s->plan, &s->plan.runs[s->at]);
    scale_describe(&s->plan, &s->plan.runs[s->at], what, sizeof what);
    ls_duration_text(seconds, now);
    if (s->left >= 0 && own > 0) {
        ls_duration_text(s->left + (own > seconds ? own - seconds : 0), then);
        snprintf(left, sizeof left, ", about %s left", then);
    }
    char line[320];
    snprintf(line, sizeof line, "[%d/%d] %s: %s%s", s->at + 1, s->plan.count, what, now, left);
    int n = printf("\r%.*s", cli_terminal_width() - 1, line) - 1;  // a line that wraps cannot be drawn over
    int before = s->length < cli_terminal_width() ? s->length : cli_terminal_width() - 1;
    if (before > n) printf("%*s", before - n, "");
    s->length = n;
    fflush(stdout);
}

static void say_failed(const scale *s, const scale_run *r) {
    char *path, sentence[512] = "";
    if (scale_path(&s->plan, r, "failed", &path) != LS_OK) return;
    FILE *file = ls_input_open(path);
    free(path);
    if (!file) return;
    if (!fgets(sentence, sizeof sentence, file)) sentence[0] = 0;
    fclose(file);
    sentence[strcspn(sentence, "\n")] = 0;
    ls_text_clean(sentence);
    printf("FAILED: %s", sentence);
}

// By the tables' rules: without the first epoch of several.
static void say_done(const scale *s, const scale_run *r) {
    char *path, count[32];
    ls_study *alone;
    if (scale_path(&s->plan, r, "json", &path) != LS_OK) return;
    if (ls_study_load((const char *const[]){path}, 1, &alone) == LS_OK) {
        double rate = alone->rows[0].images_per_second;
        printf("%.3g s per epoch, ", alone->rows[0].epoch_seconds);
        if (rate < 100)
            printf("%.1f images/s", rate);
        else
            printf("%s images/s", cli_count((int64_t)(rate + 0.5), count));
        ls_study_free(&alone);
    }
    free(path);
}

static void say_stopped(const scale *s, const scale_run *r) {
    char *path;
    if (scale_path(&s->plan, r, "json", &path) != LS_OK) return;
    json_t *where = scale_stopped(path);
    free(path);
    printf("STOPPED for lack of time, after step %lld of %lld in epoch %lld",
           (long long)json_integer_value(json_object_get(where, "step")),
           (long long)json_integer_value(json_object_get(where, "steps")),
           (long long)json_integer_value(json_object_get(where, "epoch")));
    json_decref(where);
}

static void say_late(const scale *s, const scale_run *r) {
    char need[32], left[32];
    double seconds = at_least(s, r);
    printf("NOT STARTED for lack of time: ");
    if (seconds > 0) printf("it takes at least %s, and ", ls_duration_text(seconds, need));
    printf("%s are left", ls_duration_text(fmax(time_left(s), 0), left));
}

static void say_run(scale *s) {
    const scale_run *r = &s->plan.runs[s->at];
    char what[160], left[32];
    if (s->length) printf("\r%*s\r", s->length, "");
    s->length = 0;
    scale_describe(&s->plan, r, what, sizeof what);
    printf("[%d/%d] %s: ", s->at + 1, s->plan.count, what);
    if (r->late)
        say_late(s, r);
    else if (r->state == SCALE_FAILED)
        say_failed(s, r);
    else if (r->state == SCALE_STOPPED)
        say_stopped(s, r);
    else
        say_done(s, r);
    double seconds = expected_after(s);
    ls_duration_text(seconds, left);
    if (seconds >= 1) printf(" (about %s left)", left);
    putchar('\n');
    fflush(stdout);
}

// --- the study -----------------------------------------------------------------------------------------------------------

static int count_state(const scale_plan *p, scale_state state) {
    int n = 0;
    for (int i = 0; i < p->count; i++) n += p->runs[i].state == state;
    return n;
}

static ls_status run_all(scale *s) {
    scale_plan *p = &s->plan;
    int done = count_state(p, SCALE_DONE);
    scale_mode mode = s->asked.grid.mode;
    printf("%s: %d run%s%s%s\n", s->folder, p->count, p->count == 1 ? "" : "s", mode == SCALE_STRONG ? "" : ", ",
           mode == SCALE_STRONG ? "" : scale_mode_name(mode));
    if (done > 0) printf("%d of them %s done already and not run again\n", done, done == 1 ? "is" : "are");
    cli_deadline_print(&s->deadline);
    fflush(stdout);
    s->terminal = cli_terminal_is(stdout);
    for (s->at = 0; s->at < p->count; s->at++) {
        scale_run *r = &p->runs[s->at];
        int interrupted;
        if (r->state != SCALE_TO_RUN) continue;
        r->late = at_least(s, r) > time_left(s) || time_left(s) <= 0;
        if (r->late) {
            say_run(s);
            continue;
        }
        s->left = expected_after(s);
        draw(s, 0);
        LS_TRY(scale_run_one(p, r, s->asked.set.timeout, draw, s, &interrupted));
        if (!interrupted || r->state != SCALE_TO_RUN) say_run(s);
        if (!interrupted) continue;
        if (s->length) putchar('\n');
        done = count_state(p, SCALE_DONE);
        return LS_FAIL(LS_STATUS_IO, "interrupted with %d of %d runs done; the same command goes on from there", done,
                       p->count);
    }
    return LS_OK;
}

// Charts that cannot be drawn are said and no reason to fail.
static ls_status pictures(const ls_study *study, const char *folder) {
    if (ls_study_write_charts(study, folder, 0) != LS_OK) fprintf(stderr, "lockstep scale: %s\n", ls_error_message());
    LS_TRY(ls_study_write_page(study, folder));
    printf("%s/index.html is the page, with charts where gnuplot is; results.md and results.csv hold the tables.\n",
           folder);
    return LS_OK;
}

// Printed first: what was measured is seen even where nothing can be written any more.
static ls_status report(scale *s) {
    const char *folder = s->folder;
    ls_study *study;
    LS_TRY(ls_study_load(&folder, 1, &study));
    putchar('\n');
    ls_status status = cli_print_study(study, s->asked.set.terminal);
    putchar('\n');
    if (status == LS_OK) status = ls_study_write_tables(study, folder);
    if (status == LS_OK) status = pictures(study, folder);
    ls_study_free(&study);
    return status;
}

// A study that is there is locked before it is looked at; a refused one leaves nothing behind where there was none.
static ls_status begin_study(scale *s) {
    char *path;
    if (asprintf(&path, "%s/study.json", s->folder) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    int there = access(path, F_OK) == 0;
    free(path);
    if (there) LS_TRY(scale_lock(s->folder, &s->lock));
    LS_TRY(scale_plan_create(&s->asked.grid, s->folder, s->cli, &s->plan));
    LS_TRY(scale_plan_folders(&s->plan));
    if (!there) LS_TRY(scale_lock(s->folder, &s->lock));
    return scale_plan_write(&s->plan);
}

static ls_status run_study(scale *s) {
    s->cli->stage = CLI_STAGE_TOGETHER;
    LS_TRY(scale_check(&s->asked.grid));
    LS_TRY(begin_study(s));
    cli_deadline_find(s->asked.set.time_limit, s->cli->started, &s->deadline);
    cli_deadline_pass_on(&s->deadline, s->deadline.margin);
    LS_TRY(run_all(s));
    LS_TRY(report(s));
    int stopped = count_state(&s->plan, SCALE_STOPPED), left = stopped + count_state(&s->plan, SCALE_TO_RUN);
    if (left > 0)
        printf("For lack of time, %d of %d runs %s not done; the same command goes on with %s.\n", left, s->plan.count,
               left == 1 ? "is" : "are", left == 1 ? "it" : "them");
    int failed = count_state(&s->plan, SCALE_FAILED);
    if (failed == 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%d of %d run%s failed: the tables say why, %s/runs/ has the logs, and the same command tries again",
                   failed, s->plan.count, s->plan.count == 1 ? "" : "s", s->folder);
}

static ls_status run_scale(cli *c, int argc, char **argv) {
    scale s = {.cli = c, .lock = -1};
    ls_status status = scale_request_read(argc, argv, &s.asked);
    if (status == LS_OK && s.asked.words.help) {
        scale_help();
    } else if (status == LS_OK) {
        snprintf(s.folder, sizeof s.folder, "%s", s.asked.set.out);
        for (size_t n = strlen(s.folder); n > 1 && s.folder[n - 1] == '/'; n--) s.folder[n - 1] = 0;
        status = run_study(&s);
    }
    scale_plan_destroy(&s.plan);
    scale_unlock(&s.lock);
    scale_request_free(&s.asked);
    return status;
}

const cli_command cli_command_scale = {"scale", "measure how training scales with the number of workers", run_scale};
