#define _GNU_SOURCE
#include "data/containers.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/image.h"

#define MOST_CLASSES 10000000

static const ls_option table[] = {
    {"test", LS_OPTION_TEXT, LS_RECORDS_OPTION(test), .metavar = "PATH", .help = "the test set"},
    LS_RECORDS_SPLIT(""),
    LS_RECORDS_CHANNELS,
    LS_RECORDS_EXCLUDE,
    {"first-class", LS_OPTION_INT, LS_RECORDS_OPTION(first_class), .metavar = "N", .max = 1000000,
     .help = "the number of the first class in the files: 1 for ImageNet's"},
    {"image", LS_OPTION_TEXT, LS_RECORDS_OPTION(image), .metavar = "NAME", .help = "of images"},
    {"label", LS_OPTION_TEXT, LS_RECORDS_OPTION(label), .metavar = "NAME", .help = "of classes"},
    {"labels", LS_OPTION_TEXT, LS_RECORDS_OPTION(labels), .metavar = "NAME",
     .help =
         "of several labels at once (tfrecord): 1 or 0 for each, or with label-count=N the numbers of those that are "
         "there"},
    {"label-count", LS_OPTION_INT, LS_RECORDS_OPTION(label_count), .metavar = "N", .min = 0, .max = 10000,
     .help = "how many labels there are"},
    {"channel-order", LS_OPTION_TEXT, LS_RECORDS_OPTION(order), .metavar = "bgr|rgb",
     .help = "of pixels that are not encoded, as databases may have them"},
    {.name = NULL},
};

// --- one file --------------------------------------------------------------------------------------------------------

ls_status ls_listing_damaged(const ls_listing *l, int64_t at, const char *why) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged at byte %lld: %s; copy or make it again", l->path, (long long)at,
                   why);
}

// Bytes of the file into `out`, all of them.
static ls_status fetch(ls_listing *l, int64_t at, int64_t size, void *out) {
    for (int64_t done = 0; done < size;) {
        ssize_t n = pread(l->fd, (char *)out + done, (size_t)(size - done), at + done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", l->path, strerror(errno));
        if (n == 0) return ls_listing_damaged(l, at + done, "it ends here");
        done += n;
    }
    return LS_OK;
}

ls_status ls_listing_read(ls_listing *l, int64_t at, int64_t size, void *out) {
    if (at < 0 || size < 0 || size > l->bytes || at > l->bytes - size)
        return ls_listing_damaged(l, at, "it ends before what is said to be here");
    if (size > (int64_t)sizeof l->window) return fetch(l, at, size, out);
    if (at < l->window_at || at + size > l->window_at + l->window_size) {
        int64_t room = (int64_t)sizeof l->window, left = l->bytes - at;
        l->window_size = 0;
        LS_TRY(fetch(l, at, left < room ? left : room, l->window));
        l->window_at = at;
        l->window_size = left < room ? left : room;
    }
    memcpy(out, l->window + (at - l->window_at), (size_t)size);
    return LS_OK;
}

static ls_status add(ls_listing *l, ls_record r) {
    if (r.bytes > LS_IMAGE_MAX_FILE)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: the sample at byte %lld has %lld bytes, more than the %lld MB that an image may have",
                       l->path, (long long)r.at, (long long)r.bytes, (long long)(LS_IMAGE_MAX_FILE >> 20));
    r.file = l->file;
    int set = l->settings->split > 0 && ls_records_held_out(l->settings->split, l->seen) ? LS_RECORDS_TEST : l->set;
    l->seen++;
    l->listed++;
    return ls_records_add(l->builder, set, r);
}

// The first sample decides: one class for each, or rows of so many labels.
static ls_status check_width(ls_listing *l, const ls_record *r, int width) {
    if (!l->listed) l->builder->label_width = width;
    if (l->builder->label_width == width) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s: the sample at byte %lld has %d labels, and those before it have %d",
                   l->path, (long long)r->at, width ? width : 1, l->builder->label_width ? l->builder->label_width : 1);
}

ls_status ls_listing_add_labels(ls_listing *l, ls_record r, const uint8_t *row, int width) {
    LS_TRY(check_width(l, &r, width));
    LS_TRY(ls_records_add_row(l->builder, row, &r.class));
    return add(l, r);
}

ls_status ls_listing_add(ls_listing *l, ls_record r, int64_t class) {
    LS_TRY(check_width(l, &r, 0));
    class -= l->settings->first_class;
    if (class < 0 || class >= MOST_CLASSES)
        return LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s: the sample at byte %lld has class %lld, and the first is %d: classes are whole numbers from "
            "there on, up to %d of them (first-class=N says otherwise)",
            l->path, (long long)r.at, (long long)class + l->settings->first_class, l->settings->first_class,
            MOST_CLASSES);
    r.class = (int32_t) class;
    if (class > l->most_class) l->most_class = class;
    return add(l, r);
}

