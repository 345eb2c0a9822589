// A training loop in plain C, on one core: what perceptron_parallel.c begins with.
//
//     perceptron_serial
#include <stdio.h>

#include "perceptron.h"

int main(void) {
    static network net, gradient;
    static activations a;
    float rate = 0.2f;
    draw_weights(&net);
    for (int step = 0; step < STEPS; step++) {
        memset(&gradient, 0, sizeof gradient);
        for (int m = 0; m < BATCH / MICRO_BATCH; m++) {
            forward(&net, (int64_t)step * BATCH + m * MICRO_BATCH, &a);
            backward_output(&a, &gradient);
            backward_hidden(&net, &a, &gradient);
        }
        float *w = (float *)&net, *g = (float *)&gradient;
        for (size_t i = 0; i < sizeof net / sizeof *w; i++) w[i] -= rate * g[i] / BATCH;
    }
    printf("test accuracy %.3f\nweights %016llx\n", accuracy(&net), digest(&net));
    return 0;
}
