#include "optim/optim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "optim/loops.h"

static const ls_optimizer *const optimizers[] = {
    &ls__optimizer_sgd, &ls__optimizer_adam, &ls__optimizer_adamw, &ls__optimizer_lars, &ls__optimizer_lamb, NULL,
};

const ls_optimizer *const *ls_optimizers(void) { return optimizers; }

ls_status ls_optimizer_find(const char *name, const ls_optimizer **out) {
    char names[256];
    size_t used = 0;
    names[0] = 0;
    *out = NULL;
    for (const ls_optimizer *const *o = optimizers; *o; o++) {
        if (!strcmp((*o)->name, name)) {
            *out = *o;
            return LS_OK;
        }
        ls_text_add(names, sizeof names, &used, "%s%s", used ? ", " : "", (*o)->name);
    }
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no optimizer \"%s\"; there are: %s", name, names);
}

static void fill(double *value, double standard) {
    if (*value < 0) *value = standard;
}

// What is given and not gone by would be believed to have worked: momentum beside adam.
static ls_status check_its_own(const ls_optimizer *o, const ls_optimizer_params *p) {
    const struct {
        const char *name;
        int given, has;
        const char *others;
    } known[] = {
        {"momentum", p->momentum > 0, o->has_momentum, "sgd or lars"},
        {"nesterov", p->nesterov > 0, o->has_momentum, "sgd or lars"},
        {"beta1", p->beta1 > 0, o->defaults.beta1 > 0, "adam, adamw or lamb"},
        {"beta2", p->beta2 > 0, o->defaults.beta2 > 0, "adam, adamw or lamb"},
        {"trust-coefficient", p->trust_coefficient > 0, o->defaults.trust_coefficient > 0, "lars"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].given && !known[i].has)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "the optimizer %s has no %s: leave it out, or choose one that has: %s", o->name,
                           known[i].name, known[i].others);
    return LS_OK;
}

ls_status ls_optimizer_resolve(const ls_optimizer *optimizer, ls_optimizer_params *p) {
    LS_TRY(check_its_own(optimizer, p));
    fill(&p->lr, optimizer->defaults.lr);
    fill(&p->momentum, optimizer->defaults.momentum);
    fill(&p->beta1, optimizer->defaults.beta1);
    fill(&p->beta2, optimizer->defaults.beta2);
    fill(&p->epsilon, optimizer->defaults.epsilon);
    fill(&p->weight_decay, optimizer->defaults.weight_decay);
    fill(&p->trust_coefficient, optimizer->defaults.trust_coefficient);
    if (p->nesterov < 0) p->nesterov = optimizer->defaults.nesterov;

    // Written so that a NaN fails too.
    if (!(p->lr >= 0 && p->lr < 1e30))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the learning rate is %g; it must be at least 0 and less than 1e30",
                       p->lr);
    const struct {
        const char *name;
        double value;
    } below_one[] = {{"momentum", p->momentum}, {"beta1", p->beta1}, {"beta2", p->beta2}};
    for (size_t i = 0; i < sizeof below_one / sizeof below_one[0]; i++)
        if (!(below_one[i].value >= 0 && below_one[i].value < 1))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is %g; it must be at least 0 and less than 1",
                           below_one[i].name, below_one[i].value);
    if (!(p->epsilon >= 0 && p->epsilon < 1e30))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "epsilon is %g; it must be at least 0 and less than 1e30",
                       p->epsilon);
    if (!(p->weight_decay >= 0 && p->weight_decay < 1e30))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the weight decay is %g; it must be at least 0 and less than 1e30",
                       p->weight_decay);
    if (!(p->l2 >= 0 && p->l2 < 1e30))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the factor of l2 is %g; it must be at least 0 and less than 1e30",
                       p->l2);
    if (!(p->trust_coefficient >= 0 && p->trust_coefficient < 1e30))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the trust coefficient is %g; it must be at least 0 and less than 1e30", p->trust_coefficient);
    if (p->nesterov && p->momentum == 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "nesterov is a form of momentum, and there is none: give a momentum too, like 0.9, or leave it out");
    if (optimizer->defaults.trust_coefficient > 0 && p->trust_coefficient == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "with a trust coefficient of 0, %s would not train kernels at all: "
                       "leave it out, or give one like %g",
                       optimizer->name, optimizer->defaults.trust_coefficient);
    return LS_OK;
}

float ls__history(const ls_optimizer_params *params, const ls_update *u) {
    // Where the rate was 0, so is the velocity.
    return (float)(u->lr_before > 0 ? params->momentum * (u->lr / u->lr_before) : params->momentum);
}

double ls__power_of(double x, double power) {
    double whole = floor(power);
    return power == whole && power >= 0 && power < 1e6 ? ls__power(x, (int64_t)whole) : pow(x, power);
}

double ls__power(double x, int64_t n) {
    double result = 1;
    for (; n > 0; n >>= 1, x *= x)
        if (n & 1) result *= x;
    return result;
}