static ls_status list_file(const ls_container *c, ls_listing *l, const char *path) {
    struct stat there;
    ls_status status;
    char inside[4096];
    if (c->inside && stat(path, &there) == 0 && S_ISDIR(there.st_mode)) {
        int length = snprintf(inside, sizeof inside, "%s/%s", path, c->inside);
        if (length < 0 || length >= (int)sizeof inside)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the path of a file has more than 4000 bytes");
        path = inside;
    }
    l->path = path;
    l->window_size = 0;
    l->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe that nobody writes to is not waited for
    if (l->fd < 0 || fstat(l->fd, &there) != 0 || !S_ISREG(there.st_mode)) {
        status = LS_FAIL(l->fd < 0 && errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", path,
                         l->fd < 0 ? strerror(errno) : "it is no file");
        if (l->fd >= 0) close(l->fd);
        l->path = NULL;
        return status;
    }
    l->bytes = there.st_size;
    status = ls_records_add_file(l->builder, path, l->bytes, ls_records_time(&there), &l->file);
    if (status == LS_OK) status = ls_records_witness(l->builder, LS_WITNESS_FILE, path);
    if (status == LS_OK) status = c->list(l);
    close(l->fd);
    l->path = NULL;
    return status;
}

// --- all of them -----------------------------------------------------------------------------------------------------

static ls_status list_set(const ls_container *c, ls_listing *l, int set, const char *pattern) {
    ls_paths paths;
    ls_status status = LS_OK;
    LS_TRY(ls_paths_expand(pattern, &paths));
    l->set = set;
    status = ls_records_witness(l->builder, LS_WITNESS_PATTERN, pattern);
    for (int64_t i = 0; i < paths.count && status == LS_OK; i++) status = list_file(c, l, paths.path[i]);
    ls_paths_free(&paths);
    LS_TRY(status);
    if (l->builder->count[set] > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s:%s has no samples%s", c->name, pattern,
                   l->settings->split > 0 ? " left to train on: make validation-split smaller" : "");
}

// Rows of which each has exactly one label are classes, written as rows, where nobody has asked for several labels.
static ls_status check_rows(const ls_container *c, const char *path, const ls_records_settings *s,
                            const ls_records_builder *b) {
    int more = !b->label_width || s->labels;
    for (int64_t i = 0; i < b->label_count && !more; i++) {
        int there = 0;
        for (int k = 0; k < b->label_width; k++) there += b->label[i * b->label_width + k];
        more = there != 1;
    }
    if (more) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s:%s: each sample has exactly one of its %d labels, so these are classes, written as rows: write "
                   "the number of each sample's class",
                   c->name, path, b->label_width);
}

static ls_status list_all(const void *self, const char *path, const ls_records_settings *s, ls_records_builder *b) {
    const ls_container *c = self;
    ls_listing l = {.settings = s, .builder = b, .most_class = -1};
    ls_records_settings whole = *s;
    if (s->order && c->kind != LS_RECORDS_DATUM_BGR)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s:%s: its images are files, whose pixels have an order of their own: leave channel-order out",
                       c->name, path);
    if (s->labels && c->kind != LS_RECORDS_TFRECORD)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s:%s: labels=NAME is for tfrecord; recordio has several labels in its headers, tar and lmdb have "
            "one: leave it out, or name the images and their labels in a table (csv)",
            c->name, path);
    if (s->label_count && !s->labels)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s:%s: label-count=%d says how many labels there are, and nothing where they are: add labels=NAME",
            c->name, path, s->label_count);
    if (s->labels && s->label)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "%s:%s: label=NAME is one class for each sample, and labels=NAME several labels: give one of them", c->name,
            path);
    b->kind = c->kind;
    if (b->kind == LS_RECORDS_DATUM_BGR && s->order && strcmp(s->order, "rgb") == 0) b->kind = LS_RECORDS_DATUM_RGB;
    LS_TRY(list_set(c, &l, LS_RECORDS_TRAIN, path));
    l.settings = &whole;
    whole.split = 0;
    if (s->test) LS_TRY(list_set(c, &l, LS_RECORDS_TEST, s->test));
    LS_TRY(check_rows(c, path, s, b));
    if (b->label_width) l.most_class = b->label_width - 1;
    for (int64_t i = 0; i <= l.most_class; i++) LS_TRY(ls_records_add_class(b, NULL));
    ls_records_measure(b, s->channels);
    return LS_OK;
}

ls_status ls_container_open(const ls_container *c, ls_data_host *host, const char *argument, ls_dataset *out) {
    const ls_records_format format = {.name = c->name,
                                      .table = table,
                                      .self = c,
                                      .list = list_all,
                                      .what = "sample named",
                                      .how = c->how ? c->how : "the samples of this format have numbers alone"};
    return ls_records_open(&format, host, argument, out);
}
