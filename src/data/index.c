#define _GNU_SOURCE
#include "data/index.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/output.h"
#include "data/fingerprint.h"
#include "data/image.h"

#define MAGIC        "lockstep index\n"
#define VERSION      3    // raised with every change of what formats list, and in which order
#define SAMPLED      256  // files with a sample each that are looked at, of all that there are
#define MOST_SIZE    ((int64_t)1 << 36)
#define LEFT_SECONDS 3600  // nobody writes an index for so long

typedef struct header {
    char magic[16];
    uint32_t version, order;  // as this machine stores 1
    int64_t key_size;         // with the 0 at its end
    int64_t count[LS_RECORDS_SETS], file_count, class_count, witness_count, text_size;
    int64_t label_count, label_width, targets, pairs;  // rows of several labels, or of numbers; two records a sample
    int64_t picture_bytes, kind;
    uint64_t largest_record;  // what a record takes: one of another build is not read
} header;

// A member more of a builder belongs into `header`, `parts`, `fill` and `write_all`, with checks: what is forgotten there is lost.
// (Slots, by which rows are found while they are added, are not kept: nothing is added to an index that was read.)
_Static_assert(sizeof(void *) != 8 || sizeof(ls_records_builder) == 232, "an index keeps all that a builder has");
_Static_assert(sizeof(header) % 8 == 0, "what comes behind a header is aligned");

// --- names -----------------------------------------------------------------------------------------------------------

static int add_folder(char *path, size_t size, const char *folder, const char *behind) {
    int n = snprintf(path, size, "%s%s", folder, behind);
    return n > 0 && (size_t)n < size;
}

int ls__index_name(const char *format, const char *argument, char *path, size_t path_size, char *key, size_t key_size) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char from[4096] = "", folder[4096], host[256] = "";
    if (cache && cache[0] == '/') {
        if (!add_folder(folder, sizeof folder, cache, "/lockstep")) return 0;
    } else if (!home || home[0] != '/' || !add_folder(folder, sizeof folder, home, "/.cache/lockstep")) {
        return 0;
    }
    // Options may be paths, too.
    if ((argument[0] != '/' || strchr(argument, '=')) && !getcwd(from, sizeof from)) return 0;
    gethostname(host, sizeof host - 1);  // which may have disks of its own below the same names
    int n = snprintf(key, key_size, "%s:%s from %s on %s", format, argument, from, host);
    if (n < 0 || (size_t)n >= key_size) return 0;
    n = snprintf(path, path_size, "%s/%016llx.index", folder, (unsigned long long)ls__hash(key, n));
    return n > 0 && (size_t)n < path_size;
}

// --- reading ---------------------------------------------------------------------------------------------------------

// What a file is made of, one part after the other.
typedef struct parts {
    const char *key;
    const ls_record *record[LS_RECORDS_SETS];
    const ls_record_file *file;
    const int64_t *class_name;
    const uint8_t *label;
    const ls_record_witness *witness;
    const char *text;
} parts;

// A part of `count` elements at *at; NULL: the file has not so many bytes.
static const void *take(const char *bytes, int64_t size, int64_t *at, int64_t count, int64_t each) {
    if (count < 0 || count > (size - *at) / each) return NULL;
    const char *part = bytes + *at;
    *at = ls_round_up(*at + count * each, 8);
    return *at <= size ? part : NULL;
}

// Of a row, at least 1 byte: where there are none their count is 0.
static int64_t row_bytes(const header *h) {
    int64_t bytes = h->label_width * (h->targets ? (int64_t)sizeof(float) : 1);
    return bytes ? bytes : 1;
}

static int rows_can_be(const header *h) {
    return h->label_width >= 0 && h->label_width <= INT32_MAX && (h->targets == 0 || h->targets == 1) &&
           h->label_count <= INT32_MAX &&
           (h->label_width > 0 ? h->label_count > 0 : h->label_count == 0 && !h->targets);
}

