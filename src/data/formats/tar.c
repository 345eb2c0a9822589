// "tar:PATTERN": tar archives as WebDataset has them. Files that follow one another and have the same name up to its first dot are a sample:
// 000017.jpg and 000017.cls, the class as a number in text. Sources: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block"; GNU tar's
// manual, "Basic Tar Format" (long names, large numbers); webdataset's documentation, "The WebDataset Format".
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "data/containers.h"

enum { BLOCK = 512, NAME_MOST = 4096, MOST_END = 16 << 20 };

// A file in the archive.
typedef struct member {
    char name[NAME_MOST];
    int64_t at, bytes;
    int elsewhere;  // 1: a link, or sparse: its bytes are not here
} member;

// What was found of the sample that is being read.
typedef struct sample {
    char base[NAME_MOST];
    int64_t at, image_at, image_bytes, label;
    int has_image, has_label;
} sample;

// --- headers ---------------------------------------------------------------------------------------------------------

// Octal digits, or with the first bit set a large number in base 256; -1: neither.
static int64_t read_number(const unsigned char *p, int size) {
    int64_t value = 0;
    int i = 0;
    if (p[0] & 0x80) {
        for (i = 1; i < size; i++) {
            if (value >> 54) return -1;
            value = value << 8 | p[i];
        }
        return p[0] == 0x80 ? value : -1;
    }
    while (i < size && p[i] == ' ') i++;
    for (; i < size && p[i] >= '0' && p[i] <= '7'; i++) value = value << 3 | (p[i] - '0');
    return i < size && p[i] && p[i] != ' ' ? -1 : value;
}

static int has_sum(const unsigned char *h) {
    int64_t sum = 0;
    for (int i = 0; i < BLOCK; i++) sum += i >= 148 && i < 156 ? ' ' : h[i];
    return read_number(h + 148, 8) == sum;
}

static int is_empty(const unsigned char *h) {
    for (int i = 0; i < BLOCK; i++)
        if (h[i]) return 0;
    return 1;
}

static void take_name(const unsigned char *h, char name[NAME_MOST]) {
    int has_prefix = memcmp(h + 257, "ustar\0", 6) == 0 && h[345];
    size_t used = 0;
    if (has_prefix) {
        used = strnlen((const char *)h + 345, 155);
        memcpy(name, h + 345, used);
        name[used++] = '/';
    }
    size_t length = strnlen((const char *)h, 100);
    memcpy(name + used, h, length);
    name[used + length] = 0;
}

// A name that did not fit into the header, or records "LENGTH KEY=VALUE\n", of which path and size are taken.
static ls_status take_more(ls_listing *l, const member *m, int type, char name[NAME_MOST], int64_t *size) {
    char text[2 * NAME_MOST + 1];
    if (m->bytes >= (int64_t)sizeof text) return ls_listing_damaged(l, m->at, "a name or a header of more than 8 kB");
    LS_TRY(ls_listing_read(l, m->at, m->bytes, text));
    text[m->bytes] = 0;
    if (type == 'L') {
        if (strnlen(text, sizeof text) >= NAME_MOST) return ls_listing_damaged(l, m->at, "a name of more than 4 kB");
        memcpy(name, text, strlen(text) + 1);
        return LS_OK;
    }
    for (char *at = text, *end = text + m->bytes; at < end;) {
        char *key;
        long length = strtol(at, &key, 10);
        if (length < 1 || length > end - at || *key != ' ' || at[length - 1] != '\n' || key >= at + length)
            return ls_listing_damaged(l, m->at + (at - text), "an extended header that cannot be read");
        at[length - 1] = 0;
        key++;
        if (strncmp(key, "path=", 5) == 0 && strlen(key + 5) < NAME_MOST) memcpy(name, key + 5, strlen(key + 5) + 1);
        if (strncmp(key, "size=", 5) == 0) *size = strtoll(key + 5, NULL, 10);
        at += length;
    }
    return LS_OK;
}

// Behind the first empty block there is nothing but more of them, to fill a tape's record up. What else is there some
// programs would read on, as archives behind one another, and others not.
static ls_status check_end(ls_listing *l, int64_t at) {
    unsigned char h[BLOCK];
    if (l->bytes - at > MOST_END) return ls_listing_damaged(l, at, "it goes on behind its end");
    if (l->bytes % BLOCK) return ls_listing_damaged(l, l->bytes, "it ends within a block");
    for (; at < l->bytes; at += BLOCK) {
        LS_TRY(ls_listing_read(l, at, BLOCK, h));
        if (!is_empty(h)) return ls_listing_damaged(l, at, "it goes on behind its end, as two archives in one");
    }
    return LS_OK;
}

