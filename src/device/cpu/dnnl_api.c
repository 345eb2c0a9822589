#include "device/cpu/dnnl_api.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

ls_status ls__dnnl_fail(dnnl_status_t status, const char *file, int line, const char *what) {
    static const char *const words[] = {"success",       "out of memory", "invalid arguments", "unimplemented",
                                        "iterator ends", "runtime error", "not required"};
    const char *word = (unsigned)status < sizeof words / sizeof words[0] ? words[status] : "unknown error";
    ls_status code = status == dnnl_out_of_memory   ? LS_STATUS_OUT_OF_MEMORY
                     : status == dnnl_unimplemented ? LS_STATUS_UNSUPPORTED
                                                    : LS_STATUS_LIBRARY;
    return ls__fail(code, file, line, "oneDNN could not %s: %s (status %d)", what, word, (int)status);
}

dnnl_data_type_t ls__dnnl_dtype(ls_dtype dtype) {
    switch (dtype) {
    case LS_DTYPE_F32: return dnnl_f32;
    case LS_DTYPE_BF16: return dnnl_bf16;
    case LS_DTYPE_F16: return dnnl_f16;
    case LS_DTYPE_U8: return dnnl_u8;
    case LS_DTYPE_I32: return dnnl_s32;
    case LS_DTYPE_F64:
    case LS_DTYPE_I64: break;
    }
    return dnnl_data_type_undef;
}

static ls_dtype dtype_of(dnnl_data_type_t type) {
    return type == dnnl_bf16  ? LS_DTYPE_BF16
           : type == dnnl_f16 ? LS_DTYPE_F16
           : type == dnnl_u8  ? LS_DTYPE_U8
           : type == dnnl_s32 ? LS_DTYPE_I32
                              : LS_DTYPE_F32;
}

const char *ls__pd_name(const_dnnl_primitive_desc_t pd) {
    const char *name = NULL;
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return name ? name : "?";
}

static void append_relu(dnnl_post_ops_t ops);

dnnl_primitive_attr_t ls__attr_create(ls_md residual, int relu) {
    dnnl_primitive_attr_t attr = NULL;
    if (dnnl_primitive_attr_create(&attr) != dnnl_success) return NULL;
    dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (!residual && !relu) return attr;
    dnnl_post_ops_t ops = NULL;
    dnnl_post_ops_create(&ops);
    if (residual) dnnl_post_ops_append_binary(ops, dnnl_binary_add, residual);
    if (relu) append_relu(ops);
    dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return attr;
}

#if DNNL_VERSION_MAJOR >= 3

ls_status ls__md_by_tag(int ndim, const dnnl_dims_t dims, ls_dtype dtype, dnnl_format_tag_t tag, ls_md *out) {
    dnnl_memory_desc_t md = NULL;
    LS_DNNL(dnnl_memory_desc_create_with_tag(&md, ndim, dims, ls__dnnl_dtype(dtype), tag), "describe a tensor");
    *out = md;
    return LS_OK;
}

ls_status ls__md_clone(ls_md md, ls_md *out) {
    dnnl_memory_desc_t copy = NULL;
    LS_DNNL(dnnl_memory_desc_clone(&copy, md), "copy a tensor's description");
    *out = copy;
    return LS_OK;
}

ls_status ls__md_first(ls_md md, int64_t count, ls_md *out) {
    dnnl_dims_t dims, offsets = {0};
    dnnl_memory_desc_t part = NULL;
    ls__md_dims(md, dims);
    dims[0] = count;
    LS_DNNL(dnnl_memory_desc_create_submemory(&part, md, dims, offsets), "describe a part of a tensor");
    *out = part;
    return LS_OK;
}

ls_status ls__md_transposed(ls_md md, ls_md *out) {
    dnnl_memory_desc_t turned = NULL;
    LS_DNNL(dnnl_memory_desc_permute_axes(&turned, md, (int[2]){1, 0}), "describe a transposed matrix");
    *out = turned;
    return LS_OK;
}

void ls__md_destroy(ls_md md) {
    if (md) dnnl_memory_desc_destroy((dnnl_memory_desc_t)md);
}

ls_dtype ls__md_dtype(ls_md md) {
    dnnl_data_type_t type = dnnl_data_type_undef;
    dnnl_memory_desc_query(md, dnnl_query_data_type, &type);
    return dtype_of(type);
}

