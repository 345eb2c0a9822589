// perceptron_serial.c on any number of workers, by four calls: create, ready, wait, destroy. Alone, or under mpirun or srun, with the same bits.
//
//     perceptron_parallel
#include <stdio.h>
#include <stdlib.h>

#include <lockstep/lockstep.h>

#include "perceptron.h"

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        if ((call) != LS_OK) {                                                                                         \
            fprintf(stderr, "perceptron_parallel: %s\n", ls_error_message());                                          \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

enum { W1, B1, W2, B2, PARAMETERS };

int main(void) {
    static network net, gradient;
    static activations a;
    draw_weights(&net);

    ls_context *workers;
    CHECK(ls_context_create(&workers));
    const ls_exchange_parameter parameters[PARAMETERS] = {
        [W1] = {.name = "w1", .count = HIDDEN * PIXELS, .weights = net.w1, .gradient = gradient.w1},
        [B1] = {.name = "b1", .count = HIDDEN, .weights = net.b1, .gradient = gradient.b1},
        [W2] = {.name = "w2", .count = CLASSES * HIDDEN, .weights = net.w2, .gradient = gradient.w2},
        [B2] = {.name = "b2", .count = CLASSES, .weights = net.b2, .gradient = gradient.b2},
    };
    ls_exchange_config config;
    ls_exchange_config_init(&config);
    config.parameters = parameters;
    config.parameter_count = PARAMETERS;
    config.micro_batches = BATCH / MICRO_BATCH;
    config.samples = BATCH;  // gradients are sums over samples
    config.optimizer = "sgd";
    config.lr = 0.2;
    ls_exchange *exchange;
    CHECK(ls_exchange_create(workers, &config, &exchange));

    for (int step = 0; step < STEPS; step++) {
        int64_t m, end;
        CHECK(ls_exchange_deal(exchange, &m, &end));
        for (; m < end; m++) {
            memset(&gradient, 0, sizeof gradient);
            forward(&net, (int64_t)step * BATCH + m * MICRO_BATCH, &a);
            backward_output(&a, &gradient);
            CHECK(ls_exchange_ready(exchange, B2));
            CHECK(ls_exchange_ready(exchange, W2));
            backward_hidden(&net, &a, &gradient);  // w2 is as it was until ls_exchange_wait
            CHECK(ls_exchange_ready(exchange, B1));
            CHECK(ls_exchange_ready(exchange, W1));
        }
        CHECK(ls_exchange_wait(exchange));
    }

    if (ls_context_rank(workers) == 0) printf("test accuracy %.3f\nweights %016llx\n", accuracy(&net), digest(&net));
    ls_exchange_destroy(&exchange);
    ls_context_destroy(&workers);
    return 0;
}