// The checksum is the last 8 bytes.
static const char *find_parts(const char *bytes, int64_t size, header *h, parts *p) {
    int64_t at = sizeof *h, end = size - 8;
    uint64_t sum;
    if (size < (int64_t)sizeof *h + 8 || size % 8) return "it is too short";
    memcpy(h, bytes, sizeof *h);
    if (memcmp(h->magic, MAGIC, sizeof MAGIC) != 0) return "it is no index";
    if (h->version != VERSION || h->order != 1 || h->largest_record != sizeof(ls_record))
        return "it is of another version";
    memcpy(&sum, bytes + end, 8);
    if (sum != ls_crc32c(bytes, end)) return "its checksum does not agree";
    p->key = take(bytes, end, &at, h->key_size, 1);
    p->witness = p->key ? take(bytes, end, &at, h->witness_count, sizeof *p->witness) : NULL;
    p->file = p->witness ? take(bytes, end, &at, h->file_count, sizeof *p->file) : NULL;
    p->class_name = p->file ? take(bytes, end, &at, h->class_count, sizeof *p->class_name) : NULL;
    const void *before = p->class_name;
    for (int s = 0; s < LS_RECORDS_SETS; s++)
        before = p->record[s] = before ? take(bytes, end, &at, h->count[s], sizeof *p->record[s]) : NULL;
    p->label = before && rows_can_be(h) ? take(bytes, end, &at, h->label_count, row_bytes(h)) : NULL;
    p->text = p->label ? take(bytes, end, &at, h->text_size, 1) : NULL;
    if (!p->text || at != end) return "its parts do not fill it";
    return NULL;
}

static int is_text(const header *h, int64_t where) { return where >= 0 && where < h->text_size; }

static const char *check_record(const header *h, const parts *p, const ls_record *r) {
    if (r->file >= h->file_count || r->class < 0 || r->class >= (h->label_width ? h->label_count : h->class_count))
        return "a record has no file or class";
    int64_t bytes = p->file[r->file].bytes;
    if (r->bytes < 0 || r->bytes > LS_IMAGE_MAX_FILE || r->at < 0 || r->bytes > bytes || r->at > bytes - r->bytes)
        return "a record lies outside of its file";
    if (h->kind == LS_RECORDS_TFRECORD && r->bytes < 4) return "a record has no checksum";
    return (int64_t)r->skip + r->size > r->bytes ? "an image lies outside of its record" : NULL;
}

// As many as there are classes; labels are 0 or 1, targets numbers.
static const char *check_rows(const header *h, const parts *p) {
    if (h->label_width && h->label_width != h->class_count) return "rows have another length than there are labels";
    for (int64_t i = 0; i < h->label_count * h->label_width; i++) {
        float value;
        if (h->targets) memcpy(&value, p->label + i * (int64_t)sizeof value, sizeof value);
        if (h->targets ? !isfinite(value) : p->label[i] > 1) return "a label cannot be";
    }
    return NULL;
}

// Whatever the readers take for granted.
static const char *check_parts(const header *h, const parts *p, const char *key) {
    if (h->key_size != (int64_t)strlen(key) + 1 || memcmp(p->key, key, (size_t)h->key_size) != 0)
        return "it is of another dataset";
    if (h->text_size < 1 || p->text[h->text_size - 1] != 0) return "its text does not end";
    if (h->kind < 0 || h->kind >= LS_RECORDS_KINDS || h->picture_bytes < 0 ||
        h->picture_bytes > 4 * LS_IMAGE_MAX_PIXELS + LS_IMAGE_MAX_FILE)
        return "a kind or a size cannot be";
    if (h->pairs < 0 || h->pairs > 1 || (h->pairs && (h->count[0] % 2 || h->count[1] % 2 || h->label_width)))
        return "its samples are no pairs";
    if (h->class_count < 1 || h->class_count > INT32_MAX || h->file_count > UINT32_MAX || h->count[0] < 1)
        return "a count cannot be";
    for (int64_t i = 0; i < h->witness_count; i++)
        if (!is_text(h, p->witness[i].name)) return "a path lies outside of its text";
    for (int64_t i = 0; i < h->file_count; i++)
        if (!is_text(h, p->file[i].name) || p->file[i].bytes < 0) return "a file has no path or size";
    for (int64_t i = 0; i < h->class_count; i++)
        if (p->class_name[i] != -1 && !is_text(h, p->class_name[i])) return "a class's name lies outside of the text";
    for (int s = 0; s < LS_RECORDS_SETS; s++) {
        if (h->count[s] > LS_MAX_SAMPLES) return "a count cannot be";
        for (int64_t i = 0; i < h->count[s]; i++) {
            const char *wrong = check_record(h, p, &p->record[s][i]);
            if (wrong) return wrong;
        }
    }
    return check_rows(h, p);
}

