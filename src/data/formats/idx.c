#include "data/formats/idx.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/error.h"

// Deflate codes at most 258 bytes in 2 bits, so a byte of it never stands for more than this many.
#define RATIO_MAX   1032
#define PAYLOAD_MAX ((int64_t)1 << 48)  // beyond any memory; sums of a few stay far from overflow
#define FETCH_AGAIN "fetch or copy the file again"

#define MAGIC_IMAGES 0x00000803u
#define MAGIC_LABELS 0x00000801u

static uint32_t load_be32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

// ---- gzip -----------------------------------------------------------------------------------------------------------

// A gzip stream in memory. A file may be several gzip members one after the other, as gunzip takes it.
typedef struct gz_stream {
    z_stream z;
    const uint8_t *next;
    int64_t left;  // stored bytes not yet given to zlib, which counts in unsigned int
    int ended;     // the last member is complete and its checksum right; what is left is no gzip
} gz_stream;

static ls_status gz_open(gz_stream *s, const uint8_t *stored, int64_t bytes) {
    memset(s, 0, sizeof *s);
    s->next = stored;
    s->left = bytes;
    if (inflateInit2(&s->z, 15 + 16) != Z_OK)
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory: zlib cannot start");
    return LS_OK;
}

static void gz_feed(gz_stream *s) {
    if (s->z.avail_in || !s->left) return;
    s->z.next_in = (Bytef *)s->next;
    s->z.avail_in = s->left < (1 << 30) ? (uInt)s->left : 1u << 30;
    s->next += s->z.avail_in;
    s->left -= s->z.avail_in;
}

static int64_t gz_rest(const gz_stream *s) { return s->left + s->z.avail_in; }

// After a complete member: goes on with the next one if there is one.
static void gz_next_member(gz_stream *s) {
    gz_feed(s);
    const uint8_t *p = s->z.next_in;
    if (gz_rest(s) >= 2 && p[0] == 0x1f && (s->z.avail_in > 1 ? p[1] : s->next[0]) == 0x8b)
        inflateReset(&s->z);
    else
        s->ended = 1;
}

// Unpacks up to `want` bytes; fewer only at the end of the stream or of the stored bytes. Returns zlib's word for what
// is wrong with the data, or NULL.
static const char *gz_pull(gz_stream *s, uint8_t *out, int64_t want, int64_t *got) {
    *got = 0;
    while (*got < want && !s->ended) {
        gz_feed(s);
        uInt room = want - *got < (1 << 30) ? (uInt)(want - *got) : 1u << 30;
        s->z.next_out = out + *got;
        s->z.avail_out = room;
        int code = inflate(&s->z, Z_NO_FLUSH);
        *got += room - s->z.avail_out;
        if (code == Z_STREAM_END)
            gz_next_member(s);
        else if (code == Z_BUF_ERROR && !gz_rest(s))
            break;
        else if (code != Z_OK)
            return s->z.msg ? s->z.msg : code == Z_MEM_ERROR ? "zlib is out of memory" : "bad stream";
    }
    return NULL;
}

// ---- header ---------------------------------------------------------------------------------------------------------

// Up to LS__IDX_HEADER_MAX bytes from the file's beginning, unpacked.
static ls_status peek(ls__idx_file *file, const uint8_t *head, int64_t head_bytes, int64_t *got) {
    if (!file->gzip) {
        *got = head_bytes < LS__IDX_HEADER_MAX ? head_bytes : LS__IDX_HEADER_MAX;
        memcpy(file->header, head, (size_t)*got);
        return LS_OK;
    }
    gz_stream s;
    LS_TRY(gz_open(&s, head, head_bytes));
    const char *wrong = gz_pull(&s, file->header, LS__IDX_HEADER_MAX, got);
    inflateEnd(&s.z);
    if (wrong && *got < LS__IDX_HEADER_MAX)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is a corrupt gzip file (%s); " FETCH_AGAIN, file->path, wrong);
    return LS_OK;
}

