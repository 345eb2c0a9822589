// A source without some of its samples: those that remain move up, and know the numbers that they had.
#include "base/error.h"
#include "data/exclude.h"

typedef struct without_source {
    ls_source base;
    const uint32_t *gone;  // (gone_count), ascending
    int64_t gone_count;
} without_source;

// Before the k-th that is gone, gone[k] - k samples remain.
static int64_t number_of(const ls_source *source, int64_t i) {
    const without_source *s = (const without_source *)source;
    int64_t low = 0, past = s->gone_count;
    while (low < past) {
        int64_t middle = low + (past - low) / 2;
        if ((int64_t)s->gone[middle] - middle <= i)
            low = middle + 1;
        else
            past = middle;
    }
    return i + low;
}

static ls_status without_read(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    return source->inner->ops->read(source->inner, number_of(source, i), scratch, out);
}

static void without_destroy(ls_source *source) { ls_source_destroy(&source->inner); }

static int64_t without_class(const ls_source *source, int64_t i) {
    return source->inner->ops->class ? source->inner->ops->class(source->inner, number_of(source, i)) : -1;
}

// As if those that are gone were as large as the others.
static int64_t without_stored(const ls_source *source) {
    const ls_source *inner = source->inner;
    if (!inner->ops->stored) return 0;
    return (int64_t)((double)inner->ops->stored(inner) * (double)source->count / (double)inner->count);
}

static void without_ahead(const ls_source *source, int64_t i) {
    if (source->inner->ops->ahead) source->inner->ops->ahead(source->inner, number_of(source, i));
}

static void without_forget(const ls_source *source) {
    if (source->inner->ops->forget) source->inner->ops->forget(source->inner);
}

static int64_t without_cache_size(const ls_source *source, int64_t limit) {
    return source->inner->ops->cache_size ? source->inner->ops->cache_size(source->inner, limit) : 0;
}

// Asked for where there is a size.
static void without_cache_attach(ls_source *source, int64_t limit, void *memory, int fill) {
    source->inner->ops->cache_attach(source->inner, limit, memory, fill);
}

static int64_t without_images(const ls_source *source) {
    return source->inner->ops->images ? source->inner->ops->images(source->inner) : 0;
}

// Asked for where there are some.
static void without_keep_pixels(ls_source *source, void *memory, int64_t size, int64_t all, int64_t first) {
    source->inner->ops->keep_pixels(source->inner, memory, size, all, first);
}

static const ls_source_ops without_ops = {.read = without_read,
                                          .destroy = without_destroy,
                                          .pictures = 1,
                                          .number = number_of,
                                          .class = without_class,
                                          .stored = without_stored,
                                          .ahead = without_ahead,
                                          .forget = without_forget,
                                          .cache_size = without_cache_size,
                                          .cache_attach = without_cache_attach,
                                          .images = without_images,
                                          .keep_pixels = without_keep_pixels};

ls_status ls_source_create_without(ls_source *inner, const uint32_t *gone, int64_t gone_count, ls_source **out) {
    without_source *s = NULL;
    *out = NULL;
    ls_status status =
        ls_source_check_classes(inner);  // nobody does later, as the values do not lie one after the other
    if (status == LS_OK)
        status = ls_source_create(&without_ops, sizeof *s, inner->name, inner->field, inner->field_count,
                                  inner->count - gone_count, &s);
    if (status != LS_OK) {
        ls_source_destroy(&inner);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    s->gone = gone;
    s->gone_count = gone_count;
    s->base.inner = inner;
    s->base.scratch_bytes = inner->scratch_bytes;
    s->base.bytes = inner->bytes;
    s->base.picture_bytes = inner->picture_bytes;
    *out = &s->base;
    return LS_OK;
}