static ls_status copy(const void *from, int64_t count, int64_t each, int64_t *room, void *out) {
    void *to = NULL;
    *room = count;
    LS_TRY(ls_calloc(count ? count : 1, each, &to));
    if (count) memcpy(to, from, (size_t)(count * each));
    memcpy(out, &to, sizeof to);
    return LS_OK;
}

static ls_status fill(const header *h, const parts *p, ls_records_builder *b) {
    for (int s = 0; s < LS_RECORDS_SETS; s++) {
        LS_TRY(copy(p->record[s], h->count[s], sizeof *p->record[s], &b->room[s], &b->record[s]));
        b->count[s] = h->count[s];
    }
    LS_TRY(copy(p->file, h->file_count, sizeof *p->file, &b->file_room, &b->file));
    LS_TRY(copy(p->class_name, h->class_count, sizeof *p->class_name, &b->class_room, &b->class_name));
    LS_TRY(copy(p->witness, h->witness_count, sizeof *p->witness, &b->witness_room, &b->witness));
    LS_TRY(copy(p->label, h->label_count * row_bytes(h), 1, &b->label_room, &b->label));
    LS_TRY(copy(p->text, h->text_size, 1, &b->text_room, &b->text));
    b->label_count = h->label_count;
    b->label_width = (int)h->label_width;
    b->targets = (int)h->targets;
    b->pairs = (int)h->pairs;
    b->file_count = h->file_count;
    b->class_count = h->class_count;
    b->witness_count = h->witness_count;
    b->text_size = h->text_size;
    b->picture_bytes = h->picture_bytes;
    b->kind = (ls_records_kind)h->kind;
    return LS_OK;
}

const char *ls__index_parse(const void *bytes, int64_t size, const char *key, ls_records_builder *b) {
    header h;
    parts p = {.key = NULL};
    const char *wrong = find_parts(bytes, size, &h, &p);
    if (!wrong) wrong = check_parts(&h, &p, key);
    if (wrong || fill(&h, &p, b) == LS_OK) return wrong;
    ls_records_free(b);
    return "there is no memory for it";
}

// Folders, tables and containers, all of them; of files with a sample each some. One of these that changes later is found when it is read.
static int is_as_it_was(const ls_records_builder *b) {
    struct stat now;
    for (int64_t i = 0; i < b->witness_count; i++) {
        ls_record_witness found = b->witness[i];
        if (ls_records_look_again(b, &found) != 0 || found.bytes != b->witness[i].bytes ||
            found.changed != b->witness[i].changed)
            return 0;
    }
    int64_t step = b->file_count > SAMPLED ? b->file_count / SAMPLED : 1;
    for (int64_t i = 0; i < b->file_count; i += step) {
        const ls_record_file *f = &b->file[i];
        if (stat(b->text + f->name, &now) != 0 || now.st_size != f->bytes || ls_records_time(&now) != f->changed)
            return 0;
    }
    return 1;
}

int ls__index_read(const char *path, const char *key, ls_records_builder *b) {
    struct stat there;
    void *bytes = NULL;
    const char *wrong = "it cannot be read";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return 0;
    if (fstat(fd, &there) == 0 && S_ISREG(there.st_mode) && there.st_uid == geteuid() && there.st_size <= MOST_SIZE &&
        ls_memory_alloc(there.st_size + 8, &bytes) == LS_OK) {
        int64_t done = 0;
        while (done < there.st_size) {
            ssize_t n = read(fd, (char *)bytes + done, (size_t)(there.st_size - done));
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) break;
            done += n;
        }
        wrong = ls__index_parse(bytes, done, key, b);
    }
    close(fd);
    ls_memory_free(bytes);
    if (!wrong && is_as_it_was(b)) return 1;
    ls_records_free(b);
    return 0;
}

// --- writing ---------------------------------------------------------------------------------------------------------

// A stream, and the checksum of what went into it.
typedef struct writer {
    FILE *file;
    uint32_t sum;
    int failed;
} writer;

static void put(writer *w, const void *bytes, int64_t size) {
    static const char zeros[8] = {0};
    int64_t more = ls_round_up(size, 8) - size;
    if (size && fwrite(bytes, 1, (size_t)size, w->file) != (size_t)size) w->failed = 1;
    if (more && fwrite(zeros, 1, (size_t)more, w->file) != (size_t)more) w->failed = 1;
    w->sum = ls_crc32c_more(ls_crc32c_more(w->sum, bytes, size), zeros, more);
}

