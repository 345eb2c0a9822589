#include "data/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"

// ---- fields --------------------------------------------------------------------------------------------------------

// Bytes of one sample's field; -1: more than can be.
static int64_t field_bytes(const ls_field *f) {
    int64_t bytes = (int64_t)ls_dtype_size(f->dtype);
    for (int d = 0; d < f->shape.ndim; d++)
        if (__builtin_mul_overflow(bytes, f->shape.dim[d], &bytes)) return -1;
    return bytes > (int64_t)1 << 40 ? -1 : bytes;
}

static ls_status check_field(const ls_field *f, int index, int pictures) {
    if (strnlen(f->name, sizeof f->name) == sizeof f->name || !f->name[0])
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "field %d has %s name: give it one of 1 to %d letters", index,
                       f->name[0] ? "too long a" : "no", (int)sizeof f->name - 1);
    if (f->shape.ndim < 0 || f->shape.ndim > LS_MAX_DIMS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the field \"%s\" has %d dimensions; there may be 0 to %d", f->name,
                       f->shape.ndim, LS_MAX_DIMS);
    for (int d = 0; d < f->shape.ndim; d++)
        if (f->shape.dim[d] < 1 && !(pictures && d < 2 && ls_field_is_picture(f)))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "dimension %d of the field \"%s\" is %lld; each must be at least 1", d, f->name,
                           (long long)f->shape.dim[d]);
    if (f->dtype != LS_DTYPE_U8 && f->dtype != LS_DTYPE_I32 && f->dtype != LS_DTYPE_F32)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the field \"%s\" is of %s; samples are u8, i32 or fp32", f->name,
                       (unsigned)f->dtype <= LS_DTYPE_I32 ? ls_dtype_name(f->dtype) : "no known type");
    if (f->classes < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the field \"%s\" has %d classes; give their number, or 0 for none",
                       f->name, f->classes);
    if (f->classes && f->dtype == LS_DTYPE_F32)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the field \"%s\" has %d classes and is fp32: numbers of classes are u8 or i32; if it holds a row "
            "of labels, its classes are 0",
            f->name, f->classes);
    if (pictures && ls_field_is_picture(f) &&
        (f->dtype != LS_DTYPE_U8 || (f->shape.dim[2] != 1 && f->shape.dim[2] != 3)))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the field \"%s\" has pictures of %lld channels of %s; they are u8, and have 1 or 3", f->name,
                       (long long)f->shape.dim[2], ls_dtype_name(f->dtype));
    if (field_bytes(f) < 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "a sample of the field \"%s\" is larger than memory; check its shape", f->name);
    return LS_OK;
}

int ls_fields_find(const ls_field *fields, int field_count, const char *name) {
    for (int i = 0; i < field_count; i++)
        if (strcmp(fields[i].name, name) == 0) return i;
    return -1;
}

ls_status ls_fields_check(const ls_field *fields, int field_count, int pictures) {
    if (field_count < 1 || field_count > LS_MAX_FIELDS || !fields)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "samples were described with %d fields; there may be 1 to %d",
                       fields ? field_count : 0, LS_MAX_FIELDS);
    for (int i = 0; i < field_count; i++) {
        LS_TRY(check_field(&fields[i], i, pictures));
        if (ls_fields_find(fields, i, fields[i].name) >= 0)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "two fields are named \"%s\"; give each a name of its own",
                           fields[i].name);
    }
    return LS_OK;
}

// ---- class numbers -------------------------------------------------------------------------------------------------

static ls_status out_of_range(const ls_field *field, int64_t at, int64_t value) {
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "value %lld of \"%s\" is %lld, but its classes go from 0 to %d; correct it, or the number of classes",
        (long long)at, field->name, (long long)value, field->classes - 1);
}

ls_status ls_field_check_values(const ls_field *field, const void *values, int64_t n) {
    if (field->classes == 0) return LS_OK;
    if (field->dtype == LS_DTYPE_U8) {
        const uint8_t *v = values;
        for (int64_t i = 0; i < n && field->classes <= UINT8_MAX; i++)
            if (v[i] >= field->classes) return out_of_range(field, i, v[i]);
    } else {
        const int32_t *v = values;
        for (int64_t i = 0; i < n; i++)
            if (v[i] < 0 || v[i] >= field->classes) return out_of_range(field, i, v[i]);
    }
    return LS_OK;
}

// Sample by sample, so that the sentence is the same as one of reading.
ls_status ls_source_check_classes(const ls_source *s) {
    for (int f = 0; f < s->field_count; f++) {
        const char *values = ls_source_array(s, f);
        int64_t n = ls_shape_count(s->field[f].shape);
        if (!values || !s->field[f].classes) continue;
        for (int64_t i = 0; i < s->count; i++) {
            ls_status status = ls_field_check_values(&s->field[f], values + i * s->sample_bytes[f], n);
            if (status != LS_OK) return ls__source_failed(s, i, status);
        }
    }
    return LS_OK;
}

// ---- sources -------------------------------------------------------------------------------------------------------

ls_status ls_source_create(const ls_source_ops *ops, int64_t size, const char *name, const ls_field *fields,
                           int field_count, int64_t count, void *out) {
    ls_source *s;
    *(void **)out = NULL;
    ls_status status = ls_fields_check(fields, field_count, ops->pictures);
    if (status != LS_OK) return ls__fail_context(status, "%.200s: ", name);
    if (count < 1 || count > LS_MAX_SAMPLES)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%.200s has %lld samples; there may be 1 to %lld", name,
                       (long long)count, (long long)LS_MAX_SAMPLES);
    LS_TRY(ls_calloc(1, size, &s));
    s->ops = ops;
    snprintf(s->name, sizeof s->name, "%s", name);
    s->count = count;
    s->field_count = field_count;
    for (int f = 0; f < field_count; f++) {
        s->field[f] = fields[f];
        s->sample_bytes[f] = field_bytes(&fields[f]);
    }
    *(ls_source **)out = s;
    return LS_OK;
}

void ls_source_destroy(ls_source **source) {
    ls_source *s = *source;
    *source = NULL;
    if (!s) return;
    if (s->ops->destroy) s->ops->destroy(s);
    free(s);
}

const void *ls_source_array(const ls_source *s, int field) { return s->ops->array ? s->ops->array(s, field) : NULL; }

ls_status ls__source_failed(const ls_source *s, int64_t i, ls_status status) {
    return ls__fail_context(status, "sample %lld of %s: ", (long long)ls_source_number(s, i), s->name);
}

// ---- only thought of -----------------------------------------------------------------------------------------------

static ls_status planned_read(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    return LS_FAIL(LS_STATUS_INTERNAL, "it is only thought of, to plan with, and has no values");
}

static const ls_source_ops planned = {.read = planned_read, .pictures = 1};

ls_status ls_source_create_planned(const char *name, const ls_field *fields, int field_count, int64_t count,
                                   ls_source **out) {
    return ls_source_create(&planned, sizeof **out, name, fields, field_count, count, out);
}
