// What lockstep evaluate tells of networks that bring losses of their own along.
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "cli/evaluate.h"

static int count_losses(const cli_evaluation *e) {
    int losses = 0;
    for (int i = 0; i < ls_trainer_measure_count(e->trainer); i++) losses += ls_trainer_measure(e->trainer, i).is_loss;
    return losses;
}

// Beside "accuracy", which is told of all networks: "mean_absolute_error 0.0613"; of several losses each.
static ls_status print(const cli_evaluation *e) {
    char count[32];
    int several = count_losses(e) > 1;
    for (int i = 0; i < ls_trainer_measure_count(e->trainer); i++) {
        ls_measure_result m = ls_trainer_measure(e->trainer, i);
        char name[40];
        if ((m.is_loss && !several) || isnan(m.test) || strcmp(m.name, "accuracy") == 0) continue;
        snprintf(name, sizeof name, "%.30s", m.name);
        for (char *p = name; *p; p++)
            if (*p == '_') *p = ' ';
        if (name[0] >= 'a' && name[0] <= 'z') name[0] = (char)(name[0] - 'a' + 'A');
        printf("%-28s%.4f\n", name, m.test);
    }
    if (e->tokens && e->result.evaluate_seconds > 0)
        printf("%-28s%s\n", "Tokens per second",
               cli_count((int64_t)((double)(e->samples * e->tokens) / e->result.evaluate_seconds + 0.5), count));
    return LS_OK;
}

static void json(const cli_evaluation *e, json_t *root) {
    json_t *measures = json_object();
    for (int i = 0; i < ls_trainer_measure_count(e->trainer); i++) {
        ls_measure_result m = ls_trainer_measure(e->trainer, i);
        json_object_set_new(measures, m.name, cli_json_number(m.test));
    }
    json_object_set_new(root, "measures", measures);
}

const cli_evaluation_kind cli_evaluation_losses = {.print = print, .json = json};
