// Checks all passes of an operation on device "cpu" against the reference loops.
//
// Both devices get the same plain values, brought into each kernel's layouts by the device's own reorders and back
// again, as a plan does it; backward kernels are told forward's layouts and get its workspace. Inputs are rounded to
// bf16 and fp16 beforehand, so that conversions lose nothing. Outputs are filled with NaN before a kernel runs: what it leaves
// out shows. What a blocked layout pads must come out zero. A kernel that says its output may lie in an input's memory is
// run so too, and every kernel with three threads: the bits must be the same.
#ifndef LS_TESTS_OPS_CHECK_H
#define LS_TESTS_OPS_CHECK_H

#include "op_case.h"

extern ls_device *cpu, *ref, *more;  // more: "cpu" with three threads

int ops_setup(void **state);
int ops_teardown(void **state);

// Numbers that are the same in every run.
uint32_t draw(void);
int pick(const int *from, int count);
#define PICK(...) pick((const int[]){__VA_ARGS__}, (int)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)))

// How the first input lies when it comes.
typedef enum lie { AS_LIKED, PLAIN, AS_OF_CONV, BLOCKS_OF_16, BLOCKS_OF_8 } lie;

// In each dtype that the device computes in; the input in the layout its kernels like best.
void check(op_case c);
// Also in each layout that images come in.
void check_layouts(op_case c);

// What was checked: by dtype, fp32, bf16 and fp16.
enum { DTYPES = 3 };
extern int runs[LS_OP_COUNT][DTYPES], skips[LS_OP_COUNT][DTYPES];
extern double worst[LS_OP_COUNT][DTYPES];  // largest error seen, as a share of the tolerance

int each_dtype(ls_dtype *dtypes);

#endif
