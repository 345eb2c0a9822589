#include "data/formats/file_arrays.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/formats/learned.h"
#include "data/pixels.h"
#include "data/records.h"

typedef struct arrays_source {
    ls_source base;
    ls__array_place place[LS_MAX_FIELDS];
    int fd[LS_MAX_FIELDS];      // of its file, which fields may share; -1: in memory
    int64_t at[LS_MAX_FIELDS];  // in the scratch, of those that are read, and in what is kept of a sample
    int64_t each,
        as_read;  // bytes of all that are read of a sample; where in the scratch they are put before they are changed
    ls_pixels kept;  // samples as they were read
} arrays_source;

// --- reading ---------------------------------------------------------------------------------------------------------

ls_status ls__array_file_changed(const char *path) {
    return LS_FAIL(
        LS_STATUS_IO,
        "%s was changed since this run began: leave the data as they are while they are in use, and begin again", path);
}

static ls_status check_unchanged(const ls__array_file *file, int fd) {
    struct stat now;
    if (fstat(fd, &now) == 0 && now.st_size == file->bytes && ls_records_time(&now) == file->changed) return LS_OK;
    return ls__array_file_changed(file->path);
}

static ls_status read_at(const ls__array_place *p, int fd, int64_t i, int64_t size, void *out) {
    int64_t at = p->at + i * size;
    for (int64_t done = 0; done < size;) {
        ssize_t n = pread(fd, (char *)out + done, (size_t)(size - done), at + done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return LS_FAIL(LS_STATUS_IO, "cannot read %s at byte %lld: %s", p->in.path, (long long)(at + done),
                           n < 0 ? strerror(errno) : "it ends before");
        done += n;
    }
    return LS_OK;
}

void ls__array_interleave(const ls_field *field, const void *planes, void *out) {
    int64_t channels = field->shape.dim[2], pixels = field->shape.dim[0] * field->shape.dim[1];
    int bytes = field->dtype == LS_DTYPE_U8;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++) {
            if (bytes)
                ((uint8_t *)out)[i * channels + c] = ((const uint8_t *)planes)[c * pixels + i];
            else
                ((float *)out)[i * channels + c] = ((const float *)planes)[c * pixels + i];
        }
}

static void narrow(const double *from, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++) out[i] = (float)from[i];
}

static ls_status read_field(const arrays_source *s, int f, int64_t i, void *scratch) {
    const ls__array_place *p = &s->place[f];
    int64_t values = ls_shape_count(s->base.field[f].shape), size = s->base.sample_bytes[f];
    void *out = (char *)scratch + s->at[f], *to = p->planes || p->doubles ? (char *)scratch + s->as_read : out;
    if (p->at >= 0)
        LS_TRY(read_at(p, s->fd[f], i, p->doubles ? 2 * size : size, to));
    else
        LS_TRY(p->read(p->self, i, to));
    if (p->doubles) narrow(to, values, out);
    if (p->finite) {
        ls__learned mine = {.path = p->in.path, .name = p->finite};
        LS_TRY(ls__learned_finite(&mine, p->planes ? to : out, i * values, values));
    }
    if (p->planes) ls__array_interleave(&s->base.field[f], to, out);
    return LS_OK;
}

static ls_status read_fields(const arrays_source *s, int64_t i, void *scratch) {
    const char *looked_at = NULL;
    for (int f = 0; f < s->base.field_count; f++) {
        if (s->place[f].memory) continue;
        if (s->place[f].in.path != looked_at) LS_TRY(check_unchanged(&s->place[f].in, s->fd[f]));
        looked_at = s->place[f].in.path;
        LS_TRY(read_field(s, f, i, scratch));
    }
    return LS_OK;
}

static ls_status arrays_read(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    const arrays_source *s = (const arrays_source *)source;
    ls_pixels_entry kept;
    int there = ls_pixels_get(&s->kept, i, 0, &kept);
    if (!there) LS_TRY(read_fields(s, i, scratch));
    for (int f = 0; f < source->field_count; f++)
        out->field[f] = s->place[f].memory ? (const char *)s->place[f].memory + i * source->sample_bytes[f]
                                           : (there ? (const char *)kept.bytes : (const char *)scratch) + s->at[f];
    if (there || !ls_pixels_begin(&s->kept, i, 0, s->each, &kept)) return LS_OK;
    memcpy(kept.bytes, scratch, (size_t)s->each);
    ls_pixels_end(&s->kept, i, 0, &kept);
    return LS_OK;
}

// --- what else a source tells ------------------------------------------------------------------------------------------

static int64_t arrays_class(const ls_source *source, int64_t i) {
    const arrays_source *s = (const arrays_source *)source;
    int f = source->field_count - 1;
    return source->field[f].classes && s->place[f].memory ? ((const int32_t *)s->place[f].memory)[i] : -1;
}

static int64_t arrays_stored(const ls_source *source) {
    const arrays_source *s = (const arrays_source *)source;
    int64_t each = 0;
    for (int f = 0; f < source->field_count; f++)
        if (!s->place[f].memory) each += source->sample_bytes[f] * (s->place[f].doubles ? 2 : 1);
    return source->count * each;
}

