// oneDNN, as far as this device uses it, the same for its 2.6+ and its 3.x C API. What differs between the two (memory
// descriptors by value or by handle, operation descriptors, how implementations are enumerated) stays in dnnl_api.c.
#ifndef LS_DEVICE_CPU_DNNL_API_H
#define LS_DEVICE_CPU_DNNL_API_H

#include <oneapi/dnnl/dnnl.h>

#include <lockstep/status.h>
#include <lockstep/tensor.h>

// A memory descriptor as the library's functions take it: borrowed. Owned ones are freed with ls__md_destroy.
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t ls_md;
#else
typedef const dnnl_memory_desc_t *ls_md;
#endif

// Turns a failing oneDNN call into a status with its words and ours.
#define LS_DNNL(call, what)                                                                                            \
    do {                                                                                                               \
        dnnl_status_t ls_dnnl_status_ = (call);                                                                        \
        if (ls_dnnl_status_ != dnnl_success) return ls__dnnl_fail(ls_dnnl_status_, __FILE__, __LINE__, what);          \
    } while (0)

ls_status ls__dnnl_fail(dnnl_status_t status, const char *file, int line, const char *what);
dnnl_data_type_t ls__dnnl_dtype(ls_dtype dtype);

ls_status ls__md_by_tag(int ndim, const dnnl_dims_t dims, ls_dtype dtype, dnnl_format_tag_t tag, ls_md *out);
ls_status ls__md_clone(ls_md md, ls_md *out);
// Of the first `count` along the library's first dimension (samples; filters of weights): UNSUPPORTED where blocks would be cut.
ls_status ls__md_first(ls_md md, int64_t count, ls_md *out);
// Of a matrix, the same memory as its transpose.
ls_status ls__md_transposed(ls_md md, ls_md *out);
void ls__md_destroy(ls_md md);
ls_dtype ls__md_dtype(ls_md md);
int ls__md_dims(ls_md md, dnnl_dims_t dims);  // returns how many

// One pass of a convolution or an inner product.
typedef struct ls_dnnl_op {
    int inner_product;
    dnnl_prop_kind_t prop;  // forward_training, forward_inference, backward_data, backward_weights
    dnnl_alg_kind_t algorithm;
    ls_md x, w, b,
        y;  // of this pass: the gradients' descriptors where the pass computes or reads gradients; b may be NULL
    ls_md hint_x, hint_w, hint_y;                       // for backward: of a forward pass with free layouts
    dnnl_dims_t strides, dilation, pad_begin, pad_end;  // dilation: as the library counts it, 0 for none
    ls_md residual;                                     // forward: added after the bias; NULL: nothing is
    int relu;                                           // forward: ReLU after that
} ls_dnnl_op;

// The implementations the library has for an op, best first in its own opinion.
typedef struct ls_dnnl_choice {
    dnnl_primitive_desc_t pd;  // the current one; NULL past the end
    dnnl_primitive_desc_t hint;
    dnnl_primitive_attr_t attr;
#if DNNL_VERSION_MAJOR < 3
    dnnl_primitive_desc_iterator_t iterator;
    union {
        dnnl_convolution_desc_t conv;
        dnnl_inner_product_desc_t ip;
    } desc;
#endif
} ls_dnnl_choice;

// Goes to the first implementation; choice->pd is NULL when there is none. ls__choice_end in any case.
void ls__choice_begin(ls_dnnl_choice *choice, const ls_dnnl_op *op, dnnl_engine_t engine);
void ls__choice_next(ls_dnnl_choice *choice);
void ls__choice_end(ls_dnnl_choice *choice);
const char *ls__pd_name(const_dnnl_primitive_desc_t pd);
// What follows a convolution: the addition of a tensor unless NULL, then a ReLU. A user-provided scratchpad is asked for
// everywhere, so that no run allocates.
dnnl_primitive_attr_t ls__attr_create(ls_md residual, int relu);

#endif
