// What a function of a program gives: it writes into a thread's scratch, field after field.
#include "base/error.h"
#include "base/memory.h"
#include "data/source.h"

typedef struct callback_source {
    ls_source base;
    ls_callback callback;
    int64_t offset[LS_MAX_FIELDS];  // of the fields in scratch
    int64_t values[LS_MAX_FIELDS];  // of one sample
} callback_source;

static ls_status callback_read(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    const callback_source *c = (const callback_source *)source;
    void *to[LS_MAX_FIELDS] = {NULL};
    for (int f = 0; f < source->field_count; f++) out->field[f] = to[f] = (char *)scratch + c->offset[f];
    ls__error_set("");  // so that an earlier failure's sentence does not pass for the function's
    ls_status status = c->callback.read(c->callback.user, i, to);
    if (status != LS_OK) return ls__callback_status(status, "the function that reads samples");
    for (int f = 0; f < source->field_count; f++) LS_TRY(ls_field_check_values(&source->field[f], to[f], c->values[f]));
    return LS_OK;
}

static const ls_source_ops callback_ops = {.read = callback_read};

ls_status ls_source_create_callback(const char *name, const ls_field *fields, int field_count,
                                    const ls_callback *callback, ls_source **out) {
    callback_source *c;
    *out = NULL;
    if (!callback->read)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%.200s has %lld samples and no function that reads them; pass one",
                       name, (long long)callback->count);
    LS_TRY(ls_source_create(&callback_ops, sizeof *c, name, fields, field_count, callback->count, &c));
    c->callback = *callback;
    for (int f = 0; f < field_count; f++) {
        c->values[f] = ls_shape_count(fields[f].shape);
        c->offset[f] = c->base.scratch_bytes;
        c->base.scratch_bytes += ls_round_up(c->base.sample_bytes[f], LS_ALIGN);
    }
    *out = &c->base;
    return LS_OK;
}