static void arrays_ahead(const ls_source *source, int64_t i) {
    const arrays_source *s = (const arrays_source *)source;
    ls_pixels_entry kept;
    if (ls_pixels_get(&s->kept, i, 0, &kept)) return;
    for (int f = 0; f < source->field_count; f++) {
        int64_t size = source->sample_bytes[f] * (s->place[f].doubles ? 2 : 1);
        if (!s->place[f].memory && s->place[f].at >= 0)
            posix_fadvise(s->fd[f], s->place[f].at + i * size, size, POSIX_FADV_WILLNEED);
    }
}

static int64_t arrays_cache_size(const ls_source *source, int64_t limit) {
    return ls_pixels_size(source->count, ((const arrays_source *)source)->each, limit);
}

static void arrays_cache_attach(ls_source *source, int64_t limit, void *memory, int fill) {
    arrays_source *s = (arrays_source *)source;
    ls_pixels_place(memory, arrays_cache_size(source, limit), source->count, 0, source->count, &s->kept);
}

static void arrays_destroy(ls_source *source) {
    arrays_source *s = (arrays_source *)source;
    for (int f = 0; f < source->field_count; f++) {
        int shared = f > 0 && s->fd[f] == s->fd[f - 1];
        if (s->fd[f] >= 0 && !shared) close(s->fd[f]);
        if (s->place[f].destroy) s->place[f].destroy(s->place[f].self);
    }
}

static const ls_source_ops arrays_ops = {.read = arrays_read,
                                         .destroy = arrays_destroy,
                                         .class = arrays_class,
                                         .stored = arrays_stored,
                                         .ahead = arrays_ahead,
                                         .cache_size = arrays_cache_size,
                                         .cache_attach = arrays_cache_attach};

// --- making one --------------------------------------------------------------------------------------------------------

ls_status ls__array_file_describe(const char *path, int64_t *bytes, int64_t *changed) {
    struct stat there;
    int missing = stat(path, &there) != 0;
    if (missing || !S_ISREG(there.st_mode))
        return LS_FAIL(missing && errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", path,
                       missing ? strerror(errno) : "it is no file");
    *bytes = there.st_size;
    *changed = ls_records_time(&there);
    return LS_OK;
}

// Formats say where their values are before anything is read of them: what lies behind the file's end is told now, and not in an epoch.
static ls_status check_inside(const arrays_source *s, int f) {
    const ls__array_place *p = &s->place[f];
    double each = (double)s->base.sample_bytes[f] * (p->doubles ? 2 : 1),
           end = (double)p->at + each * (double)s->base.count;
    if (p->at < 0 || end <= (double)p->in.bytes) return LS_OK;
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "%s is damaged: %lld samples of %.0f bytes are said to begin at byte %lld of its %lld; copy or make it again",
        p->in.path, (long long)s->base.count, each, (long long)p->at, (long long)p->in.bytes);
}

static ls_status open_files(arrays_source *s) {
    for (int f = 0; f < s->base.field_count; f++) {
        const ls__array_file *in = &s->place[f].in;
        if (s->place[f].memory) continue;
        LS_TRY(check_inside(s, f));
        if (f > 0 && in->path == s->place[f - 1].in.path && s->fd[f - 1] >= 0) {
            s->fd[f] = s->fd[f - 1];
            continue;
        }
        s->fd[f] = open(in->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (s->fd[f] < 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", in->path, strerror(errno));
        LS_TRY(check_unchanged(in, s->fd[f]));
    }
    return LS_OK;
}

static void lay_out(arrays_source *s) {
    int64_t in_between = 0;
    for (int f = 0; f < s->base.field_count; f++) {
        const ls__array_place *p = &s->place[f];
        assert(!(p->doubles && p->planes));  // there is one place in between
        int64_t size = s->base.sample_bytes[f], there = p->doubles ? 2 * size : size;
        if (p->memory) {
            s->base.bytes += ls_memory_size(size * s->base.count);
            continue;
        }
        s->at[f] = s->each;
        s->each += ls_round_up(size, 16);
        if ((p->doubles || p->planes) && there > in_between) in_between = there;
    }
    s->as_read = ls_round_up(s->each, LS_ALIGN);
    s->base.scratch_bytes = s->as_read + ls_round_up(in_between, LS_ALIGN);
}

ls_status ls__source_create_file_arrays(const char *name, const ls_field *fields, int field_count, int64_t count,
                                        const ls__array_place *place, ls_source **out) {
    arrays_source *s;
    *out = NULL;
    ls_status status = ls_source_create(&arrays_ops, sizeof *s, name, fields, field_count, count, &s);
    if (status != LS_OK) {
        for (int f = 0; f < field_count; f++)
            if (place[f].destroy) place[f].destroy(place[f].self);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    for (int f = 0; f < field_count; f++) {
        s->place[f] = place[f];
        s->fd[f] = -1;
    }
    lay_out(s);
    *out = &s->base;
    status = open_files(s);
    if (status == LS_OK) return LS_OK;
    ls_source_destroy(out);
    return ls__fail_passed(status, __FILE__, __LINE__);
}
