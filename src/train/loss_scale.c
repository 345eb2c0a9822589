// Loss scaling: gradients of activations are computed as if the loss were larger, so that they do not vanish in fp16, and the mean gradient is
// divided by as much. Scales are powers of two, by which nothing is rounded. A dynamic one is halved after a step whose gradient is not finite, which
// is left out, and doubled after so many steps in a row that were taken. Source: Micikevicius et al., "Mixed precision training", ICLR 2018; Keras's
// LossScaleOptimizer has the same rule and numbers.
//
// Every lane knows of a step whether it was left out (the norm of the whole gradient says it), so every worker has the same scale and none is told.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/trainer_impl.h"

#define INITIAL 0x1p15
#define LARGEST 0x1p24
#define LEAST   0x1p-24  // of a dynamic one: what overflows then was none of the scale's doing

static int is_power_of_two(double x) {
    int exponent;
    return frexp(x, &exponent) == 0.5;
}

int ls__loss_scale_valid(double x) { return x >= LEAST && x <= LARGEST && is_power_of_two(x); }

// "1024", "dynamic", "dynamic:1024".
static ls_status parse(const char *text, ls_loss_scale *out) {
    const char *number = text;
    char *end;
    *out = (ls_loss_scale){.initial = INITIAL, .dynamic = strncmp(text, "dynamic", 7) == 0};
    if (out->dynamic && !text[7]) return LS_OK;
    if (out->dynamic && text[7] == ':') number = text + 8;
    out->initial = strtod(number, &end);
    if (end != number && !*end && out->initial >= 1 && ls__loss_scale_valid(out->initial)) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "a loss scale is a power of two from 1 to 16777216, or dynamic, or dynamic:N, which begins with N; "
                   "'%.40s' is none of these",
                   text);
}

ls_status ls__loss_scale_resolve(ls_trainer *t) {
    const ls_train_config *c = &t->config;
    ls_loss_scale *scale = &t->choices.loss_scale;
    if (c->loss_scale)
        LS_TRY(parse(c->loss_scale, scale));
    else
        *scale = (ls_loss_scale){.initial = t->choices.precision == LS_DTYPE_F16 ? INITIAL : 1,
                                 .dynamic = t->choices.precision == LS_DTYPE_F16};
    scale->used = scale->dynamic || scale->initial != 1;
    scale->steps = c->loss_scale_steps;
    if (scale->dynamic && scale->steps < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a dynamic loss scale was to be doubled after %d steps: give it 1 at least",
                       c->loss_scale_steps);
    t->at.scale = scale->initial;
    if (!scale->used) return LS_OK;
    if (c->async)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s goes with steps that all workers take together, and asynchronous training has none: train in "
            "%s with a loss scale of 1, or in bf16 or fp32",
            c->loss_scale ? "loss scaling" : "fp16, with its dynamic loss scale,", c->precision);
    if (scale->dynamic && c->lookahead)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "lookahead does not go together with a dynamic loss scale, which leaves steps out, and the first "
            "could be one: leave one of them out, or give the loss scale a number");
    return LS_OK;
}

void ls__loss_scale_begin(const ls_trainer *t, ls_step_info *info) {
    const ls_loss_scale *scale = &t->choices.loss_scale;
    if (!scale->used) return;
    info->loss_scale = t->at.scale;
    if (!scale->dynamic) return;
    info->step -= t->at.overflows;  // as if those had not been: bias corrections count what was taken
    info->takes_all = t->at.scale <= LEAST && t->choices.not_finite != LS_NOT_FINITE_SKIP;
}

void ls__loss_scale_end(ls_trainer *t, int64_t skipped_before) {
    const ls_loss_scale *scale = &t->choices.loss_scale;
    ls_position *at = &t->at;
    if (!scale->dynamic) return;
    if (ls__trainer_skipped(t) > skipped_before) {
        at->overflows++;
        at->scale_steps = 0;
        if (at->scale > LEAST) at->scale /= 2;
    } else if (++at->scale_steps >= scale->steps) {
        at->scale_steps = 0;
        if (at->scale < LARGEST) at->scale *= 2;
    }
}

int ls__loss_scale_at_least(const ls_trainer *t) { return !t->choices.loss_scale.dynamic || t->at.scale <= LEAST; }
