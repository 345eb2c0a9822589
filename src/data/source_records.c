// Samples that lie in files: read when they are wanted, into a thread's scratch.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/cache.h"
#include "data/datum.h"
#include "data/pixels.h"
#include "data/records.h"

#define MOST_KEPT                                                                                                      \
    256  // containers that stay open; of more, and of files with a sample each, one is opened for a sample

typedef struct records_source {
    ls_source base;
    ls_records records;
    const ls_record *record;  // of its set
    char *index;              // the file it is kept in; NULL: none
    ls_cache cache;           // of bytes
    ls_pixels pixels;         // or of decoded images
    _Atomic int *kept;        // (file_count): open files, -1 where it is not yet; NULL: none stays open
} records_source;

// What read puts in front of the bytes.
typedef struct head {
    ls_picture picture;
    int32_t class;
} head;

#define HEAD_BYTES (2 * (int64_t)LS_ALIGN)
_Static_assert(sizeof(head) <= 2 * LS_ALIGN, "a sample's head is in front of its bytes");

static ls_status check_unchanged(const char *path, const ls_record_file *file, int fd) {
    struct stat now;
    if (fstat(fd, &now) != 0) return LS_FAIL(LS_STATUS_IO, "cannot look at %s: %s", path, strerror(errno));
    if (now.st_size == file->bytes && ls_records_time(&now) == file->changed) return LS_OK;
    return LS_FAIL(
        LS_STATUS_IO,
        "%s was changed since this run began, or since its index was made (%lld bytes then, %lld now): leave the "
        "data as they are while they are in use, and begin again",
        path, (long long)file->bytes, (long long)now.st_size);
}

// An index that is kept may be older than this run, and is not right any more: without it the next run finds what is there now.
static void forget_index(const records_source *s) {
    if (s->index) unlink(s->index);
}

static ls_status open_file(const records_source *s, const char *path, const ls_record_file *file, int *out) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe in its place would be waited for
    if (fd < 0 && errno == ENOENT) {
        forget_index(s);
        return LS_FAIL(LS_STATUS_NOT_FOUND,
                       "cannot open %s: it was there when this run began, or when its index was made", path);
    }
    if (fd < 0)
        return LS_FAIL(LS_STATUS_IO, "cannot open %s: %s; it was there when this run began", path, strerror(errno));
    ls_status status = check_unchanged(path, file, fd);
    if (status != LS_OK) {
        forget_index(s);
        close(fd);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = fd;
    return LS_OK;
}

// Of two threads that open it at once one closes its own.
static ls_status borrow_file(const records_source *s, uint32_t number, const char *path, int *out) {
    const ls_record_file *file = &s->records.file[number];
    int expected = -1;
    if (!s->kept) return open_file(s, path, file, out);
    *out = atomic_load(&s->kept[number]);
    if (*out >= 0) {
        ls_status status = check_unchanged(path, file, *out);
        if (status != LS_OK) forget_index(s);
        return status;
    }
    LS_TRY(open_file(s, path, file, out));
    if (atomic_compare_exchange_strong(&s->kept[number], &expected, *out)) return LS_OK;
    close(*out);
    *out = expected;
    return LS_OK;
}

static ls_status read_bytes(int fd, const char *path, const ls_record *r, unsigned char *out) {
    for (int64_t done = 0; done < r->bytes;) {
        ssize_t n = pread(fd, out + done, (size_t)(r->bytes - done), r->at + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s; check the disk or copy the file again", path,
                           strerror(errno));
        if (n == 0)
            return LS_FAIL(LS_STATUS_IO, "%s ends at byte %lld, and was longer when this run began", path,
                           (long long)(r->at + done));
        done += n;
    }
    return LS_OK;
}

static uint32_t little32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static ls_status check_sum(const char *path, const ls_record *r, const unsigned char *bytes) {
    if (ls_crc32c_masked(bytes, r->bytes - 4) == little32(bytes + r->bytes - 4)) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s is damaged: the record at byte %lld has another checksum than it says; copy or make it again",
                   path, (long long)r->at);
}

// Behind each magic number in a record that was written in parts stand four bytes, the next part's length.
static int64_t join_parts(unsigned char *bytes, int64_t size) {
    int64_t to = 0;
    for (int64_t from = 0; from < size; from += 4) {
        int64_t n = size - from < 4 ? size - from : 4;
        int is_magic = n == 4 && little32(bytes + from) == LS_RECORDIO_MAGIC;
        memmove(bytes + to, bytes + from, (size_t)n);
        to += n;
        if (is_magic) from += 4;
    }
    return to;
}

typedef struct datum_place {
    const char *path;
    int64_t at;
} datum_place;

