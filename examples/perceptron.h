// A network of two layers and its digits, in plain C: what perceptron_serial.c and perceptron_parallel.c train. Nothing of Lockstep is in here.
#ifndef PERCEPTRON_H
#define PERCEPTRON_H

#include <stdint.h>
#include <string.h>

enum { PIXELS = 64, HIDDEN = 32, CLASSES = 10, BATCH = 60, MICRO_BATCH = 6, STEPS = 400, TEST = 1000 };

// --- digits ----------------------------------------------------------------------------------------------------------

// 8 by 8 pixels each, a byte a row.
static const unsigned char digit_rows[CLASSES][8] = {
    {0x00, 0x3c, 0x66, 0x66, 0x66, 0x66, 0x3c, 0x00}, {0x00, 0x18, 0x38, 0x18, 0x18, 0x18, 0x3c, 0x00},
    {0x00, 0x3c, 0x66, 0x0c, 0x18, 0x30, 0x7e, 0x00}, {0x00, 0x7c, 0x06, 0x1c, 0x06, 0x06, 0x7c, 0x00},
    {0x00, 0x0c, 0x1c, 0x2c, 0x4c, 0x7e, 0x0c, 0x00}, {0x00, 0x7e, 0x60, 0x7c, 0x06, 0x06, 0x7c, 0x00},
    {0x00, 0x1c, 0x30, 0x7c, 0x66, 0x66, 0x3c, 0x00}, {0x00, 0x7e, 0x06, 0x0c, 0x18, 0x30, 0x30, 0x00},
    {0x00, 0x3c, 0x66, 0x3c, 0x66, 0x66, 0x3c, 0x00}, {0x00, 0x3c, 0x66, 0x66, 0x3e, 0x0c, 0x38, 0x00},
};

static uint32_t next_draw(uint32_t *state) { return *state = *state * 1664525u + 1013904223u; }

// Sample number i: a digit, moved a little, on noisy paper. Returns which digit it is.
static int draw_sample(int64_t i, float x[PIXELS]) {
    uint32_t state = (uint32_t)i * 2654435761u + 12345u;
    int label = (int)(next_draw(&state) >> 16) % CLASSES;
    int right = (int)(next_draw(&state) >> 16) % 3 - 1, down = (int)(next_draw(&state) >> 16) % 3 - 1;
    for (int row = 0; row < 8; row++)
        for (int column = 0; column < 8; column++) {
            int r = row - down, c = column - right;
            int ink = r >= 0 && r < 8 && c >= 0 && c < 8 && (digit_rows[label][r] >> (7 - c) & 1);
            x[8 * row + column] = (float)ink + (float)(next_draw(&state) >> 24) / 512 - 0.25f;
        }
    return label;
}

// --- the network -----------------------------------------------------------------------------------------------------

typedef struct network {
    float w1[HIDDEN * PIXELS], b1[HIDDEN], w2[CLASSES * HIDDEN], b2[CLASSES];
} network;

// What forward leaves for backward, of a micro-batch.
typedef struct activations {
    float x[MICRO_BATCH][PIXELS], hidden[MICRO_BATCH][HIDDEN], error[MICRO_BATCH][CLASSES];
} activations;

static void draw_weights(network *net) {
    uint32_t state = 1;
    memset(net, 0, sizeof *net);
    for (int i = 0; i < HIDDEN * PIXELS; i++) net->w1[i] = ((float)(next_draw(&state) >> 8) / (1 << 24) - 0.5f) * 0.4f;
    for (int i = 0; i < CLASSES * HIDDEN; i++) net->w2[i] = ((float)(next_draw(&state) >> 8) / (1 << 24) - 0.5f) * 0.4f;
}

static void outputs(const network *net, const float x[PIXELS], float hidden[HIDDEN], float y[CLASSES]) {
    for (int h = 0; h < HIDDEN; h++) {
        float sum = net->b1[h];
        for (int i = 0; i < PIXELS; i++) sum += net->w1[h * PIXELS + i] * x[i];
        hidden[h] = sum > 0 ? sum : 0;
    }
    for (int c = 0; c < CLASSES; c++) {
        y[c] = net->b2[c];
        for (int h = 0; h < HIDDEN; h++) y[c] += net->w2[c * HIDDEN + h] * hidden[h];
    }
}

// Samples [first, first + MICRO_BATCH): half the squared distance to 1 for the right class and 0 for the others. Returns its sum.
static float forward(const network *net, int64_t first, activations *a) {
    float loss = 0;
    for (int s = 0; s < MICRO_BATCH; s++) {
        int label = draw_sample(first + s, a->x[s]);
        outputs(net, a->x[s], a->hidden[s], a->error[s]);
        a->error[s][label] -= 1;
        for (int c = 0; c < CLASSES; c++) loss += 0.5f * a->error[s][c] * a->error[s][c];
    }
    return loss;
}

// Both add the sums over the samples to the gradient g.
static void backward_output(const activations *a, network *g) {
    for (int s = 0; s < MICRO_BATCH; s++)
        for (int c = 0; c < CLASSES; c++) {
            g->b2[c] += a->error[s][c];
            for (int h = 0; h < HIDDEN; h++) g->w2[c * HIDDEN + h] += a->error[s][c] * a->hidden[s][h];
        }
}

static void backward_hidden(const network *net, const activations *a, network *g) {
    for (int s = 0; s < MICRO_BATCH; s++)
        for (int h = 0; h < HIDDEN; h++) {
            float error = 0;
            if (a->hidden[s][h] <= 0) continue;
            for (int c = 0; c < CLASSES; c++) error += a->error[s][c] * net->w2[c * HIDDEN + h];
            g->b1[h] += error;
            for (int i = 0; i < PIXELS; i++) g->w1[h * PIXELS + i] += error * a->x[s][i];
        }
}

// The share of right answers on samples that training has not seen.
static double accuracy(const network *net) {
    int right = 0;
    for (int64_t i = 0; i < TEST; i++) {
        float x[PIXELS], hidden[HIDDEN], y[CLASSES];
        int label = draw_sample((int64_t)BATCH * STEPS + i, x), best = 0;
        outputs(net, x, hidden, y);
        for (int c = 1; c < CLASSES; c++)
            if (y[c] > y[best]) best = c;
        right += best == label;
    }
    return (double)right / TEST;
}

// A number that any other bit of the weights would change.
static unsigned long long digest(const network *net) {
    unsigned long long hash = 14695981039346656037u;  // FNV-1a
    const unsigned char *bytes = (const unsigned char *)net;
    for (size_t i = 0; i < sizeof *net; i++) hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

#endif
