#include "data/formats/npz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static ls_status damaged(const char *name, const char *why) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: %s; copy or make it again", name, why);
}

static int64_t little(const uint8_t *p, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--) value = value << 8 | p[i];
    return value > INT64_MAX ? -1 : (int64_t)value;
}

// --- an array --------------------------------------------------------------------------------------------------------

// What stands behind 'key': in the header's text; NULL: it is not there.
static const char *value_of(const char *text, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(text, quoted);
    if (!at) return NULL;
    at += strlen(quoted);
    return at + strspn(at, " ");
}

static ls_status parse_type(const char *name, const char *text, ls__npy *out) {
    const char *at = value_of(text, "descr");
    if (!at || *at != '\'') return damaged(name, "its header tells no type of values, or one of several fields");
    char order = at[1];
    out->type = at[2];
    out->width = at[3] >= '1' && at[3] <= '8' && at[4] == '\'' ? at[3] - '0' : 0;
    out->big = order == '>';
    int known = strchr("<>|=", order) && order && strchr("uifb", out->type) && out->type;
    int fits = out->width == 1 || out->width == 2 || out->width == 4 || out->width == 8;
    if (known && fits && !(out->type == 'f' && out->width < 2) && !(out->type == 'b' && out->width != 1)) return LS_OK;
    return LS_FAIL(LS_STATUS_UNSUPPORTED,
                   "%s has values of type %.*s: whole and floating numbers of up to 8 bytes are read", name,
                   1 + (int)strcspn(at + 1, "'") + 1, at);
}

static ls_status parse_shape(const char *name, const char *text, ls__npy *out) {
    const char *at = value_of(text, "shape");
    if (!at || *at != '(') return damaged(name, "its header tells no shape");
    at++;
    out->count = 1;
    while (*(at += strspn(at, " ,")) != ')') {
        char *end;
        if (*at < '0' || *at > '9' || out->ndim == LS_MAX_DIMS)
            return damaged(name, "its header tells no shape of up to 5 dimensions");
        int64_t d = strtoll(at, &end, 10);
        if (d < 1 || __builtin_mul_overflow(out->count, d, &out->count))
            return damaged(name, "it is said to have no values, or too many");
        out->dim[out->ndim++] = d;
        at = end;
    }
    return __builtin_mul_overflow(out->count, out->width, &out->bytes)
               ? damaged(name, "it is said to have too many values")
               : LS_OK;
}

ls_status ls__npy_parse(const char *name, const uint8_t *head, int64_t size, int64_t total, ls__npy *out) {
    char text[LS__NPY_HEAD + 1];
    *out = (ls__npy){.ndim = 0};
    if (size < 12 || memcmp(head, "\x93NUMPY", 6) != 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is no array of NumPy's, by its first bytes", name);
    int wide = head[6] >= 2, start = wide ? 12 : 10;
    int64_t length = little(head + 8, wide ? 4 : 2);
    if (head[6] < 1 || head[6] > 3) return damaged(name, "it is of an unknown version");
    if (length > size - start || length > LS__NPY_HEAD)
        return damaged(name, "its header is longer than it, or than 4 kB");
    memcpy(text, head + start, (size_t)length);
    text[length] = 0;
    LS_TRY(parse_type(name, text, out));
    LS_TRY(parse_shape(name, text, out));
    const char *order = value_of(text, "fortran_order");
    if (!order || (strncmp(order, "False", 5) != 0 && strncmp(order, "True", 4) != 0))
        return damaged(name, "its header tells no order");
    if (*order == 'T' && out->ndim > 1)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s has its columns first: save numpy.ascontiguousarray of it", name);
    out->header_bytes = start + length;
    if (out->bytes == total - out->header_bytes) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s is damaged: it is said to have %lld bytes of values, and has %lld; copy or make it again", name,
                   (long long)out->bytes, (long long)(total - out->header_bytes));
}

// --- an archive ------------------------------------------------------------------------------------------------------

