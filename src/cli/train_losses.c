// The losses of a network that brings several along, epoch by epoch: training makes their sum small, and each says what the others hide.
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/train_run.h"

// Every loss's numbers of every epoch; NAN where it has none.
static ls_status make_room(cli_losses *l, int epochs) {
    LS_TRY(ls_calloc(l->count, sizeof *l->of, &l->of));
    LS_TRY(ls_calloc(2 * (int64_t)l->count * epochs, sizeof *l->values, &l->values));
    for (int64_t i = 0; i < 2 * (int64_t)l->count * epochs; i++) l->values[i] = NAN;
    l->epochs = epochs;
    return LS_OK;
}

ls_status cli_losses_begin(cli_losses *l, const ls_trainer *trainer, int epochs) {
    int all = ls_trainer_measure_count(trainer), count = 0;
    *l = (cli_losses){.count = 0};
    for (int i = 0; i < all; i++) count += ls_trainer_measure(trainer, i).is_loss;
    if (count < 2 || epochs < 1) return LS_OK;
    l->count = count < CLI_MOST_LOSSES ? count : CLI_MOST_LOSSES;
    LS_TRY(make_room(l, epochs));
    for (int i = 0, k = 0; i < all && k < l->count; i++) {
        ls_measure_result m = ls_trainer_measure(trainer, i);
        if (!m.is_loss) continue;
        double *values = l->values + 2 * (int64_t)epochs * k;
        l->of[k] = (ls_record_loss){.name = m.name, .train = values, .val = values + epochs, .test = NAN};
        l->measure[k++] = i;
    }
    return LS_OK;
}

void cli_losses_epoch(cli_losses *l, const ls_trainer *trainer, const ls_epoch_result *e, cli_progress *display) {
    size_t used = 0, val_used = 0;
    display->losses[0] = display->val_losses[0] = 0;
    if (e->epoch < 1 || e->epoch > l->epochs) return;
    for (int k = 0; k < l->count; k++) {
        ls_measure_result m = ls_trainer_measure(trainer, l->measure[k]);
        double *values = l->values + 2 * (int64_t)l->epochs * k + e->epoch - 1;
        int validated = !isnan(e->val_seconds);
        values[0] = m.train;
        if (validated) values[l->epochs] = m.test;
        ls_text_add(display->losses, sizeof display->losses, &used, " - %.40s: %.4f", m.name, m.train);
        if (validated)
            ls_text_add(display->val_losses, sizeof display->val_losses, &val_used, " - val_%.40s: %.4f", m.name,
                        m.test);
    }
}

void cli_losses_test(cli_losses *l, const ls_trainer *trainer) {
    for (int k = 0; k < l->count; k++) l->of[k].test = ls_trainer_measure(trainer, l->measure[k]).test;
}

void cli_losses_end(cli_losses *l) {
    free(l->of);
    free(l->values);
    *l = (cli_losses){.count = 0};
}
