// Products of small matrices of floats, by our own loops: what lies in the first caches, where a call into the library lasts longer than
// the arithmetic. Sums go over k one after the other: their bits depend on nothing but the numbers.
#ifndef LS_DEVICE_CPU_PRODUCTS_H
#define LS_DEVICE_CPU_PRODUCTS_H

#include <stdint.h>

// C (m, n) = A (m, k) B (k, n).
typedef struct ls_product {
    int64_t m, n, k;  // n is a multiple of 16
    const float *a;   // element (i, l) at i * a_row + l * a_step, so that it may be a transpose
    int64_t a_row, a_step;
    const float *b;  // rows of b_row
    int64_t b_row;
    float *c;  // rows of c_row
    int64_t c_row;
} ls_product;

void ls__product(const ls_product *product);

#endif