static ls_status datum_damaged(void *self, int64_t at, const char *why) {
    const datum_place *place = self;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: the sample at byte %lld is not what it was: %s", place->path,
                   (long long)place->at, why);
}

// Encoded, as Caffe's tools write it on demand, or pixels.
static ls_status take_datum(const records_source *s, const char *path, const ls_record *r, unsigned char *bytes,
                            ls_picture *out) {
    datum_place place = {path, r->at};
    const ls_pb_from from = {.bytes = bytes, .damaged = datum_damaged, .self = &place};
    ls_datum d;
    LS_TRY(ls_datum_parse((ls_pb){&from, 0, r->bytes}, &d));
    if (d.data_at != r->skip || d.data_size != r->size) return datum_damaged(&place, 0, "its image lies elsewhere");
    if (!d.encoded)
        out->raw = (ls_image_raw){d.height, d.width, (int)d.channels, 1, s->records.kind == LS_RECORDS_DATUM_BGR};
    return LS_OK;
}

// What the kind wants, and where the image lies.
static ls_status finish(const records_source *s, const char *path, const ls_record *r, unsigned char *bytes,
                        ls_picture *out) {
    int64_t size = r->bytes;
    if (s->records.kind == LS_RECORDS_TFRECORD) LS_TRY(check_sum(path, r, bytes));
    // Only one that was written in parts is longer than what is in it.
    if (s->records.kind == LS_RECORDS_RECORDIO && size > (int64_t)r->skip + r->size) size = join_parts(bytes, size);
    if ((int64_t)r->skip + r->size > size)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is damaged: the record at byte %lld ends in its image; copy or make it again", path,
                       (long long)r->at);
    *out = (ls_picture){.name = path, .bytes = bytes + r->skip, .size = r->size};
    if (s->records.kind == LS_RECORDS_DATUM_RGB || s->records.kind == LS_RECORDS_DATUM_BGR)
        return take_datum(s, path, r, bytes, out);
    return LS_OK;
}

// Its bytes, behind where its head is.
static ls_status read_bytes_of(const records_source *s, int64_t i, void *scratch, ls_picture *out) {
    const ls_record *r = &s->record[i];
    const char *path = s->records.text + s->records.file[r->file].name;
    unsigned char *bytes = (unsigned char *)scratch + HEAD_BYTES;
    if (!ls_cache_get(&s->cache, i, r->bytes, bytes)) {
        int fd = -1;
        LS_TRY(borrow_file(s, r->file, path, &fd));
        ls_status status = read_bytes(fd, path, r, bytes);
        if (!s->kept) close(fd);
        LS_TRY(status);
        ls_cache_put(&s->cache, i, r->bytes, bytes);
    }
    return finish(s, path, r, bytes, out);
}

// Of an image that is kept, and wanted otherwise than it is kept.
static ls_status fetch(const ls_image_kept *kept, ls_image_file *out) {
    const records_source *s = kept->owner;
    ls_image_kept mine = *kept;
    ls_status status = read_bytes_of(s, kept->number, kept->scratch, out);
    out->kept = mine;
    return status;
}

// Record i, with its head in front of its bytes, which are left out where its image is kept.
static ls_status read_record(const records_source *s, int64_t i, void *scratch) {
    const ls_record *r = &s->record[i];
    head *h = scratch;
    ls_pixels_entry there;
    h->class = r->class;
    if (ls_pixels_get(&s->pixels, i, -1, &there))
        h->picture = (ls_picture){.name = s->records.text + s->records.file[r->file].name, .size = r->size};
    else
        LS_TRY(read_bytes_of(s, i, scratch, &h->picture));
    if (s->pixels.count)
        h->picture.kept = (ls_image_kept){&s->pixels, i, (int)s->base.field[0].shape.dim[2], fetch, s, scratch};
    return LS_OK;
}

static int64_t record_bytes(const ls_records *records) { return HEAD_BYTES + ls_round_up(records->largest, LS_ALIGN); }

static ls_status records_read(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    const records_source *s = (const records_source *)source;
    head *h = scratch;
    out->field[0] = &h->picture;
    if (s->records.pairs) {
        head *second = (head *)(void *)((char *)scratch + record_bytes(&s->records));
        LS_TRY(read_record(s, 2 * i, h));
        out->field[1] = &second->picture;
        return read_record(s, 2 * i + 1, second);
    }
    LS_TRY(read_record(s, i, h));
    out->field[1] = s->records.label_width
                        ? (const void *)(s->records.label +
                                         h->class * ls_records_row_bytes(s->records.label_width, s->records.targets))
                        : &h->class;
    return LS_OK;
}

static void records_destroy(ls_source *source) {
    records_source *s = (records_source *)source;
    for (int64_t f = 0; s->kept && f < s->records.file_count; f++)
        if (s->kept[f] >= 0) close(s->kept[f]);
    free(s->kept);
    free(s->index);
}

