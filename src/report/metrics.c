#define _GNU_SOURCE
#include "report/metrics.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "base/text.h"
#include "report/events.h"

#define FLUSH_SECONDS 2  // a person may be watching the curves

struct ls_metrics {
    ls_metrics_config config;
    FILE *csv;                      // NULL: not asked for, or given up
    ls_events *train, *validation;  // the same
    double flushed;
};

static double wall_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// --- CSV -------------------------------------------------------------------------------------------------------------

static ls_status end_line(ls_metrics *m) {
    if (fputc('\n', m->csv) != EOF && fflush(m->csv) == 0) return LS_OK;
    ls_status status = LS_FAIL(LS_STATUS_IO, "cannot write the metrics %s: %s", m->config.csv, strerror(errno));
    fclose(m->csv);
    m->csv = NULL;
    return status;
}

static ls_status begin_csv(ls_metrics *m) {
    if (!m->config.csv) return LS_OK;
    m->csv = ls_output_stream(m->config.csv);
    if (!m->csv)
        return LS_FAIL(LS_STATUS_IO, "cannot write the metrics %s: %s; name a file in a folder that can be written to",
                       m->config.csv, strerror(errno));
    fputs("epoch,accuracy,loss", m->csv);
    if (m->config.validate) fputs(",val_accuracy,val_loss", m->csv);
    fputs(",learning_rate,steps,seconds,images_per_second", m->csv);
    if (m->config.validate) fputs(",val_seconds", m->csv);
    return end_line(m);
}

// A loss that is no number any more is worth knowing; what was not measured is empty.
static void number(FILE *out, double x, int measured) {
    fputc(',', out);
    if (measured) fputs(isnan(x) ? "nan" : ls_text_real(x, (char[32]){0}), out);
}

static int validated(const ls_epoch_result *e) { return !isnan(e->val_seconds); }

static ls_status csv_epoch(ls_metrics *m, const ls_epoch_result *e) {
    if (!m->csv) return LS_OK;
    fprintf(m->csv, "%d", e->epoch - 1);
    number(m->csv, e->accuracy, 1);
    number(m->csv, e->loss, 1);
    if (m->config.validate) {
        number(m->csv, e->val_accuracy, validated(e));
        number(m->csv, e->val_loss, validated(e));
    }
    number(m->csv, e->learning_rate, 1);
    fprintf(m->csv, ",%lld", (long long)e->steps);
    number(m->csv, e->seconds, 1);
    number(m->csv, e->images_per_second, 1);
    if (m->config.validate) number(m->csv, e->val_seconds, validated(e));
    return end_line(m);
}

// --- TensorBoard -----------------------------------------------------------------------------------------------------

static ls_status open_run(const char *folder, const char *run, ls_events **out) {
    char *path;
    if (asprintf(&path, "%s/%s", folder, run) < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    ls_status status = ls_events_create(path, wall_time(), out);
    free(path);
    return status;
}

static ls_status begin_events(ls_metrics *m) {
    const ls_metrics_config *c = &m->config;
    if (!c->tensorboard) return LS_OK;
    LS_TRY(open_run(c->tensorboard, "train", &m->train));
    if (c->validate || c->evaluate) LS_TRY(open_run(c->tensorboard, "validation", &m->validation));
    return LS_OK;
}

typedef struct point {
    const char *tag;
    double value;
} point;

// Points of one run at one step. Gives the run up where it cannot be written.
static ls_status add_points(ls_events **run, int64_t step, const point *points, int count, int flush) {
    if (!*run) return LS_OK;
    double now = wall_time();
    ls_status status = LS_OK;
    for (int i = 0; i < count && status == LS_OK; i++)
        status = ls_events_scalar(*run, now, step, points[i].tag, points[i].value);
    if (status == LS_OK && flush) status = ls_events_flush(*run);
    if (status != LS_OK) ls_events_destroy(run);
    return status;
}

#define ADD(run, step, points, flush)                                                                                  \
    add_points((run), (step), (points), (int)(sizeof(points) / sizeof *(points)), flush)

// --- both ------------------------------------------------------------------------------------------------------------

ls_status ls_metrics_create(const ls_metrics_config *config, ls_metrics **out) {
    ls_metrics *m;
    ls_status status;
    LS_TRY(ls_calloc(1, sizeof *m, &m));
    m->config = *config;
    LS_TRY_GOTO(begin_csv(m), fail);
    LS_TRY_GOTO(begin_events(m), fail);
    *out = m;
    return LS_OK;
fail:
    ls_metrics_destroy(&m);
    return status;
}

void ls_metrics_destroy(ls_metrics **metrics) {
    ls_metrics *m = *metrics;
    if (!m) return;
    if (m->csv) fclose(m->csv);
    ls_events_destroy(&m->train);
    ls_events_destroy(&m->validation);
    free(m);
    *metrics = NULL;
}

ls_status ls_metrics_step(ls_metrics *m, const ls_step_report *p) {
    int64_t step = (p->epoch - 1) * p->steps + p->step;
    if (!m->train || m->config.every == 0 || step % m->config.every != 0) return LS_OK;
    const point points[] = {{"batch_loss", p->batch_loss}, {"batch_accuracy", p->batch_accuracy}};
    double now = ls_clock();
    int flush = now - m->flushed > FLUSH_SECONDS;
    if (flush) m->flushed = now;
    return ADD(&m->train, step, points, flush);
}

// Adds a failure's sentence to those before it.
static void note(ls_status status, char *said, size_t size) {
    size_t used = strlen(said);
    if (status != LS_OK) snprintf(said + used, size - used, "%s%s", used ? "; " : "", ls_error_message());
}

ls_status ls_metrics_epoch(ls_metrics *m, const ls_epoch_result *e) {
    const point train[] = {{"epoch_loss", e->loss},
                           {"epoch_accuracy", e->accuracy},
                           {"epoch_learning_rate", e->learning_rate},
                           {"epoch_images_per_second", e->images_per_second},
                           {"epoch_seconds", e->seconds}};
    const point validation[] = {{"epoch_loss", e->val_loss}, {"epoch_accuracy", e->val_accuracy}};
    char said[1024] = "";
    note(csv_epoch(m, e), said, sizeof said);
    note(ADD(&m->train, e->epoch - 1, train, 1), said, sizeof said);
    if (validated(e)) note(ADD(&m->validation, e->epoch - 1, validation, 1), said, sizeof said);
    return said[0] ? LS_FAIL(LS_STATUS_IO, "%s", said) : LS_OK;
}

ls_status ls_metrics_test(ls_metrics *m, int epoch, double loss, double accuracy) {
    const point points[] = {{"epoch_loss", loss}, {"epoch_accuracy", accuracy}};
    return ADD(&m->validation, epoch - 1, points, 1);
}