// What a magic number that is not the wanted one says about the file.
static void describe_magic(uint32_t magic, char *text, size_t size) {
    if (magic == MAGIC_IMAGES)
        snprintf(text, size, "this is an images file, perhaps under a wrong name");
    else if (magic == MAGIC_LABELS)
        snprintf(text, size, "this is a labels file, perhaps under a wrong name");
    else if (magic == 0x03080000u || magic == 0x01080000u)
        snprintf(text, size, "its bytes are swapped: IDX files are big-endian");
    else if (magic >> 8 == 8 && (magic & 0xFF) > 0)
        snprintf(text, size, "this is an IDX file of bytes in %u dimensions", magic & 0xFF);
    else if (magic >> 16 == 0 && (magic & 0xFF) > 0 && (magic >> 8 >= 9 && magic >> 8 <= 14))
        snprintf(text, size, "this is an IDX file, but not of bytes (element type 0x%02X)", magic >> 8 & 0xFF);
    else if (magic >> 24 == '<')
        snprintf(text, size, "this looks like a web page, as a failed download leaves it");
    else
        snprintf(text, size, "this is no IDX file");
}

static const char *kind_name(ls__idx_kind kind) { return kind == LS__IDX_IMAGES ? "images" : "labels"; }

static ls_status check_magic(const ls__idx_file *file, int64_t got) {
    uint32_t want = file->kind == LS__IDX_IMAGES ? MAGIC_IMAGES : MAGIC_LABELS;
    uint32_t magic = got >= 4 ? load_be32(file->header) : 0;
    if (got >= 4 && magic != want) {
        char meaning[96];
        describe_magic(magic, meaning, sizeof meaning);
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s begins with 0x%08X where an %s file in IDX format has 0x%08X: %s; put the right file there",
                       file->path, magic, kind_name(file->kind), want, meaning);
    }
    if (got < file->header_bytes)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is cut short: %lld bytes%s, but the IDX header alone has %lld; " FETCH_AGAIN, file->path,
                       (long long)got, file->gzip ? " can be unpacked from it" : "", (long long)file->header_bytes);
    return LS_OK;
}

// The announced extents, and whether a file of this size can hold so much.
static ls_status check_extents(ls__idx_file *file) {
    long long n = file->count, h = file->height, w = file->width;
    if (n == 0 || h == 0 || w == 0)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s holds nothing to train or test on: its header announces %lld %s of %lldx%lld; put a file "
                       "with at least one sample there",
                       file->path, n, kind_name(file->kind), h, w);
    int64_t payload;
    if (__builtin_mul_overflow(file->height * file->width, file->count, &payload) || payload > PAYLOAD_MAX)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s announces %lld %s of %lldx%lld bytes, more than fits in any memory, but has %lld bytes: "
                       "its header is corrupt; " FETCH_AGAIN,
                       file->path, n, kind_name(file->kind), h, w, (long long)file->stored_bytes);
    file->payload_bytes = payload;
    int64_t total = file->header_bytes + payload, stored = file->stored_bytes;
    if (file->gzip) {
        if ((total + RATIO_MAX - 1) / RATIO_MAX > stored)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "%s announces %lld %s, %lld bytes, more than gzip can pack into its %lld bytes: its header "
                           "is corrupt or the file is cut short; " FETCH_AGAIN,
                           file->path, n, kind_name(file->kind), (long long)total, (long long)stored);
        return LS_OK;
    }
    if (stored < total)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is cut short: its header announces %lld %s, which makes %lld bytes, but the file has "
                       "%lld; " FETCH_AGAIN,
                       file->path, n, kind_name(file->kind), (long long)total, (long long)stored);
    if (stored > total)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is too long: its header announces %lld %s, which makes %lld bytes, but the file has %lld "
                       "more; " FETCH_AGAIN,
                       file->path, n, kind_name(file->kind), (long long)total, (long long)(stored - total));
    return LS_OK;
}