enum { END = 22, END_64 = 56, LOCATOR_64 = 20, ENTRY = 46 };

// Where the directory begins in `end`, and how many entries it has.
static ls_status find_directory(const char *name, const uint8_t *end, int64_t size, int64_t total, int64_t *at,
                                int64_t *entries) {
    int64_t last = size - END;
    while (last >= 0 && memcmp(end + last, "PK\5\6", 4) != 0) last--;
    if (last < 0)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s is no zip archive, or is cut off: it does not end as one", name);
    *entries = little(end + last + 10, 2);
    int64_t offset = little(end + last + 16, 4);
    if (offset == 0xffffffff || *entries == 0xffff) {
        int64_t locator = last - LOCATOR_64;
        if (locator < 0 || memcmp(end + locator, "PK\6\7", 4) != 0)
            return damaged(name, "its end has no place for large sizes");
        int64_t record = little(end + locator + 8, 8) - (total - size);
        if (record < 0 || record > size - END_64 || memcmp(end + record, "PK\6\6", 4) != 0)
            return damaged(name, "its end for large sizes is not there");
        *entries = little(end + record + 32, 8);
        offset = little(end + record + 48, 8);
    }
    *at = offset - (total - size);
    if (offset < 0 || *at < 0 || *at > last)
        return damaged(name, "its directory is not where it is said to be, or longer than 64 kB");
    return LS_OK;
}

// Sizes that do not fit stand in an extra field, in this order, each only where it is wanted.
static void take_large(const uint8_t *extra, int64_t size, ls__zip_member *m) {
    for (int64_t at = 0; at + 4 <= size;) {
        int64_t id = little(extra + at, 2), length = little(extra + at + 2, 2), from = at + 4;
        if (length > size - from) return;
        at = from + length;
        if (id != 1) continue;
        int64_t *fields[] = {&m->bytes, &m->packed, &m->at};
        for (int i = 0; i < 3; i++) {
            if (*fields[i] != 0xffffffff || from + 8 > at) continue;
            *fields[i] = little(extra + from, 8);
            from += 8;
        }
    }
}

ls_status ls__zip_directory(const char *name, const uint8_t *end, int64_t size, int64_t total, ls__zip_member *out,
                            int room, int *count) {
    int64_t at, entries;
    *count = 0;
    LS_TRY(find_directory(name, end, size, total, &at, &entries));
    for (int64_t i = 0; i < entries && *count < room; i++) {
        if (at + ENTRY > size || memcmp(end + at, "PK\1\2", 4) != 0)
            return damaged(name, "its directory has another form");
        const uint8_t *e = end + at;
        int64_t name_size = little(e + 28, 2), extra = little(e + 30, 2), comment = little(e + 32, 2),
                method = little(e + 10, 2);
        if (at + ENTRY + name_size + extra + comment > size) return damaged(name, "its directory ends too early");
        ls__zip_member m = {.at = little(e + 42, 4),
                            .packed = little(e + 20, 4),
                            .bytes = little(e + 24, 4),
                            .deflated = method == 8,
                            .crc = (uint32_t)little(e + 16, 4)};
        take_large(e + ENTRY + name_size, extra, &m);
        at += ENTRY + name_size + extra + comment;
        if (name_size >= (int64_t)sizeof m.name) continue;  // none of ours
        memcpy(m.name, e + ENTRY, (size_t)name_size);
        if (e[8] & 1) return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s is encrypted: unpack it, and save it again", name);
        if (method != 0 && method != 8)
            return LS_FAIL(LS_STATUS_UNSUPPORTED,
                           "%s is packed in a way that NumPy does not use (method %d): save it again", name,
                           (int)method);
        if (m.at < 0 || m.packed < 0 || m.bytes < 0 || m.at > total - 30 || m.packed > total - m.at - 30 ||
            (!m.deflated && m.packed != m.bytes) || m.bytes / 1032 > m.packed)
            return damaged(name, "its directory tells of sizes that cannot be");
        out[(*count)++] = m;
    }
    return LS_OK;
}
