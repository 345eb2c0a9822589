#include "data/write_arrays.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

static const char *set_name(int test) { return test ? "test" : "training"; }

ls_status ls_array_shape_take(ls_array_shape *a, const ls_written *s) {
    if (!a->known)
        *a = (ls_array_shape){.height = s->height,
                              .width = s->width,
                              .first = s->source,
                              .channels = s->channels,
                              .test = s->test,
                              .known = 1};
    if (a->height == s->height && a->width == s->width && a->channels == s->channels) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "sample %lld of the %s set has %lld x %lld pixels, and sample %lld of the %s set %lld x %lld: an "
                   "array has images of one size; --image-size N makes all of them N x N",
                   (long long)s->source, set_name(s->test), (long long)s->height, (long long)s->width,
                   (long long)a->first, set_name(a->test), (long long)a->height, (long long)a->width);
}

ls_status ls_array_file_failed(const char *path) {
    return LS_FAIL(LS_STATUS_IO, "cannot write %s: %s; name a place that can be written to, with room for it", path,
                   strerror(errno));
}

ls_status ls_array_file_open(const char *path, ls_output *out) {
    if (ls_output_open(path, out) != 0) return ls_array_file_failed(path);
    if (out->beside) return LS_OK;
    ls_output_close(out, path, 0);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is a pipe or a device: arrays are written to a file", path);
}
