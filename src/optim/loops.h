// What the update loops share: alignment told to the compiler, and powers that have the same bits everywhere.
#ifndef LS_OPTIM_LOOPS_H
#define LS_OPTIM_LOOPS_H

#include <assert.h>
#include <string.h>

#include "base/clones.h"
#include "optim/optim.h"

#define LS_ALIGNED(pointer) __builtin_assume_aligned((pointer), 64)

// x to the power n >= 0 by repeated squaring. pow() belongs to the C library, and its last bit is the C library's choice.
double ls__power(double x, int64_t n);

// x >= 0 to any power >= 0: whole ones by ls__power; only a broken one needs the C library.
double ls__power_of(double x, double power);

// Puts a formula and its arguments, (bytes), into a call.
static inline void ls__call(ls_formula_call *out, const ls_formula *formula, const void *arguments, size_t bytes) {
    assert(bytes <= sizeof out->arguments);
    out->formula = formula;
    out->argument_bytes = (int64_t)bytes;
    memcpy(out->arguments, arguments, bytes);
}

// The factor of the old velocity in sgd and lars: momentum, corrected where the update asks for it.
float ls__history(const ls_optimizer_params *params, const ls_update *update);

// The update of adam and adamw, which differ in their defaults only.
int ls__adam_state_count(const ls_optimizer_params *params);
void ls__adam_update(const ls_optimizer_params *params, const ls_update *update, ls_formula_call *out);

extern const ls_optimizer ls__optimizer_sgd, ls__optimizer_adam, ls__optimizer_adamw, ls__optimizer_lars,
    ls__optimizer_lamb;

#endif
