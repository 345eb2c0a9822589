// Values that lie in memory: a sample is a place in each array, and nothing is copied.
#include "base/error.h"
#include "base/memory.h"
#include "data/source.h"

typedef struct memory_source {
    ls_source base;
    const char *array[LS_MAX_FIELDS];
} memory_source;

static ls_status memory_read(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    const memory_source *m = (const memory_source *)source;
    for (int f = 0; f < source->field_count; f++) out->field[f] = m->array[f] + i * source->sample_bytes[f];
    return LS_OK;
}

static const void *memory_array(const ls_source *source, int field) {
    return ((const memory_source *)source)->array[field];
}

static const ls_source_ops memory_ops = {.read = memory_read, .array = memory_array};

ls_status ls_source_create_memory(const char *name, const ls_field *fields, int field_count, const ls_arrays *arrays,
                                  ls_source **out) {
    memory_source *m;
    ls_status status;
    *out = NULL;
    LS_TRY(ls_source_create(&memory_ops, sizeof *m, name, fields, field_count, arrays->count, &m));
    for (int f = 0; f < field_count; f++) {
        int64_t bytes, size = (int64_t)ls_dtype_size(fields[f].dtype);
        if (!arrays->field[f])
            LS_FAIL_GOTO(LS_STATUS_INVALID_ARGUMENT, fail, "%s has no array for the field \"%s\"; pass one",
                         m->base.name, fields[f].name);
        if ((uintptr_t)arrays->field[f] % (uintptr_t)size)
            LS_FAIL_GOTO(
                LS_STATUS_INVALID_ARGUMENT, fail,
                "%s: the array of the field \"%s\" lies at an address that is no multiple of the %lld bytes of a "
                "value; align it",
                m->base.name, fields[f].name, (long long)size);
        if (__builtin_mul_overflow(m->base.sample_bytes[f], arrays->count, &bytes) || bytes > INT64_MAX / 1024)
            LS_FAIL_GOTO(LS_STATUS_INVALID_ARGUMENT, fail,
                         "%s: %lld samples of the field \"%s\" are larger than memory; check its shape", m->base.name,
                         (long long)arrays->count, fields[f].name);
        m->array[f] = arrays->field[f];
        m->base.bytes += ls_memory_size(bytes);
    }
    *out = &m->base;
    return LS_OK;
fail:
    *out = &m->base;
    ls_source_destroy(out);
    return status;
}