int ls__md_dims(ls_md md, dnnl_dims_t dims) {
    int ndim = 0;
    const dnnl_dims_t *found = NULL;
    dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &ndim);
    dnnl_memory_desc_query(md, dnnl_query_dims, &found);
    memcpy(dims, *found, (size_t)ndim * sizeof(int64_t));
    return ndim;
}

static void append_relu(dnnl_post_ops_t ops) { dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.f, 0.f); }

static void forward_pd(dnnl_primitive_desc_t *pd, const ls_dnnl_op *op, dnnl_engine_t engine, dnnl_prop_kind_t prop,
                       dnnl_alg_kind_t algorithm, ls_md x, ls_md w, ls_md b, ls_md y, dnnl_primitive_attr_t attr) {
    if (op->inner_product)
        dnnl_inner_product_forward_primitive_desc_create(pd, engine, prop, x, w, b, y, attr);
    else
        dnnl_convolution_forward_primitive_desc_create(pd, engine, prop, algorithm, x, w, b, y, op->strides,
                                                       op->dilation, op->pad_begin, op->pad_end, attr);
}

void ls__choice_begin(ls_dnnl_choice *c, const ls_dnnl_op *op, dnnl_engine_t engine) {
    memset(c, 0, sizeof *c);
    c->attr = ls__attr_create(op->residual, op->relu);
    int forward = op->prop == dnnl_forward_training || op->prop == dnnl_forward_inference;
    if (forward) {
        forward_pd(&c->pd, op, engine, op->prop, op->algorithm, op->x, op->w, op->b, op->y, c->attr);
        return;
    }
    forward_pd(&c->hint, op, engine, dnnl_forward_training, dnnl_convolution_direct, op->hint_x, op->hint_w, NULL,
               op->hint_y, NULL);
    if (!c->hint) return;
    if (op->inner_product) {
        if (op->prop == dnnl_backward_data)
            dnnl_inner_product_backward_data_primitive_desc_create(&c->pd, engine, op->x, op->w, op->y, c->hint,
                                                                   c->attr);
        else
            dnnl_inner_product_backward_weights_primitive_desc_create(&c->pd, engine, op->x, op->w, op->b, op->y,
                                                                      c->hint, c->attr);
    } else if (op->prop == dnnl_backward_data) {
        dnnl_convolution_backward_data_primitive_desc_create(&c->pd, engine, op->algorithm, op->x, op->w, op->y,
                                                             op->strides, op->dilation, op->pad_begin, op->pad_end,
                                                             c->hint, c->attr);
    } else {
        dnnl_convolution_backward_weights_primitive_desc_create(&c->pd, engine, op->algorithm, op->x, op->w, op->b,
                                                                op->y, op->strides, op->dilation, op->pad_begin,
                                                                op->pad_end, c->hint, c->attr);
    }
}

void ls__choice_next(ls_dnnl_choice *c) {
    if (c->pd && dnnl_primitive_desc_next_impl(c->pd) != dnnl_success) {
        dnnl_primitive_desc_destroy(c->pd);
        c->pd = NULL;
    }
}

void ls__choice_end(ls_dnnl_choice *c) {
    if (c->pd) dnnl_primitive_desc_destroy(c->pd);
    if (c->hint) dnnl_primitive_desc_destroy(c->hint);
    if (c->attr) dnnl_primitive_attr_destroy(c->attr);
    memset(c, 0, sizeof *c);
}

#else  // 2.6 and later 2.x

ls_status ls__md_by_tag(int ndim, const dnnl_dims_t dims, ls_dtype dtype, dnnl_format_tag_t tag, ls_md *out) {
    dnnl_memory_desc_t md;
    LS_DNNL(dnnl_memory_desc_init_by_tag(&md, ndim, dims, ls__dnnl_dtype(dtype), tag), "describe a tensor");
    return ls__md_clone(&md, out);
}

ls_status ls__md_clone(ls_md md, ls_md *out) {
    dnnl_memory_desc_t *copy = malloc(sizeof *copy);
    if (!copy) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory");
    *copy = *md;
    *out = copy;
    return LS_OK;
}

ls_status ls__md_first(ls_md md, int64_t count, ls_md *out) {
    dnnl_memory_desc_t part;
    dnnl_dims_t dims, offsets = {0};
    memcpy(dims, md->dims, sizeof dims);
    dims[0] = count;
    LS_DNNL(dnnl_memory_desc_init_submemory(&part, md, dims, offsets), "describe a part of a tensor");
    return ls__md_clone(&part, out);
}