// The next file at or behind *at, which moves behind it. *found 0: there is none.
static ls_status next_member(ls_listing *l, int64_t *at, member *out, int *found) {
    char name[NAME_MOST] = "";
    int64_t size = -1;
    *found = 0;
    while (*at + BLOCK <= l->bytes) {
        unsigned char h[BLOCK];
        LS_TRY(ls_listing_read(l, *at, BLOCK, h));
        if (is_empty(h)) return check_end(l, *at);
        if (*at == 0 && h[0] == 0x1f && h[1] == 0x8b)
            return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s is compressed, so that no file can be read alone: gunzip it",
                           l->path);
        if (!has_sum(h))
            return ls_listing_damaged(l, *at,
                                      *at ? "a header has another checksum than it says" : "it is no tar archive");
        int type = h[156];
        member m = {.at = *at + BLOCK, .bytes = read_number(h + 124, 12)};
        int is_more = type == 'L' || type == 'x';
        if (size >= 0 && !is_more) m.bytes = size;
        m.elsewhere = type == '1' || type == '2' || type == 'S';
        if (type == '1' || type == '2') m.bytes = 0;  // of the file that it leads to
        if (m.bytes < 0 || m.bytes > l->bytes - m.at || (m.bytes + BLOCK - 1) / BLOCK * BLOCK > l->bytes - m.at)
            return ls_listing_damaged(l, *at, "a file longer than the archive");
        *at = m.at + (m.bytes + BLOCK - 1) / BLOCK * BLOCK;
        if (is_more) {
            LS_TRY(take_more(l, &m, type, name, &size));
            continue;
        }
        if (!name[0]) take_name(h, name);
        if (type == '0' || type == 0 || type == '7' || m.elsewhere) {
            *out = m;
            memcpy(out->name, name, sizeof name);
            *found = 1;
            return LS_OK;
        }
        name[0] = 0;
        size = -1;
    }
    return ls_listing_damaged(
        l, *at, *at ? "it ends without the empty blocks that are an archive's end" : "it is no tar archive");
}

// --- samples ---------------------------------------------------------------------------------------------------------

static ls_status end_sample(ls_listing *l, const sample *s) {
    const char *label = l->settings->label ? l->settings->label : "cls";
    if (!s->base[0] || (!s->has_image && !s->has_label) || ls_records_excluded_name(l->builder, s->base)) return LS_OK;
    if (!s->has_image || !s->has_label)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: the sample %s at byte %lld has no %s%s: a sample is NAME.jpg or NAME.png and NAME.%s, "
                       "one behind the other (image=ENDING and label=ENDING say otherwise)",
                       l->path, s->base, (long long)s->at, s->has_image ? "class, " : "image",
                       s->has_image ? label : "", label);
    ls_record r = {.at = s->image_at, .bytes = s->image_bytes, .size = (uint32_t)s->image_bytes};
    return ls_listing_add(l, r, s->label);
}

static int is_image(const ls_listing *l, const char *ending) {
    if (l->settings->image) return strcmp(ending, l->settings->image) == 0;
    return strcasecmp(ending, "jpg") == 0 || strcasecmp(ending, "jpeg") == 0 || strcasecmp(ending, "png") == 0;
}

static ls_status read_class(ls_listing *l, const member *m, int64_t *out) {
    char text[32] = "", *end;
    if (m->bytes < (int64_t)sizeof text) LS_TRY(ls_listing_read(l, m->at, m->bytes, text));
    *out = strtoll(text, &end, 10);
    while (*end == '\n' || *end == '\r' || *end == ' ') end++;
    if (end > text && *end == 0 && text[0]) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s at byte %lld is no class number in text", l->path, m->name,
                   (long long)m->at);
}

static ls_status take_member(ls_listing *l, const member *m, sample *s) {
    const char *slash = strrchr(m->name, '/'), *file = slash ? slash + 1 : m->name, *dot = strchr(file, '.');
    size_t length = dot ? (size_t)(dot - m->name) : 0;
    if (!dot || dot == file) return LS_OK;  // no ending, or a hidden file
    if (strncmp(s->base, m->name, length) != 0 || s->base[length]) {
        LS_TRY(end_sample(l, s));
        *s = (sample){.at = m->at};
        memcpy(s->base, m->name, length);
    }
    int image = is_image(l, dot + 1),
        label = !image && strcmp(dot + 1, l->settings->label ? l->settings->label : "cls") == 0;
    if ((image && s->has_image) || (label && s->has_label))
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s: the sample %s has a second %s, %s at byte %lld: leave one out (image=ENDING and label=ENDING "
            "say which is meant)",
            l->path, s->base, image ? "image" : "class", m->name, (long long)m->at);
    if ((image || label) && m->elsewhere)
        return LS_FAIL(LS_STATUS_UNSUPPORTED,
                       "%s: %s at byte %lld is a link, or sparse: make the archive by tar --dereference "
                       "--hard-dereference",
                       l->path, m->name, (long long)m->at);
    if (image) {
        s->has_image = 1;
        s->image_at = m->at;
        s->image_bytes = m->bytes;
    } else if (label) {
        LS_TRY(read_class(l, m, &s->label));
        s->has_label = 1;
    }
    return LS_OK;
}

static ls_status list(ls_listing *l) {
    sample s = {.base = ""};
    member m;
    int64_t at = 0;
    int found;
    for (;;) {
        LS_TRY(next_member(l, &at, &m, &found));
        if (!found) return end_sample(l, &s);
        LS_TRY(take_member(l, &m, &s));
    }
}

static ls_status tar_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    static const ls_container container = {
        .name = "tar",
        .kind = LS_RECORDS_PLAIN,
        .list = list,
        .how = "a sample's name is that of its files, folders and all, without what is behind the first dot"};
    return ls_container_open(&container, host, argument, out);
}

const ls_format ls_format_tar = {
    .name = "tar",
    .help =
        "images in tar archives, as WebDataset has them, NAME.jpg and NAME.cls: "
        "tar:'train-{000..099}.tar',test=val.tar; read "
        "while training",
    .argument = "FILES",
    .names = 1,
    .open = tar_open,
};
