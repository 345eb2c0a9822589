// Reductions element by element, in every type.
#ifndef LS_STEP_ELEMENTS_H
#define LS_STEP_ELEMENTS_H

#include <lockstep/comm.h>

// out = a and b, (n) each, joined: two siblings of the tree, the left one first. A mean joins as a
// sum does. out may be a or b.
void ls__elements_join(ls_reduce_op op, ls_dtype dtype, void *out, const void *a, const void *b, int64_t n);
// x, (n), divided by `total`; of floats.
void ls__elements_divide(ls_dtype dtype, void *x, int64_t n, int64_t total);
const char *ls__reduce_name(ls_reduce_op op);  // "sum"; "unknown"

#endif