ls_status ls__idx_parse(ls__idx_file *file, const uint8_t *head, int64_t head_bytes) {
    if (file->stored_bytes <= 0 || head_bytes <= 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is empty; " FETCH_AGAIN, file->path);
    file->gzip = head_bytes >= 2 && head[0] == 0x1f && head[1] == 0x8b;
    file->header_bytes = file->kind == LS__IDX_IMAGES ? 16 : 8;
    int64_t got = 0;
    LS_TRY(peek(file, head, head_bytes, &got));
    LS_TRY(check_magic(file, got));
    file->count = load_be32(file->header + 4);
    file->height = file->width = 1;
    if (file->kind == LS__IDX_IMAGES) {
        // Two 31-bit factors: their product fits, and nothing real comes near.
        file->height = load_be32(file->header + 8);
        file->width = load_be32(file->header + 12);
        if (file->height > INT32_MAX || file->width > INT32_MAX)
            return LS_FAIL(LS_STATUS_BAD_DATA,
                           "%s announces images of %lldx%lld pixels: its header is corrupt; " FETCH_AGAIN, file->path,
                           (long long)file->height, (long long)file->width);
    }
    return check_extents(file);
}

// ---- payload --------------------------------------------------------------------------------------------------------

static ls_status unpack(const ls__idx_file *file, gz_stream *s, uint8_t *payload) {
    uint8_t header[LS__IDX_HEADER_MAX], extra;
    int64_t got_header, got = 0, more = 0;
    const char *wrong = gz_pull(s, header, file->header_bytes, &got_header);
    if (!wrong) wrong = gz_pull(s, payload, file->payload_bytes, &got);
    // Asking for a byte more makes zlib read on to the checksum.
    if (!wrong) wrong = gz_pull(s, &extra, 1, &more);
    long long total = file->header_bytes + file->payload_bytes, found = got_header + got;
    if (wrong)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is a corrupt gzip file (%s after %lld of %lld bytes); " FETCH_AGAIN,
                       file->path, wrong, found, total);
    if (more)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is too long: its header announces %lld %s, which makes %lld bytes, but it unpacks to "
                       "more; " FETCH_AGAIN,
                       file->path, (long long)file->count, kind_name(file->kind), total);
    if (!s->ended)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is cut short: its %lld bytes of gzip end before the stream does, after %lld of %lld "
                       "bytes; " FETCH_AGAIN,
                       file->path, (long long)file->stored_bytes, found, total);
    if (found < total)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is cut short: its header announces %lld %s, which makes %lld bytes, but it unpacks to "
                       "%lld; " FETCH_AGAIN,
                       file->path, (long long)file->count, kind_name(file->kind), total, found);
    if (gz_rest(s))
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s has %lld bytes after the end of its gzip stream; " FETCH_AGAIN,
                       file->path, (long long)gz_rest(s));
    if (memcmp(header, file->header, (size_t)file->header_bytes) != 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s changed while it was being read; start again once it is complete",
                       file->path);
    return LS_OK;
}

ls_status ls__idx_unpack(const ls__idx_file *file, const uint8_t *stored, uint8_t *payload) {
    gz_stream s;
    LS_TRY(gz_open(&s, stored, file->stored_bytes));
    ls_status status = unpack(file, &s, payload);
    inflateEnd(&s.z);
    return status;
}

ls_status ls__idx_check_labels(const ls__idx_file *file, const uint8_t *labels, int classes) {
    for (int64_t i = 0; i < file->count; i++)
        if (labels[i] >= classes)
            return LS_FAIL(LS_STATUS_BAD_DATA, "%s: label %lld is %d, but labels go from 0 to %d; " FETCH_AGAIN,
                           file->path, (long long)i, labels[i], classes - 1);
    return LS_OK;
}
