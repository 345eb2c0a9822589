// The loops of LSTM and GRU over the units of one sample at one step, between products. Gates lie after their activations: of an LSTM i, f,
// g, o, of a GRU z, r, n and the state's product of n.
#ifndef LS_DEVICE_CPU_RECURRENT_H
#define LS_DEVICE_CPU_RECURRENT_H

#include <stdint.h>

#include <lockstep/tensor.h>

// A state before a step and after it. c: of an LSTM.
typedef struct ls_recurrent_step {
    int64_t units;
    const float *input, *state;  // products of the input and of the state before (gates)
    float *gates;                // (4 units), kept for backward; NULL: nothing is
    const float *c_before;       // (units)
    float *c;                    // may be c_before
    ls_dtype dtype;              // of h and gradients of products
    const void *h_before;        // (units), in dtype
    void *h;                     // may be h_before
} ls_recurrent_step;

void ls__lstm_forward(const ls_recurrent_step *s);
void ls__gru_forward(const ls_recurrent_step *s);

// And back: dh and dc become the gradients of the state before, but for what comes through the product.
typedef struct ls_recurrent_back {
    int64_t units;
    const float *gates;         // (4 units)
    const float *c_before, *c;  // of an LSTM
    const void *h_before;       // of a GRU, in dtype
    ls_dtype dtype;
    float *dh, *dc;         // (units)
    void *dinput, *dstate;  // gradients of both products (gates); of an LSTM they are equal, and dstate is NULL
} ls_recurrent_back;

void ls__lstm_backward(const ls_recurrent_back *s);
void ls__gru_backward(const ls_recurrent_back *s);

// to += from, `count` elements of `dtype`.
void ls__recurrent_add(float *to, const void *from, ls_dtype dtype, int64_t count);
// Column sums of `rows` rows of `width`, one after the other, in double.
void ls__recurrent_sum(const void *from, ls_dtype dtype, int64_t rows, int64_t width, float *sums);
// sums[numbers[r]] += row r of `from`, (rows, width), row by row, in columns [begin, end), of which the first is a multiple of 16.
void ls__recurrent_sum_picked(const void *from, ls_dtype dtype, const int32_t *numbers, int64_t rows, int64_t width,
                              int64_t begin, int64_t end, float *sums);
// to = from, rounded to `dtype`.
void ls__recurrent_round(const float *from, ls_dtype dtype, int64_t count, void *to);

#endif
