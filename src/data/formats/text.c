// "sentences" and "text:FILE": a text cut into windows, as a language model learns from. Field "tokens" has the bytes of a window, "targets"
// those one further on: the next of each.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "data/dataset.h"
#include "data/formats/phrases.h"

#define WINDOW     64
#define MOST       4096  // of a window
#define ASCII      128
#define BYTES      256
#define TRAIN      8192  // windows of sentences
#define TEST       1024
#define PIECE      4096                 // characters that are drawn together
#define PHRASE_KEY 0x53656e74656e6365u  // the dataset's fixed seed; another one is another dataset

// A text of (train + test) * window + 1 bytes in the host's memory.
static ls_status set_text(ls_data_host *host, ls_dataset *out, const uint8_t *text, int64_t window, int64_t train,
                          int64_t test, int vocabulary) {
    const ls_field fields[] = {{"tokens", LS_SHAPE(window), LS_DTYPE_U8, vocabulary},
                               {"targets", LS_SHAPE(window), LS_DTYPE_U8, vocabulary}};
    const uint8_t *rest = text + train * window;
    ls_arrays train_set = {train, {text, text + 1}}, test_set = {test, {rest, rest + 1}};
    return ls_data_set_fields(host, out, fields, 2, &train_set, &test_set);
}

// --- sentences -------------------------------------------------------------------------------------------------------

static void draw_piece(uint32_t piece, uint8_t *text) {
    draws d = draws_of(PHRASE_KEY, piece);
    char phrase[PHRASE_MOST];
    int object;
    for (int at = 0; at < PIECE;) {
        int length = ls__draw_phrase(&d, phrase, &object), fits = PIECE - at < length ? PIECE - at : length;
        memcpy(text + at, phrase, (size_t)fits);
        at += fits;
        if (at < PIECE) text[at++] = ' ';
    }
}

static ls_status sentences_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    const int64_t characters = (int64_t)(TRAIN + TEST) * WINDOW, pieces = characters / PIECE;
    void *memory = NULL;
    LS_TRY(host->agree(host->self, host->alloc(host->self, characters + 1, &memory)));
    uint8_t *text = memory;
    int64_t first = pieces * host->rank / host->size, past = pieces * (host->rank + 1) / host->size;
    for (int64_t i = first; i < past; i++) draw_piece((uint32_t)i, text + i * PIECE);
    if (host->rank == 0) text[characters] = ' ';
    LS_TRY(host->barrier(host->self));
    return set_text(host, out, text, WINDOW, TRAIN, TEST, ASCII);
}

const ls_format ls_format_sentences = {
    .name = "sentences",
    .help = "a text of such sentences, for language models: windows of 64 characters, 8,192 + 1,024",
    .argument = NULL,
    .open = sentences_open,
};

// --- a file ----------------------------------------------------------------------------------------------------------

typedef struct file {
    char path[4096];
    int64_t window, bytes, train, test;
} file;

// "FILE" or "FILE,length=N".
static ls_status read_argument(const char *argument, file *f) {
    const char *option = strstr(argument, ",length="), *end = option ? option : argument + strlen(argument);
    f->window = WINDOW;
    if ((size_t)snprintf(f->path, sizeof f->path, "%.*s", (int)(end - argument), argument) >= sizeof f->path)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "text: the file's name is too long");
    if (!option) return LS_OK;
    char *after;
    long n = strtol(option + 8, &after, 10);
    if (after == option + 8 || *after || n < 1 || n > MOST)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "text:%s: the length of a window is a number from 1 to %d, as in text:%s,length=64", argument,
                       MOST, f->path);
    f->window = n;
    return LS_OK;
}

// The last tenth of the windows is to test with.
static ls_status measure(file *f) {
    struct stat s;
    if (stat(f->path, &s) != 0)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read %s: %s", f->path,
                       strerror(errno));
    if (!S_ISREG(s.st_mode))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is no file, and text is read from one", f->path);
    int64_t windows = s.st_size > 0 ? (s.st_size - 1) / f->window : 0;
    f->test = windows / 10;
    f->train = windows - f->test;
    f->bytes = windows * f->window + 1;
    if (f->test > 0) return LS_OK;
    return LS_FAIL(LS_STATUS_BAD_DATA,
                   "%s has %lld bytes, which is too short to learn from: ten windows of %lld and a byte are the least",
                   f->path, (long long)s.st_size, (long long)f->window);
}

static ls_status text_open(ls_data_host *host, const char *argument, ls_dataset *out) {
    file f;
    void *memory = NULL;
    ls_status status = read_argument(argument, &f);
    if (status == LS_OK) status = measure(&f);
    LS_TRY(host->agree(host->self, status));
    LS_TRY(host->agree(host->self, host->alloc(host->self, f.bytes, &memory)));
    int64_t first = f.bytes * host->rank / host->size, past = f.bytes * (host->rank + 1) / host->size;
    LS_TRY(host->agree(host->self, host->read(host->self, f.path, first, past - first, (uint8_t *)memory + first)));
    LS_TRY(host->barrier(host->self));
    return set_text(host, out, memory, f.window, f.train, f.test, BYTES);
}

const ls_format ls_format_text = {
    .name = "text",
    .help =
        "a text file, for language models: windows of its bytes, of which the last tenth is to test with; "
        "FILE,length=N: of N bytes each (64)",
    .argument = "FILE",
    .open = text_open,
};
