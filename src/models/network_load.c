// A network's text as a list of statements: files and what they include, what begins where and where it ends.
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/input.h"
#include "base/memory.h"
#include "base/options.h"
#include "base/text.h"
#include "models/network.h"

enum { MOST_STATEMENTS = 100000 };

typedef struct loader {
    net_program *program;
    int room;
    int open[LS_NETWORK_DEPTH], depth;            // statements whose end is to come
    int floor;                                    // as many of them are of files that include this one
    const char *including[LS_NETWORK_DEPTH + 1];  // real paths of the files that are being read
    int included, named;
} loader;

// --- words -----------------------------------------------------------------------------------------------------------

static int column(const net_cursor *c) {
    int n = 1;
    for (const char *p = c->begin; p < c->at; p++) n += ((unsigned char)*p & 0xC0) != 0x80;
    return n;
}

ls_status net_wrong(const net_cursor *at, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ls_text_clean(text);
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s:%d:%d: %s", at->file, at->line, column(at), text);
}

void net_skip(net_cursor *c) {
    while (*c->at == ' ' || *c->at == '\t') c->at++;
    if (*c->at == '#') c->at += strlen(c->at);
}

int net_ended(net_cursor *c) {
    net_skip(c);
    return *c->at == 0;
}

int net_take(net_cursor *c, char sign) {
    net_skip(c);
    if (*c->at != sign) return 0;
    c->at++;
    return 1;
}

ls_status net_finished(net_cursor *c) {
    if (net_ended(c)) return LS_OK;
    return net_wrong(c, "nothing more belongs on this line, but there is '%.40s'", c->at);
}

int net_is_name(const char *text) {
    char clean[LS_NETWORK_NAME];
    if (strlen(text) >= sizeof clean || strpbrk(text, "\t\n")) return 0;
    memcpy(clean, text, strlen(text) + 1);
    ls_text_clean(clean);
    return strcmp(clean, text) == 0 && ls_text_is_utf8(text);
}

static ls_status check_word(const net_cursor *at, const char *word) {
    if (net_is_name(word)) return LS_OK;
    return net_wrong(at, "'%s' is not a name: it has characters that are not printed, or is not UTF-8", word);
}

static ls_status quoted_word(net_cursor *c, char out[LS_NETWORK_NAME]) {
    net_cursor at = *c;
    int n = 0;
    for (c->at++; *c->at && *c->at != '"'; c->at++) {
        if (*c->at == '\\' && (c->at[1] == '"' || c->at[1] == '\\')) c->at++;
        if (n == LS_NETWORK_NAME - 1) return net_wrong(&at, "this name is longer than %d bytes", LS_NETWORK_NAME - 1);
        out[n++] = *c->at;
    }
    out[n] = 0;
    if (*c->at != '"') return net_wrong(&at, "this quotation is not closed on its line");
    c->at++;
    return check_word(&at, out);
}

ls_status net_word(net_cursor *c, const char *what, char out[LS_NETWORK_NAME], int *quoted) {
    net_skip(c);
    if (quoted) *quoted = *c->at == '"';
    if (*c->at == '"') return quoted_word(c, out);
    size_t n = strcspn(c->at, " \t,=#\"");
    if (n == 0) return net_wrong(c, "%s belongs here", what);
    if (n >= LS_NETWORK_NAME) return net_wrong(c, "this word is longer than %d bytes", LS_NETWORK_NAME - 1);
    snprintf(out, LS_NETWORK_NAME, "%.*s", (int)n, c->at);
    LS_TRY(check_word(c, out));
    c->at += n;
    return LS_OK;
}

// --- blocks ----------------------------------------------------------------------------------------------------------

// The name of a block, which stands behind its word.
static ls_status block_name(net_cursor c, char out[LS_NETWORK_NAME]) {
    return net_word(&c, "a block's name", out, NULL);
}

