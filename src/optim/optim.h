// Optimizers and learning-rate schedules. Elementwise formulas only, which devices apply (ls_formula): an optimizer never sees
// memory, layouts, workers or slices, and is told what norms it needs.
#ifndef LS_OPTIM_OPTIM_H
#define LS_OPTIM_OPTIM_H

#include <lockstep/status.h>

#include <stdint.h>

#include "device/device.h"

#define LS_MAX_OPTIMIZER_STATE 2

// Hyperparameters; negative means "the optimizer's default" until ls_optimizer_resolve.
typedef struct ls_optimizer_params {
    double lr, momentum, beta1, beta2, epsilon, weight_decay;
    int nesterov;
    double trust_coefficient;
    double l2;  // ls_l2_call; 0: none
} ls_optimizer_params;

// What an update is told: the same for all elements of a parameter.
typedef struct ls_update {
    double lr;         // of this step
    double lr_before;  // of the step before, to correct momentum for the change; 0: do not
    int64_t step;      // from 1
    // Of layer-wise optimizers only: the norms of the whole parameter, and of the whole of what is applied to it. Both 0 where
    // the parameter's rate is not to be adapted.
    double w_norm, g_norm;
} ls_update;

// What optimizers' formulas are applied to, in this order; those that a formula does not use may be empty.
typedef enum ls_update_span {
    LS_UPDATE_W,      // master weights, in place
    LS_UPDATE_G,      // mean gradient, or what `direction` made of it
    LS_UPDATE_STATE,  // the vectors of state, in place, zero before the first step
    LS_UPDATE_OUT = LS_UPDATE_STATE + LS_MAX_OPTIMIZER_STATE,  // of `direction`: what it makes; not G
    LS_UPDATE_SLOW,  // of no optimizer's formula: the slow weights of lookahead
    LS_UPDATE_SPANS
} ls_update_span;

// What ls_l2_call's formula is applied to.
typedef enum ls_l2_span {
    LS_L2_W,    // master weights
    LS_L2_G,    // mean gradient
    LS_L2_OUT,  // may be G
    LS_L2_SPANS
} ls_l2_span;

// OUT = G + l2 W: what every optimizer gets for its gradient where params.l2 is above 0.
void ls_l2_call(double l2, ls_formula_call *out);

typedef struct ls_optimizer {
    const char *name, *help;
    const char *decay;  // what its weight_decay is, for people: "decoupled"
    ls_optimizer_params defaults;
    int has_momentum;  // 1: it goes by momentum and nesterov
    int layerwise;     // 1: update wants the norms, and all elements of a parameter are measured before one is updated
    int (*state_count)(const ls_optimizer_params *params);  // vectors of state it needs, 0..2
    const char *state_names[LS_MAX_OPTIMIZER_STATE];        // as checkpoints name them
    // Both choose a formula and work out its arguments, in double precision where that matters.
    // Layer-wise optimizers that measure not the gradient but what they would do with it: that, from G, W and the state, which
    // advances here, into OUT; update then gets it in place of G, with its norm. NULL: the gradient itself.
    void (*direction)(const ls_optimizer_params *params, const ls_update *update, ls_formula_call *out);
    void (*update)(const ls_optimizer_params *params, const ls_update *update, ls_formula_call *out);
} ls_optimizer;

const ls_optimizer *const *ls_optimizers(void);  // NULL-terminated
// Errors: NOT_FOUND with the names there are.
ls_status ls_optimizer_find(const char *name, const ls_optimizer **out);
// Replaces negative fields by the optimizer's defaults and checks ranges, and that none is given that the optimizer does not go
// by. Errors: INVALID_ARGUMENT.
ls_status ls_optimizer_resolve(const ls_optimizer *optimizer, ls_optimizer_params *params);

#define LS_MAX_SCHEDULE_STEPS 32

// The learning rate as a factor over the course of training.
typedef struct ls_schedule_params {
    double total_epochs;
    double step_epochs, gamma;  // step: every so many epochs
    int step_count;             // or, where there are any, at these
    double steps[LS_MAX_SCHEDULE_STEPS];
    double power, end;     // polynomial: power; end: final factor (polynomial, cosine, one-cycle)
    double start, rise;    // start: first factor (one-cycle), lowest one (cyclic); rise: share of training (one-cycle)
    double period_epochs;  // cyclic
} ls_schedule_params;

typedef struct ls_schedule {
    const char *name, *help;
    // The factor at `epoch` (fractional, 0 <= epoch <= total_epochs); 1 is the full rate.
    double (*factor)(const ls_schedule_params *params, double epoch);
} ls_schedule;

// "30,60,80" into steps and step_count. Errors: INVALID_ARGUMENT.
ls_status ls_schedule_read_steps(const char *text, ls_schedule_params *params);

const ls_schedule *const *ls_schedules(void);
ls_status ls_schedule_find(const char *name, const ls_schedule **out);

// The rate of a step: base rate, times `scale` (linear scaling; 1 for none), times the schedule; during the first
// `warmup_epochs` the rate instead grows linearly from the base rate (scale > 1) or from 0 (scale == 1) to the full one, or
// with `constant_warmup` stays at the base rate.
// Source: Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", 2017, section 2.2.
double ls_learning_rate(const ls_schedule *schedule, const ls_schedule_params *params, double base, double scale,
                        double warmup_epochs, int constant_warmup, double epoch);

#endif