static int write_all(FILE *file, const char *key, const ls_records_builder *b) {
    writer w = {file, ls_crc32c("", 0), 0};
    header h = {.magic = MAGIC,
                .version = VERSION,
                .order = 1,
                .key_size = (int64_t)strlen(key) + 1,
                .count = {b->count[0], b->count[1]},
                .file_count = b->file_count,
                .class_count = b->class_count,
                .witness_count = b->witness_count,
                .text_size = b->text_size,
                .label_count = b->label_count,
                .label_width = b->label_width,
                .targets = b->targets,
                .pairs = b->pairs,
                .picture_bytes = b->picture_bytes,
                .kind = (int64_t)b->kind,
                .largest_record = sizeof(ls_record)};
    put(&w, &h, sizeof h);
    put(&w, key, h.key_size);
    put(&w, b->witness, b->witness_count * (int64_t)sizeof *b->witness);
    put(&w, b->file, b->file_count * (int64_t)sizeof *b->file);
    put(&w, b->class_name, b->class_count * (int64_t)sizeof *b->class_name);
    for (int s = 0; s < LS_RECORDS_SETS; s++) put(&w, b->record[s], b->count[s] * (int64_t)sizeof *b->record[s]);
    put(&w, b->label, b->label_count * ls_records_row_bytes(b->label_width, b->targets));
    put(&w, b->text, b->text_size);
    uint64_t sum = w.sum;
    if (fwrite(&sum, sizeof sum, 1, file) != 1) w.failed = 1;
    return w.failed ? -1 : 0;
}

// Its folder, and the one that this is in: they may not be there yet.
static int make_folders(const char *path) {
    char folder[4096];
    snprintf(folder, sizeof folder, "%s", path);
    char *last = strrchr(folder, '/');
    *last = 0;
    char *above = strrchr(folder, '/');
    if (above && above > folder) {
        *above = 0;
        mkdir(folder, 0700);
        *above = '/';
    }
    return mkdir(folder, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

// What writers left that were killed: files of this user's beside an index's name, an hour old.
static void sweep(const char *path) {
    char folder[4096];
    struct dirent *e;
    struct stat there;
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = 0;
    DIR *d = opendir(folder);
    while (d && (e = readdir(d))) {
        const char *behind = strstr(e->d_name, ".index.");
        if (!behind || strlen(behind) != strlen(".index.XXXXXX")) continue;
        if (fstatat(dirfd(d), e->d_name, &there, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(there.st_mode)) continue;
        if (there.st_uid == geteuid() && time(NULL) - there.st_mtime > LEFT_SECONDS) unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d) closedir(d);
}

// How long making it must have taken; below 0: it is never kept.
static double least_seconds(void) {
    const char *text = getenv("LOCKSTEP_INDEX_SECONDS");
    char *end;
    if (!text) return LS_INDEX_SECONDS;
    double seconds = strtod(text, &end);
    return end != text && !*end && seconds >= 0 ? seconds : -1;
}

// What was changed while it was looked at, or right before, could be changed again without another time.
static int is_settled(const ls_records_builder *b, double seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t young = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)(1e9 * seconds) - 2000000000;
    for (int64_t i = 0; i < b->witness_count; i++)
        if (b->witness[i].kind != LS_WITNESS_PATTERN && b->witness[i].changed > young) return 0;
    return 1;
}

void ls__index_write(const char *path, const char *key, const ls_records_builder *b, double seconds, char *note,
                     size_t size) {
    double least = least_seconds();
    ls_output output;
    note[0] = 0;
    if (least < 0 || seconds < least || b->unwitnessed || !is_settled(b, seconds)) return;
    int failed = make_folders(path) != 0;
    if (!failed) sweep(path);
    failed = failed || ls_output_open(path, &output) != 0;
    if (!failed) {
        failed = write_all(output.file, key, b) != 0;
        int why = errno;
        if (ls_output_close(&output, path, !failed) != 0 && !failed) failed = 1, why = errno;
        errno = why;
    }
    if (failed)
        snprintf(note, size, "the index of the data, which took %.0f s to make, cannot be kept in %s: %s", seconds,
                 path, strerror(errno));
}
