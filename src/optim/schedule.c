// Learning-rate schedules: factors over the course of training, with Keras's formulas, in epochs instead of steps.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "optim/loops.h"

// How much of training lies behind, 0..1.
static double progress(const ls_schedule_params *params, double epoch) {
    double t = params->total_epochs > 0 ? epoch / params->total_epochs : 1;
    return t < 0 ? 0 : t > 1 ? 1 : t;
}

static double constant_factor(const ls_schedule_params *params, double epoch) { return 1; }

static double step_factor(const ls_schedule_params *params, double epoch) {
    if (params->step_count > 0) {
        int done = 0;
        while (done < params->step_count && epoch >= params->steps[done]) done++;
        return ls__power(params->gamma, done);
    }
    if (!(params->step_epochs > 0) || epoch < params->step_epochs) return 1;
    return ls__power(params->gamma, (int64_t)(epoch / params->step_epochs));
}

// cos(pi t) for t in [0, 1], by its series around 0 on [0, 1/2] (the last term is below 1e-19), because the last bit of cos()
// is the C library's choice.
static double cos_pi(double t) {
    if (t > 0.5) return -cos_pi(1 - t);
    double x = 3.14159265358979323846 * t, square = x * x, sum = 1;
    for (int k = 24; k >= 2; k -= 2) sum = 1 - sum * square / (double)(k * (k - 1));
    return sum;
}

// Half a cosine from one value to another, t in [0, 1].
static double half_cosine(double from, double to, double t) { return to + (from - to) * 0.5 * (1 + cos_pi(t)); }

static double line(double from, double to, double t) { return from + (to - from) * t; }

static double cosine_factor(const ls_schedule_params *params, double epoch) {
    return half_cosine(1, params->end, progress(params, epoch));
}

static double polynomial_factor(const ls_schedule_params *params, double epoch) {
    return params->end + (1 - params->end) * ls__power_of(1 - progress(params, epoch), params->power);
}

// Source: Smith and Topin, "Super-convergence: very fast training of neural networks using large learning rates", 2018;
// the cosine is that of PyTorch's OneCycleLR.
static double one_cycle(const ls_schedule_params *params, double epoch, double (*path)(double, double, double)) {
    double t = progress(params, epoch), rise = params->rise;
    return t < rise ? path(params->start, 1, t / rise) : rise < 1 ? path(1, params->end, (t - rise) / (1 - rise)) : 1;
}

static double one_cycle_factor(const ls_schedule_params *params, double epoch) {
    return one_cycle(params, epoch, half_cosine);
}

static double one_cycle_linear_factor(const ls_schedule_params *params, double epoch) {
    return one_cycle(params, epoch, line);
}

// Source: Smith, "Cyclical learning rates for training neural networks", WACV 2017, the triangular policy.
static double cyclic_factor(const ls_schedule_params *params, double epoch) {
    if (!(params->period_epochs > 0)) return 1;
    double t = epoch / params->period_epochs;
    t -= floor(t);
    return line(params->start, 1, t < 0.5 ? 2 * t : 2 - 2 * t);
}

static const ls_schedule constant = {"constant", "the same rate all the time", constant_factor};
static const ls_schedule step = {"step", "times gamma every so many epochs, or after given ones", step_factor};
static const ls_schedule cosine = {"cosine", "half a cosine from the full rate to the end fraction", cosine_factor};
static const ls_schedule polynomial = {
    "polynomial", "(1 - progress) to a power, from the full rate to the end fraction", polynomial_factor};
static const ls_schedule one_cycle_cosine = {
    "one-cycle", "half cosines from the start fraction up to the full rate, and down to the end fraction",
    one_cycle_factor};
static const ls_schedule one_cycle_lines = {"one-cycle-linear", "the same in straight lines", one_cycle_linear_factor};
static const ls_schedule cyclic = {
    "cyclic", "up and down in straight lines between the start fraction and the full rate", cyclic_factor};

static const ls_schedule *const schedules[] = {&constant,        &step,   &cosine, &polynomial, &one_cycle_cosine,
                                               &one_cycle_lines, &cyclic, NULL};

const ls_schedule *const *ls_schedules(void) { return schedules; }

ls_status ls_schedule_read_steps(const char *text, ls_schedule_params *params) {
    double before = 0;
    params->step_count = 0;
    for (const char *p = text;; p++) {
        char *end;
        double epoch = strtod(p, &end);
        if (end == p || (*end && *end != ',') || !(epoch > before && epoch < 1e9))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "the epochs of the schedule 'step' are numbers above 0 in ascending order with commas "
                           "between them, as in "
                           "30,60,80, not '%s'",
                           text);
        if (params->step_count == LS_MAX_SCHEDULE_STEPS)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the schedule 'step' takes at most %d epochs, and got '%s'",
                           LS_MAX_SCHEDULE_STEPS, text);
        params->steps[params->step_count++] = before = epoch;
        p = end;
        if (!*p) return LS_OK;
    }
}

ls_status ls_schedule_find(const char *name, const ls_schedule **out) {
    char names[256];
    size_t used = 0;
    names[0] = 0;
    *out = NULL;
    for (const ls_schedule *const *s = schedules; *s; s++) {
        if (!strcmp((*s)->name, name)) {
            *out = *s;
            return LS_OK;
        }
        ls_text_add(names, sizeof names, &used, "%s%s", used ? ", " : "", (*s)->name);
    }
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no schedule \"%s\"; there are: %s", name, names);
}

double ls_learning_rate(const ls_schedule *schedule, const ls_schedule_params *params, double base, double scale,
                        double warmup_epochs, int constant_warmup, double epoch) {
    if (epoch >= warmup_epochs) return base * scale * schedule->factor(params, epoch);
    if (constant_warmup) return base;
    // Up to the rate the schedule has where warm-up ends, so that nothing jumps there.
    double from = scale > 1 ? base : 0, to = base * scale * schedule->factor(params, warmup_epochs);
    return from + (to - from) * (epoch / warmup_epochs);
}