int net_find_block(const net_program *program, const char *name) {
    char other[LS_NETWORK_NAME];
    for (int i = 0; i < program->block_count; i++)
        if (block_name(program->statements[program->blocks[i]].from, other) == LS_OK && strcmp(other, name) == 0)
            return program->blocks[i];
    return -1;
}

static ls_status check_block(const loader *l, const net_cursor *at) {
    char name[LS_NETWORK_NAME];
    LS_TRY(block_name(*at, name));
    if (l->depth > 0) return net_wrong(at, "a block stands by itself, not inside another one or a repeat");
    if (ls__op_named(name)) return net_wrong(at, "%s is a kind of layer: give the block another name", name);
    if (l->program->block_count == LS_NETWORK_BLOCKS)
        return net_wrong(at, "a network has at most %d blocks", LS_NETWORK_BLOCKS);
    int other = net_find_block(l->program, name);
    if (other >= 0)
        return net_wrong(at, "there is a block '%s' already, at %s:%d", name, l->program->statements[other].from.file,
                         l->program->statements[other].from.line);
    return LS_OK;
}

// --- statements ------------------------------------------------------------------------------------------------------

static const struct {
    const char *word;
    net_kind kind;
    int anywhere;  // also inside blocks and repeats
} keywords[] = {{"input", NET_INPUT, 0},       {"classes", NET_CLASSES, 0}, {"block", NET_BLOCK, 1},
                {"repeat", NET_REPEAT, 1},     {"end", NET_END, 1},         {"top", NET_TOP, 0},
                {"features", NET_FEATURES, 0}, {"output", NET_OUTPUT, 0}};