// A file with many samples is asked for once it is open.
static void ask_for(const records_source *s, int64_t i) {
    const ls_record *r = &s->record[i];
    ls_pixels_entry there;
    if (ls_cache_has(&s->cache, i) || ls_pixels_get(&s->pixels, i, -1, &there)) return;
    int fd = s->kept ? atomic_load(&s->kept[r->file])
                     : open(s->records.text + s->records.file[r->file].name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return;
    posix_fadvise(fd, r->at, r->bytes, POSIX_FADV_WILLNEED);
    if (!s->kept) close(fd);
}

// How many records samples have together.
static int64_t all_records(const ls_source *source) {
    return source->count * (((const records_source *)source)->records.pairs ? 2 : 1);
}

static void records_ahead(const ls_source *source, int64_t i) {
    const records_source *s = (const records_source *)source;
    int each = s->records.pairs ? 2 : 1;
    for (int k = 0; k < each; k++) ask_for(s, each * i + k);
}

static int64_t records_class(const ls_source *source, int64_t i) {
    const records_source *s = (const records_source *)source;
    return s->records.label_width || s->records.pairs ? -1 : s->record[i].class;
}

static int64_t records_stored(const ls_source *source) {
    const records_source *s = (const records_source *)source;
    int64_t bytes = 0, count = all_records(source);
    for (int64_t i = 0; i < count; i++) bytes += s->record[i].bytes;
    return bytes;
}

static void records_forget(const ls_source *source) { forget_index((const records_source *)source); }

static int64_t records_cache_size(const ls_source *source, int64_t limit) {
    const records_source *s = (const records_source *)source;
    int64_t kept;
    return ls_cache_size(s->record, all_records(source), limit, &kept);
}

static void records_cache_attach(ls_source *source, int64_t limit, void *memory, int fill) {
    records_source *s = (records_source *)source;
    int64_t kept;
    ls_cache_size(s->record, all_records(source), limit, &kept);
    ls_cache_place(s->record, kept, memory, fill, &s->cache);
}

static void records_keep_pixels(ls_source *source, void *memory, int64_t size, int64_t all, int64_t first) {
    ls_pixels_place(memory, size, all, first, all_records(source), &((records_source *)source)->pixels);
}

static const ls_source_ops records_ops = {.read = records_read,
                                          .destroy = records_destroy,
                                          .pictures = 1,
                                          .class = records_class,
                                          .stored = records_stored,
                                          .ahead = records_ahead,
                                          .forget = records_forget,
                                          .cache_size = records_cache_size,
                                          .cache_attach = records_cache_attach,
                                          .images = all_records,
                                          .keep_pixels = records_keep_pixels};

ls_status ls_source_create_records(const char *name, const ls_records *records, int set, int channels,
                                   ls_source **out) {
    ls_field fields[] = {{"image", LS_SHAPE(0, 0, channels), LS_DTYPE_U8, 0},
                         {"label", {0}, LS_DTYPE_I32, (int)records->class_count}};
    if (records->label_width) fields[1] = (ls_field){"label", LS_SHAPE(records->label_width), LS_DTYPE_U8, 0};
    if (records->targets) fields[1] = (ls_field){"target", LS_SHAPE(records->label_width), LS_DTYPE_F32, 0};
    if (records->pairs) fields[1] = (ls_field){"target", LS_SHAPE(0, 0, channels), LS_DTYPE_U8, 0};
    int64_t samples = records->count[set] / (records->pairs ? 2 : 1);
    records_source *s;
    *out = NULL;
    LS_TRY(ls_source_create(&records_ops, sizeof *s, name, fields, 2, samples, &s));
    s->records = *records;
    s->record = records->record[set];
    s->base.scratch_bytes = records->pairs ? 2 * record_bytes(records) : HEAD_BYTES + records->largest;
    s->base.picture_bytes = records->picture_bytes;
    *out = &s->base;
    s->records.index = NULL;
    if (records->index) {
        ls_status status = ls_strdup(records->index, &s->index);
        if (status != LS_OK) {
            ls_source_destroy(out);
            return ls__fail_passed(status, __FILE__, __LINE__);
        }
    }
    int64_t count = records->count[LS_RECORDS_TRAIN] + records->count[LS_RECORDS_TEST];
    if (records->file_count > MOST_KEPT || records->file_count >= count) return LS_OK;
    ls_status status = ls_calloc(records->file_count, sizeof *s->kept, &s->kept);
    if (status != LS_OK) {
        ls_source_destroy(out);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    for (int64_t f = 0; f < records->file_count; f++) atomic_init(&s->kept[f], -1);
    return LS_OK;
}
