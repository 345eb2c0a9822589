// Adam with decoupled weight decay: Adam whose decay is on by default, as in Keras 3.
// Source: Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019.
#include "optim/loops.h"

const ls_optimizer ls__optimizer_adamw = {
    .name = "adamw",
    .help = "Adam with decoupled weight decay",
    .decay = "decoupled",
    .defaults = {.lr = 0.001,
                 .momentum = 0,
                 .beta1 = 0.9,
                 .beta2 = 0.999,
                 .epsilon = 1e-7,
                 .weight_decay = 0.004,
                 .nesterov = 0},
    .state_count = ls__adam_state_count,
    .state_names = {"first_moment", "second_moment"},
    .update = ls__adam_update,
};