static ls_status add(loader *l, net_kind kind, const net_cursor *from) {
    net_program *p = l->program;
    if (p->count == MOST_STATEMENTS) return net_wrong(from, "a network is at most %d statements", MOST_STATEMENTS);
    if (p->count == l->room) {
        int room = l->room ? 2 * l->room : 64;
        net_statement *grown = realloc(p->statements, (size_t)room * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the text of a network");
        p->statements = grown;
        l->room = room;
    }
    p->statements[p->count++] = (net_statement){kind, *from, -1};
    return LS_OK;
}

static ls_status add_keyword(loader *l, int k, const net_cursor *word, const net_cursor *from) {
    net_kind kind = keywords[k].kind;
    if (l->depth > 0 && !keywords[k].anywhere)
        return net_wrong(word, "'%s' stands by itself, not inside a block or a repeat", keywords[k].word);
    if (kind == NET_BLOCK) {
        LS_TRY(check_block(l, from));
        l->program->blocks[l->program->block_count++] = l->program->count;
    }
    if (kind == NET_END) {
        if (l->depth == l->floor) return net_wrong(word, "no block and no repeat is open that this could end");
        int begin = l->open[--l->depth];
        LS_TRY(add(l, kind, from));
        l->program->statements[begin].partner = l->program->count - 1;
        l->program->statements[l->program->count - 1].partner = begin;
        return LS_OK;
    }
    if (kind == NET_BLOCK || kind == NET_REPEAT) {
        if (l->depth == LS_NETWORK_DEPTH) return net_wrong(word, "more than %d repeats in one another", l->depth);
        l->open[l->depth++] = l->program->count;
    }
    return add(l, kind, from);
}

static ls_status include(loader *l, net_cursor *c);

static ls_status take_name(loader *l, net_cursor *c) {
    char name[LS_NETWORK_NAME];
    net_skip(c);
    net_cursor at = *c;
    LS_TRY(net_word(c, "the network's name", name, NULL));
    LS_TRY(net_finished(c));
    if (l->included > 1) return LS_OK;  // what is included has a name of its own, which is not this one's
    if (l->named) return net_wrong(&at, "the network has a name already");
    if (!name[0]) return net_wrong(&at, "a network's name is not empty");
    l->named = 1;
    snprintf(l->program->name, sizeof l->program->name, "%s", name);
    return LS_OK;
}

// The index of a keyword's row; -1: it is none.
static int find_keyword(const char *word) {
    for (size_t k = 0; k < sizeof keywords / sizeof keywords[0]; k++)
        if (strcmp(word, keywords[k].word) == 0) return (int)k;
    return -1;
}

static ls_status take_line(loader *l, net_cursor *c) {
    char word[LS_NETWORK_NAME];
    int quoted;
    if (net_ended(c)) return LS_OK;
    net_cursor begin = *c;
    LS_TRY(net_word(c, "a layer", word, &quoted));
    int labelled = net_take(c, '=');
    if (labelled) LS_TRY(net_word(c, "a kind of layer", word, &quoted));
    int keyword = quoted ? -1 : find_keyword(word);
    int input = keyword >= 0 && keywords[keyword].kind == NET_INPUT;
    if (labelled && keyword >= 0 && !input)
        return net_wrong(&begin, "'%s' is no layer, and has no name in front of it", word);
    if (keyword >= 0) return add_keyword(l, keyword, &begin, input ? &begin : c);
    if (!quoted && !labelled && strcmp(word, "network") == 0) return take_name(l, c);
    if (!quoted && !labelled && strcmp(word, "include") == 0) return include(l, c);
    return add(l, NET_LAYER, &begin);
}

// Cuts a text into its lines, in place, and takes one after the other.
static ls_status take_text(loader *l, const char *path, char *text) {
    net_cursor c = {.file = path, .line = 0};
    for (char *next = text; next;) {
        char *line = next, *end = line + strcspn(line, "\n");
        next = *end ? end + 1 : NULL;
        if (end > line && end[-1] == '\r') end[-1] = 0;
        *end = 0;
        c.line++;
        c.begin = c.at = line;
        LS_TRY(take_line(l, &c));
    }
    return LS_OK;
}

// --- files -----------------------------------------------------------------------------------------------------------

static ls_status read_file(const char *path, char **out) {
    FILE *file = ls_input_open(path);
    if (!file)
        return LS_FAIL(errno == ENOENT ? LS_STATUS_NOT_FOUND : LS_STATUS_IO, "cannot read the network %s: %s", path,
                       ls_input_why(errno));
    ls_status status = ls_calloc(LS_NETWORK_FILE_BYTES + 1, 1, out);
    size_t n = status == LS_OK ? fread(*out, 1, LS_NETWORK_FILE_BYTES + 1, file) : 0;
    if (status == LS_OK && ferror(file))
        status = LS_FAIL(LS_STATUS_IO, "cannot read the network %s: %s", path, strerror(errno));
    if (status == LS_OK && n > LS_NETWORK_FILE_BYTES)
        status =
            LS_FAIL(LS_STATUS_BAD_DATA, "%s is no network: it is larger than %d bytes", path, LS_NETWORK_FILE_BYTES);
    if (status == LS_OK && memchr(*out, 0, n)) status = LS_FAIL(LS_STATUS_BAD_DATA, "%s is no text", path);
    fclose(file);
    return status;
}

// `at`: the include, for sentences; NULL: the file that was asked for.
static ls_status take_file(loader *l, const net_cursor *at, const char *path, const char *text) {
    net_program *p = l->program;
    char *real = NULL;
    int index = p->files;
    if (index == LS_NETWORK_FILES) return net_wrong(at, "a network is at most %d files", LS_NETWORK_FILES);
    LS_TRY(ls_strdup(path, &p->paths[index]));
    p->files++;
    LS_TRY(text ? ls_strdup(text, &p->texts[index]) : read_file(path, &p->texts[index]));
    if (!text) real = realpath(path, NULL);
    for (int i = 0; at && real && i < l->included; i++)
        if (l->including[i] && strcmp(l->including[i], real) == 0) {
            free(real);
            return net_wrong(at, "%s includes itself", path);
        }
    l->including[l->included++] = real;
    int floor = l->floor;
    l->floor = l->depth;  // what other files have begun is theirs to end
    ls_status status = take_text(l, p->paths[index], p->texts[index]);
    l->included--;
    free(real);
    LS_TRY(status);
    int ended = l->depth == l->floor;
    l->floor = floor;
    if (ended) return LS_OK;
    const net_cursor *open = &p->statements[l->open[l->depth - 1]].from;
    return net_wrong(open, "this is not ended: 'end' is missing");
}

static ls_status include(loader *l, net_cursor *c) {
    char name[LS_NETWORK_NAME], path[4096];
    int quoted;
    net_skip(c);
    net_cursor at = *c;
    LS_TRY(net_word(c, "a file, as in include \"blocks.net\",", name, &quoted));
    LS_TRY(net_finished(c));
    if (!quoted) return net_wrong(&at, "the file's name is quoted: include \"%s\"", name);
    if (l->included > LS_NETWORK_DEPTH - 1)
        return net_wrong(&at, "more than %d files that include one another", LS_NETWORK_DEPTH);
    const char *slash = strrchr(c->file, '/');
    int folder = name[0] != '/' && slash ? (int)(slash - c->file + 1) : 0;
    if (snprintf(path, sizeof path, "%.*s%s", folder, c->file, name) >= (int)sizeof path)
        return net_wrong(&at, "the path of this file is too long");
    ls_status status = take_file(l, &at, path, NULL);
    if (status == LS_STATUS_NOT_FOUND || status == LS_STATUS_IO)
        return ls__fail_context(status, "%s:%d:%d: ", at.file, at.line, column(&at));
    return status;
}

// --- all of it -------------------------------------------------------------------------------------------------------

static ls_status unknown(const net_program *p, const net_cursor *at, const char *word) {
    const char *names[LS_OP_COUNT];
    int count = 0;
    for (int i = 0; i < LS_OP_COUNT; i++) names[count++] = ls_op_name((ls_op_kind)i);
    const char *near = ls_nearest(word, names, count);
    return net_wrong(at,
                     "there is no kind of layer and no block named '%s'%s%s%s; docs/networks.md lists them, and "
                     "'lockstep --version' says where documents are",
                     word, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

// That each layer is an op or a block, also in blocks that are never called.
static ls_status check_layers(const net_program *p) {
    char word[LS_NETWORK_NAME];
    for (int i = 0; i < p->count; i++) {
        if (p->statements[i].kind != NET_LAYER) continue;
        net_cursor c = p->statements[i].from, at = c;
        LS_TRY(net_word(&c, "a layer", word, NULL));
        if (net_take(&c, '=')) {
            net_skip(&c);
            at = c;
            LS_TRY(net_word(&c, "a kind of layer", word, NULL));
        }
        const ls_op *op = ls__op_named(word);
        if ((!op || op->inputs == 0) && net_find_block(p, word) < 0) return unknown(p, &at, word);
    }
    return LS_OK;
}

// "my" of "nets/my.net".
static void name_after(const char *path, char out[LS_NETWORK_NAME]) {
    const char *slash = strrchr(path, '/');
    snprintf(out, LS_NETWORK_NAME, "%s", slash ? slash + 1 : path);
    char *ending = strrchr(out, '.');
    if (ending && ending > out && strcmp(ending, LS_NETWORK_ENDING) == 0) *ending = 0;
}

ls_status net_load(net_program *program, const char *path, const char *text) {
    *program = (net_program){.count = 0};
    loader l = {.program = program};
    name_after(path, program->name);
    LS_TRY(take_file(&l, NULL, path, text));
    return check_layers(program);
}

void net_free(net_program *p) {
    for (int i = 0; i < p->files; i++) free(p->texts[i]), free(p->paths[i]);
    free(p->statements);
    *p = (net_program){.count = 0};
}
