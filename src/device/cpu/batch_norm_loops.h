// The loops of batch normalization. Each exists once per instruction set; all of them compute the same bits.
//
// They go over a tile: some channels of all pixels of a micro-batch. It consists of rows of 32 elements, cut from memory so
// that element e of every row belongs to the same channel: the rows of a plane of a blocked layout are two or four of its
// pixels; those of a plain layout are 32 channels of one pixel.
#ifndef LS_DEVICE_CPU_BATCH_NORM_LOOPS_H
#define LS_DEVICE_CPU_BATCH_NORM_LOOPS_H

#include <stdint.h>

#include <lockstep/tensor.h>

#define LS_NORM_ROW 32

// What Y ends in. RELU6, the one that is cut off at 6, has no X2 before it.
typedef enum ls_norm_end { LS_NORM_LINEAR, LS_NORM_RELU, LS_NORM_RELU6 } ls_norm_end;

typedef struct ls_norm_pass {
    // The tile. Strides count elements.
    int64_t origin;            // where it begins, from the pointers below on
    int64_t runs, run_stride;  // pieces of memory (planes)
    int64_t rows, row_stride;  // rows of a run
    int64_t width;             // elements of a row that are there
    int64_t tail;              // those of one more row at the end of each run
    // While the first row of a run is worked on, the one this far on is fetched; the next ones step_ahead apart. 0: none is.
    int64_t ahead, step_ahead;
    // Where its first element is in each tensor. Which are used says each loop; unused ones are NULL.
    const void *x, *x2, *dy, *addend;
    // Bytes by which the runs of X, and the rows of a run, are further apart than the others'; backward alone.
    int64_t x_skip, x_row_skip;
    void *y, *dx, *dx2;
    ls_norm_end relu;
    int mask_dx;  // X began in one
    // By place in a row (ls__norm_place), so repeated where a row holds a channel several times; zero where a row ends earlier.
    float mean[LS_NORM_ROW], scale[LS_NORM_ROW], beta[LS_NORM_ROW];
    float dy_mean[LS_NORM_ROW], slope[LS_NORM_ROW];
    // Of bf16, by element: y > 0 where (x ^ flip) <= bound as whole numbers without a sign. Only where `bounded`.
    uint16_t flip[LS_NORM_ROW], bound[LS_NORM_ROW];
    int bounded;
    double sum[2][LS_NORM_ROW];
    // What is summed in float and not yet in double: so many rows. A loop begins with them; with `open`, as the tile goes on in the
    // next call, it leaves them so.
    int open;
    int64_t unfolded;
    float part[2][LS_NORM_ROW];
} ls_norm_pass;

// The place of element e of a row in the arrays above, but for FLIP and BOUND.
int ls__norm_place(ls_dtype dtype, int e);

typedef struct ls_norm_loops {
    // sum = the sums of some elements of x, eight rows spread evenly over the tile, and how many they are.
    void (*sample)(ls_norm_pass *p);
    // sum = the sums of (x - mean) and of (x - mean)^2, where mean is any number near the mean. Short runs are summed in float,
    // these in double.
    void (*moments)(ls_norm_pass *p);
    // Finds the bounds by which the loops below see whether y > 0, from mean, scale and beta, where there are any; NULL: these loops have no use for them.
    void (*bounds)(ls_norm_pass *p);
    // y = (x - mean) * scale + beta, + x2 unless NULL; with relu that where it is positive, else 0; of RELU6 at most 6
    void (*forward)(ls_norm_pass *p);
    // sum = the sums of d and of d * (x - mean), where d = dy, or with relu dy where y > 0 (of RELU6 and y < 6), else 0. With y NULL, y is
    // computed again, as forward does it without x2, or seen by the bounds. dx2 = d, unless NULL.
    void (*backward_sums)(ls_norm_pass *p);
    // dx = scale * ((d - dy_mean) - (x - mean) * slope), + addend unless NULL; with mask_dx that where x > 0, else 0. Here d = dx2;
    // with dx2 NULL, it is what it was in the sums.
    void (*backward_data)(ls_norm_pass *p);
} ls_norm_loops;

const ls_norm_loops *ls__norm_loops(ls_dtype dtype);
// Those of bf16 in the instructions of AVX512-BF16, which take denormals for zeros as threads that compute do; NULL where the compiler or
// the processor has none.
const ls_norm_loops *ls__norm_loops_of_bf16(void);

#endif
