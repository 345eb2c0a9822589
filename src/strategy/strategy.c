#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "strategy/strategy_impl.h"

static const ls_strategy_ops *const strategies[] = {
    &ls__strategy_allreduce,
    &ls__strategy_reduce_broadcast,
    NULL,
};

const char *const ls_step_phase_words[LS_STEP_PHASES] = {
#define X(name, words) words,
    LS_STEP_PHASE_LIST(X)
#undef X
};

const ls_strategy_ops *const *ls_strategies(void) { return strategies; }

ls_status ls_strategy_plan(const char *name, const ls_strategy_config *config, ls_strategy **out) {
    char names[256];
    size_t used = 0;
    names[0] = 0;
    *out = NULL;
    if (config->replicas < 1 || config->micro_batches < 1 || config->length < 1 || config->length % LS_SLICE_ALIGN != 0)
        return LS_FAIL(LS_STATUS_INTERNAL,
                       "a strategy for %d replicas, %lld micro-batches and %lld floats makes no sense",
                       config->replicas, (long long)config->micro_batches, (long long)config->length);
    for (const ls_strategy_ops *const *s = strategies; *s; s++) {
        if (!strcmp((*s)->name, name)) {
            LS_TRY((*s)->plan(config, out));
            return LS_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", (*s)->name);
    }
    return LS_FAIL(LS_STATUS_NOT_FOUND, "there is no strategy \"%s\"; there are: %s", name, names);
}

ls_status ls_strategy_create(const char *name, const ls_strategy_config *config, ls_strategy **out) {
    ls_status status = ls_comm_agree(config->comm, ls_strategy_plan(name, config, out));
    if (status == LS_OK) status = ls_strategy_allocate(*out);
    if (status != LS_OK) {
        ls_strategy_destroy(out);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    return LS_OK;
}

void ls_strategy_destroy(ls_strategy **strategy) {
    if (!strategy || !*strategy) return;
    (*strategy)->ops->destroy(*strategy);
    *strategy = NULL;
}