ls_status ls__md_transposed(ls_md md, ls_md *out) {
    dnnl_memory_desc_t turned;
    LS_DNNL(dnnl_memory_desc_permute_axes(&turned, md, (int[2]){1, 0}), "describe a transposed matrix");
    return ls__md_clone(&turned, out);
}

void ls__md_destroy(ls_md md) { free((void *)md); }

ls_dtype ls__md_dtype(ls_md md) { return dtype_of(md->data_type); }

int ls__md_dims(ls_md md, dnnl_dims_t dims) {
    memcpy(dims, md->dims, (size_t)md->ndims * sizeof(int64_t));
    return md->ndims;
}

static void append_relu(dnnl_post_ops_t ops) { dnnl_post_ops_append_eltwise(ops, 1.f, dnnl_eltwise_relu, 0.f, 0.f); }

static void fetch(ls_dnnl_choice *c) { c->pd = c->iterator ? dnnl_primitive_desc_iterator_fetch(c->iterator) : NULL; }

static dnnl_status_t describe_forward(ls_dnnl_choice *c, const ls_dnnl_op *op, dnnl_prop_kind_t prop,
                                      dnnl_alg_kind_t algorithm, ls_md x, ls_md w, ls_md b, ls_md y) {
    if (op->inner_product) return dnnl_inner_product_forward_desc_init(&c->desc.ip, prop, x, w, b, y);
    return dnnl_dilated_convolution_forward_desc_init(&c->desc.conv, prop, algorithm, x, w, b, y, op->strides,
                                                      op->dilation, op->pad_begin, op->pad_end);
}

static dnnl_status_t describe_backward(ls_dnnl_choice *c, const ls_dnnl_op *op) {
    if (op->inner_product)
        return op->prop == dnnl_backward_data
                   ? dnnl_inner_product_backward_data_desc_init(&c->desc.ip, op->x, op->w, op->y)
                   : dnnl_inner_product_backward_weights_desc_init(&c->desc.ip, op->x, op->w, op->b, op->y);
    return op->prop == dnnl_backward_data
               ? dnnl_dilated_convolution_backward_data_desc_init(&c->desc.conv, op->algorithm, op->x, op->w, op->y,
                                                                  op->strides, op->dilation, op->pad_begin, op->pad_end)
               : dnnl_dilated_convolution_backward_weights_desc_init(&c->desc.conv, op->algorithm, op->x, op->w, op->b,
                                                                     op->y, op->strides, op->dilation, op->pad_begin,
                                                                     op->pad_end);
}

void ls__choice_begin(ls_dnnl_choice *c, const ls_dnnl_op *op, dnnl_engine_t engine) {
    memset(c, 0, sizeof *c);
    c->attr = ls__attr_create(op->residual, op->relu);
    int forward = op->prop == dnnl_forward_training || op->prop == dnnl_forward_inference;
    if (forward) {
        if (describe_forward(c, op, op->prop, op->algorithm, op->x, op->w, op->b, op->y) != dnnl_success) return;
    } else {
        if (describe_forward(c, op, dnnl_forward_training, dnnl_convolution_direct, op->hint_x, op->hint_w, NULL,
                             op->hint_y) != dnnl_success ||
            dnnl_primitive_desc_create(&c->hint, &c->desc, NULL, engine, NULL) != dnnl_success ||
            describe_backward(c, op) != dnnl_success)
            return;
    }
    if (dnnl_primitive_desc_iterator_create(&c->iterator, &c->desc, c->attr, engine, c->hint) == dnnl_success)
        fetch(c);
    else
        c->iterator = NULL;
}

void ls__choice_next(ls_dnnl_choice *c) {
    if (!c->pd) return;
    dnnl_primitive_desc_destroy(c->pd);
    c->pd = NULL;
    if (dnnl_primitive_desc_iterator_next(c->iterator) == dnnl_success) fetch(c);
}

void ls__choice_end(ls_dnnl_choice *c) {
    if (c->pd) dnnl_primitive_desc_destroy(c->pd);
    if (c->iterator) dnnl_primitive_desc_iterator_destroy(c->iterator);
    if (c->hint) dnnl_primitive_desc_destroy(c->hint);
    if (c->attr) dnnl_primitive_attr_destroy(c->attr);
    memset(c, 0, sizeof *c);
}

#endif
