// Values as a source has them → values as a network wants them, number by number: 7 becomes 7.0.
#ifndef LS_DATA_CONVERT_H
#define LS_DATA_CONVERT_H

#include <lockstep/status.h>
#include <lockstep/tensor.h>

// in: (n) of one type; out: (n) of another.
typedef void (*ls_convert_fn)(const void *in, int64_t n, void *out);

// The function from `from` (U8, I32, F32) to `to`: integers become floats and wider integers, floats become bf16 or fp16, rounded to nearest.
// Errors: UNSUPPORTED (values would be lost).
ls_status ls_convert_find(ls_dtype from, ls_dtype to, ls_convert_fn *out);

#endif
