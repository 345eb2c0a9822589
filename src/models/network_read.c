// Goes through a network's statements, and adds what they say to a graph.
#define _GNU_SOURCE
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "models/models.h"
#include "models/network.h"

// What names stand for where a statement is: in the file, or in one call of a block.
typedef struct label {
    char name[LS_NETWORK_NAME];
    ls_value value;
} label;

typedef struct scope {
    label *labels;
    int count, room;
    net_variables variables;       // the first two are channels and classes
    char prefix[LS_NETWORK_NAME];  // of its layers' names
    int named;                     // 0: labels are for reading alone, and layers have automatic names
    ls_value latest;               // what a layer reads that says nothing
} scope;

typedef struct reader {
    const net_program *program;
    const ls_model_config *config;
    ls_graph *graph;
    int classes;  // told apart, where the text has it; 0: it does not say
    int steps, layers, block_calls, outputs;
    int calls[LS_NETWORK_DEPTH], depth;  // blocks that are being gone through
    int top, features;                   // the text says where the classifier begins; that there is none
    int over;                            // the rest is the classifier, which is not wanted
} reader;

// --- names -----------------------------------------------------------------------------------------------------------

static ls_status bind(scope *s, const char *name, ls_value value) {
    if (s->count == s->room) {
        int room = s->room ? 2 * s->room : 16;
        label *grown = realloc(s->labels, (size_t)room * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the names of a network's layers");
        s->labels = grown;
        s->room = room;
    }
    label *new = &s->labels[s->count++];
    new->value = value;
    snprintf(new->name, sizeof new->name, "%s", name);
    return LS_OK;
}

static ls_value find(const scope *s, const char *name) {
    for (int i = s->count - 1; i >= 0; i--)
        if (strcmp(s->labels[i].name, name) == 0) return s->labels[i].value;
    return LS_NO_VALUE;
}

// Where a layer of this name is made further below: then it is a cycle that was meant.
static int made_below(const net_program *p, const net_cursor *at, const char *name) {
    char word[LS_NETWORK_NAME];
    for (int i = 0; i < p->count; i++) {
        net_cursor c = p->statements[i].from;
        int layer = p->statements[i].kind == NET_LAYER || p->statements[i].kind == NET_INPUT;
        if (!layer || strcmp(c.file, at->file) != 0 || c.line < at->line) continue;
        if (net_word(&c, "", word, NULL) == LS_OK && net_take(&c, '=') && strcmp(word, name) == 0) return c.line;
    }
    return 0;
}

static ls_status not_found(const reader *r, const net_cursor *at, const char *name) {
    int line = made_below(r->program, at, name);
    if (line > 0)
        return net_wrong(at, "'%s' is made on line %d: a layer reads what is above it, so that a network has no cycles",
                         name, line);
    return net_wrong(at, "there is no layer named '%s' above this line%s", name,
                     r->depth ? " in this block; a block reads what it is given: in" : "");
}

// A layer that is named, by what was made.
static ls_status read_value(const reader *r, const scope *s, net_cursor *c, ls_value *out) {
    char word[LS_NETWORK_NAME], name[LS_NETWORK_NAME];
    int quoted;
    net_skip(c);
    net_cursor at = *c;
    LS_TRY(net_word(c, "the name of a layer", word, &quoted));
    if (quoted)
        snprintf(name, sizeof name, "%s", word);
    else
        LS_TRY(net_fill_in(&at, word, &s->variables, name));
    *out = find(s, name);
    return *out == LS_NO_VALUE ? not_found(r, &at, name) : LS_OK;
}

// --- what a line says ------------------------------------------------------------------------------------------------

// A layer's line: [LABEL =] KIND [NAME=VALUE | FLAG]... [from LAYER, ...]
typedef struct layer_line {
    net_cursor at;                // of its kind, for sentences
    char label[LS_NETWORK_NAME];  // filled in; "": none
    char kind[LS_NETWORK_NAME];
    ls_value x[LS_MAX_INPUTS];
    int count;
} layer_line;

static ls_status read_kind(const scope *s, net_cursor *c, layer_line *line) {
    char word[LS_NETWORK_NAME];
    net_cursor begin = *c;
    int quoted;
    line->label[0] = 0;
    line->at = *c;
    LS_TRY(net_word(c, "a layer", word, &quoted));
    snprintf(line->kind, sizeof line->kind, "%s", word);
    if (!net_take(c, '=')) return LS_OK;
    if (quoted)
        snprintf(line->label, sizeof line->label, "%s", word);
    else
        LS_TRY(net_fill_in(&begin, word, &s->variables, line->label));
    if (!line->label[0]) return net_wrong(&begin, "a layer's name is not empty");
    net_skip(c);
    line->at = *c;
    return net_word(c, "a kind of layer", line->kind, NULL);
}

static ls_status read_from(const reader *r, const scope *s, net_cursor *c, layer_line *line) {
    do {
        if (line->count == LS_MAX_INPUTS) return net_wrong(c, "a layer reads at most %d values", LS_MAX_INPUTS);
        LS_TRY(read_value(r, s, c, &line->x[line->count]));
        line->count++;
    } while (net_take(c, ','));
    return net_finished(c);
}

// Hands over each attribute there is, up to what it reads.
typedef ls_status (*take_attribute)(void *user, const net_cursor *at, const char *name, const net_value *value);

static ls_status read_attributes(const reader *r, const scope *s, net_cursor *c, layer_line *line, take_attribute take,
                                 void *user) {
    char name[LS_NETWORK_NAME];
    while (!net_ended(c)) {
        net_cursor at = *c;
        net_value value = {.count = 1, .number = {1}};  // of a word alone: a flag
        LS_TRY(net_word(c, "an attribute, as filters=64,", name, NULL));
        if (strcmp(name, "from") == 0) return read_from(r, s, c, line);
        if (net_take(c, '=')) {
            net_skip(c);
            LS_TRY(net_evaluate(c, &s->variables, &value));
        }
        LS_TRY(take(user, &at, name, &value));
    }
    return LS_OK;
}

// --- layers ----------------------------------------------------------------------------------------------------------

static ls_value channels_of(const ls_graph *g, ls_value x) {
    ls_shape shape = ls__model_shape(g, x);
    int64_t n = shape.ndim ? shape.dim[shape.ndim - 1] : 1;
    return n > INT_MAX ? INT_MAX : (int)n;
}

static void set_latest(const reader *r, scope *s, ls_value value) {
    s->latest = value;
    s->variables.all[0].value = (net_value){.count = 1, .number = {channels_of(r->graph, value)}};
}

// Counts what is done, however it is repeated: what a line costs grows with its length.
static ls_status count_step(reader *r, const net_cursor *at) {
    r->steps += 1 + (int)(strlen(at->begin) / LS_NETWORK_STEP_BYTES);
    if (r->steps <= LS_NETWORK_STEPS) return LS_OK;
    return net_wrong(at, "this network goes through more than %d lines, repeats counted", LS_NETWORK_STEPS);
}

// What the graph has said, with the place.
static ls_status wrong_layer(const reader *r, const net_cursor *at) {
    char sentence[512];
    snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    if (!r->depth) return net_wrong(at, "%s", sentence);
    const net_cursor *block = &r->program->statements[r->calls[r->depth - 1]].from;
    return net_wrong(at, "%s (in the block of line %d)", sentence, block->line);
}

typedef struct op_attributes {
    const ls_op *op;
    ls_attrs attrs;
} op_attributes;

static ls_status take_op_attribute(void *user, const net_cursor *at, const char *name, const net_value *value) {
    op_attributes *o = user;
    return net_set_attribute(at, o->op, name, value, &o->attrs);
}

// The momentum of batch normalizations that was asked for.
static void set_momentum(const ls_model_config *config, op_attributes *o) {
    for (const ls_attr *row = o->op->attrs; row && row->name && config->batch_norm_momentum > 0; row++)
        if (strcmp(row->name, "momentum") == 0) ls__attr_set(row, &o->attrs, 0, config->batch_norm_momentum);
}

static ls_status default_inputs(const scope *s, layer_line *line, const ls_op *op) {
    if (line->count > 0) return LS_OK;
    if (op->inputs > 1)
        return net_wrong(&line->at, "%s reads %d values: say which, as in '%s from a, b'", line->kind, op->inputs,
                         line->kind);
    if (s->latest == LS_NO_VALUE)
        return net_wrong(&line->at, "there is nothing above that this layer could read: begin with 'input 28x28x1'");
    line->x[line->count++] = s->latest;
    return LS_OK;
}

static ls_status full_name(const scope *s, const layer_line *line, char out[LS_NETWORK_NAME]) {
    size_t used = 0;
    if (ls_text_add(out, LS_NETWORK_NAME, &used, "%s%s", s->prefix, line->label)) return LS_OK;
    return net_wrong(&line->at, "the name of this layer, with its blocks', is longer than %d bytes",
                     LS_NETWORK_NAME - 1);
}

static ls_status add_op(reader *r, scope *s, net_cursor *c, layer_line *line, const ls_op *op) {
    op_attributes o = {.op = op};
    char name[LS_NETWORK_NAME];
    LS_TRY(read_attributes(r, s, c, line, take_op_attribute, &o));
    LS_TRY(default_inputs(s, line, op));
    LS_TRY(full_name(s, line, name));
    if (++r->layers > LS_NETWORK_LAYERS)
        return net_wrong(&line->at, "a network has at most %d layers", LS_NETWORK_LAYERS);
    set_momentum(r->config, &o);
    const char *named = line->label[0] && s->named ? name : NULL;
    memcpy(o.attrs.bytes, &named, sizeof named);
    ls_value value = ls__graph_add(r->graph, op->kind, line->x, line->count, o.attrs.bytes);
    if (value == LS_NO_VALUE) return wrong_layer(r, &line->at);
    if (op->part == LS_PART_LAYER) set_latest(r, s, value);
    return line->label[0] ? bind(s, line->label, value) : LS_OK;
}

// --- blocks ----------------------------------------------------------------------------------------------------------

static ls_status run(reader *r, scope *s, int first, int end);

static ls_status take_argument(void *user, const net_cursor *at, const char *name, const net_value *value) {
    net_variables *given = user;
    if (given->count == LS_NETWORK_ARGUMENTS)
        return net_wrong(at, "a block has at most %d arguments", LS_NETWORK_ARGUMENTS);
    if (net_get(given, name)) return net_wrong(at, "'%s' is given twice", name);
    return net_set(given, name, value);
}

static int is_argument(const net_variables *variables, int first, const char *name) {
    for (int i = first; i < variables->count; i++)
        if (strcmp(variables->all[i].name, name) == 0) return 1;
    return 0;
}

// The variables of a call: what it gives, and for the others what the block says. `c`: behind the block's name.
static ls_status set_arguments(const layer_line *line, net_cursor c, const net_variables *given, scope *s) {
    char name[LS_NETWORK_NAME];
    int used = 0, of_all = s->variables.count;  // those that every block has
    while (!net_ended(&c)) {
        net_value value;
        net_cursor at = c;
        LS_TRY(net_word(&c, "an argument", name, NULL));
        if (s->variables.count == of_all + LS_NETWORK_ARGUMENTS)
            return net_wrong(&at, "a block has at most %d arguments", LS_NETWORK_ARGUMENTS);
        int initial = net_take(&c, '=');
        if (net_get(&s->variables, name)) return net_wrong(&at, "there is a variable '%s' already", name);
        if (initial) {
            net_skip(&c);
            LS_TRY(net_evaluate(&c, &s->variables, &value));
        }
        const net_value *set = net_get(given, name);
        used += set != NULL;
        if (!set && !initial) return net_wrong(&line->at, "block %s wants %s=...", line->kind, name);
        LS_TRY(net_set(&s->variables, name, set ? set : &value));
    }
    for (int i = 0; i < given->count && used < given->count; i++)
        if (!is_argument(&s->variables, of_all, given->all[i].name))
            return net_wrong(&line->at, "block %s has no argument '%s'", line->kind, given->all[i].name);
    return LS_OK;
}

static ls_status begin_scope(const reader *r, scope *s) {
    const net_value none = {.count = 1}, classes = {.count = 1, .number = {r->classes}};
    LS_TRY(net_set(&s->variables, "channels", &none));
    return r->classes ? net_set(&s->variables, "classes", &classes) : LS_OK;
}

static void end_scope(scope *s) {
    free(s->labels);
    free(s->variables.all);
}

static ls_status run_block(reader *r, scope *s, const scope *caller, const layer_line *line, int block,
                           const net_variables *given) {
    const net_statement *b = &r->program->statements[block];
    net_cursor c = b->from;
    char name[LS_NETWORK_NAME];
    LS_TRY(count_step(r, &c));
    LS_TRY(net_word(&c, "a block's name", name, NULL));
    LS_TRY(begin_scope(r, s));
    LS_TRY(set_arguments(line, c, given, s));
    s->named = caller->named && line->label[0];
    if (s->named) {
        layer_line begin = *line;
        LS_TRY(full_name(caller, &begin, s->prefix));
        size_t used = strlen(s->prefix);
        if (!ls_text_add(s->prefix, sizeof s->prefix, &used, "_")) return net_wrong(&line->at, "this name is too long");
    }
    for (int i = 0; i < line->count; i++) {
        snprintf(name, sizeof name, i ? "in%d" : "in", i + 1);
        LS_TRY(bind(s, name, line->x[i]));
    }
    set_latest(r, s, line->x[0]);
    return run(r, s, block + 1, b->partner);
}

static ls_status call_block(reader *r, scope *s, net_cursor *c, layer_line *line, int block) {
    net_variables given = {.count = 0};
    scope inner = {.latest = LS_NO_VALUE};
    for (int i = 0; i < r->depth; i++)
        if (r->calls[i] == block) return net_wrong(&line->at, "block %s would call itself without end", line->kind);
    if (r->depth == LS_NETWORK_DEPTH) return net_wrong(&line->at, "more than %d blocks in one another", r->depth);
    if (++r->block_calls > LS_NETWORK_CALLS)
        return net_wrong(&line->at, "a network calls blocks at most %d times", LS_NETWORK_CALLS);
    ls_status status = read_attributes(r, s, c, line, take_argument, &given);
    if (status == LS_OK && line->count == 0 && s->latest == LS_NO_VALUE)
        status = net_wrong(&line->at, "there is nothing above that this block could read: begin with 'input 28x28x1'");
    if (status == LS_OK && line->count == 0) line->x[line->count++] = s->latest;
    r->calls[r->depth++] = block;
    if (status == LS_OK) status = run_block(r, &inner, s, line, block, &given);
    r->depth--;
    if (status == LS_OK) set_latest(r, s, inner.latest);
    if (status == LS_OK && line->label[0]) status = bind(s, line->label, inner.latest);
    end_scope(&inner);
    free(given.all);
    return status;
}

static ls_status run_layer(reader *r, scope *s, net_cursor c) {
    layer_line line = {.count = 0};
    LS_TRY(read_kind(s, &c, &line));
    const ls_op *op = ls__op_named(line.kind);
    if (op && op->inputs > 0) return add_op(r, s, &c, &line, op);
    return call_block(r, s, &c, &line, net_find_block(r->program, line.kind));
}

// --- other statements ------------------------------------------------------------------------------------------------

static ls_status run_repeat(reader *r, scope *s, const net_statement *statement, int first) {
    net_cursor c = statement->from;
    net_value value;
    char name[LS_NETWORK_NAME] = "";
    int times, variables = s->variables.count;
    net_skip(&c);
    net_cursor at = c;
    LS_TRY(net_evaluate(&c, &s->variables, &value));
    LS_TRY(net_whole(&at, "how often it is repeated", &value, 0, LS_NETWORK_STEPS, &times));
    if (!net_ended(&c)) {
        net_cursor as = c;
        LS_TRY(net_word(&c, "'as'", name, NULL));
        if (strcmp(name, "as") != 0) return net_wrong(&as, "after the number comes a variable that counts: as i");
        LS_TRY(net_word(&c, "a variable", name, NULL));
        LS_TRY(net_finished(&c));
    }
    for (int i = 1; i <= times && !r->over; i++) {
        LS_TRY(count_step(r, &at));
        value = (net_value){.count = 1, .number = {i}};
        if (name[0]) LS_TRY(net_set(&s->variables, name, &value));
        LS_TRY(run(r, s, first, statement->partner));
        s->variables.count = variables;
    }
    return LS_OK;
}

static ls_status read_shape(net_cursor *c, const scope *s, ls_shape *shape, ls_dtype *dtype) {
    char word[LS_NETWORK_NAME];
    *dtype = LS_DTYPE_F32;
    if (net_ended(c)) return LS_OK;
    net_cursor at = *c;
    if (*c->at >= '0' && *c->at <= '9') {
        net_value value;
        LS_TRY(net_evaluate(c, &s->variables, &value));
        for (int i = 0; i < value.count; i++) {
            int n;
            net_value one = {.count = 1, .number = {value.number[i]}};
            LS_TRY(net_whole(&at, "a side of a sample", &one, 1, INT_MAX, &n));
            shape->dim[shape->ndim++] = n;
        }
        if (net_ended(c)) return LS_OK;
        at = *c;
    }
    LS_TRY(net_word(c, "i32", word, NULL));
    if (strcmp(word, "i32") != 0)
        return net_wrong(&at, "an input is a shape, as 28x28x1, and 'i32' where it is of whole numbers");
    *dtype = LS_DTYPE_I32;
    return net_finished(c);
}

static ls_status run_input(reader *r, scope *s, net_cursor c) {
    layer_line line = {.count = 0};
    ls_shape shape = {0};
    ls_dtype dtype;
    LS_TRY(read_kind(s, &c, &line));
    LS_TRY(read_shape(&c, s, &shape, &dtype));
    int first = ls_graph_input_count(r->graph) == 0;
    const ls_shape *asked = &r->config->input;
    for (int d = 0; first && d < asked->ndim; d++)
        if (asked->dim[d] || d >= shape.ndim) shape.dim[d] = asked->dim[d];
    if (first && asked->ndim) shape.ndim = asked->ndim;
    ls_value value = ls_graph_add_input(r->graph, line.label[0] ? line.label : NULL, shape, dtype);
    if (value == LS_NO_VALUE) return wrong_layer(r, &line.at);
    if (first) set_latest(r, s, value);
    if (first) LS_TRY(bind(s, "in", value));
    return line.label[0] ? bind(s, line.label, value) : LS_OK;
}

static ls_status run_classes(reader *r, scope *s, net_cursor c) {
    net_value value;
    net_skip(&c);
    net_cursor at = c;
    if (r->classes) return net_wrong(&at, "the number of classes is told already");
    LS_TRY(net_evaluate(&c, &s->variables, &value));
    LS_TRY(net_whole(&at, "the number of classes", &value, 1, INT_MAX, &r->classes));
    LS_TRY(net_finished(&c));
    if (r->config->classes > 0) r->classes = r->config->classes;
    value = (net_value){.count = 1, .number = {r->classes}};
    return net_set(&s->variables, "classes", &value);
}

static ls_status run_top(reader *r, scope *s, net_cursor c) {
    LS_TRY(net_finished(&c));
    if (r->top || s->latest == LS_NO_VALUE)
        return net_wrong(&c, "'top' stands once, between the features and the classifier");
    r->top = 1;
    r->over = !r->config->include_top;
    return LS_OK;
}

static ls_status run_output(reader *r, scope *s, net_cursor c) {
    char name[LS_NETWORK_NAME];
    ls_value value;
    net_skip(&c);
    net_cursor at = c, behind = c;
    LS_TRY(net_word(&behind, "a layer", name, NULL));
    int named = net_take(&behind, '=');
    if (named) c = behind;
    LS_TRY(read_value(r, s, &c, &value));
    LS_TRY(net_finished(&c));
    if (ls_graph_add_output(r->graph, value, named ? name : NULL) != LS_OK) return wrong_layer(r, &at);
    r->outputs++;
    return LS_OK;
}

static ls_status run_one(reader *r, scope *s, int i) {
    const net_statement *statement = &r->program->statements[i];
    net_cursor c = statement->from;
    LS_TRY(count_step(r, &c));
    switch (statement->kind) {
    case NET_LAYER: return run_layer(r, s, c);
    case NET_INPUT: return run_input(r, s, c);
    case NET_CLASSES: return run_classes(r, s, c);
    case NET_REPEAT: return run_repeat(r, s, statement, i + 1);
    case NET_TOP: return run_top(r, s, c);
    case NET_OUTPUT: return run_output(r, s, c);
    case NET_FEATURES: r->features = 1; return net_finished(&c);
    default: return LS_OK;
    }
}

static ls_status run(reader *r, scope *s, int first, int end) {
    for (int i = first; i < end && !r->over; i++) {
        net_kind kind = r->program->statements[i].kind;
        LS_TRY(run_one(r, s, i));
        if (kind == NET_BLOCK || kind == NET_REPEAT) i = r->program->statements[i].partner;
    }
    return LS_OK;
}

// --- the network -----------------------------------------------------------------------------------------------------

static ls_status check_config(const char *path, const reader *r, const scope *s) {
    const ls_model_config *c = r->config;
    if (s->latest == LS_NO_VALUE)
        return LS_FAIL(LS_STATUS_BAD_DATA, "%s has no network in it: begin with 'input 28x28x1'", path);
    if (!c->include_top && !r->top)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s does not say where its classifier begins: put a line 'top' before that", path);
    if ((r->features || r->over) && r->outputs)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s: a network without a classifier has one output, its features: leave out 'output'", path);
    return LS_OK;
}

static ls_status finish(const char *path, reader *r, scope *s) {
    ls_graph *g = r->graph;
    LS_TRY(check_config(path, r, s));
    ls_status status;
    if (r->over)
        status = ls_graph_finish_features(g, ls__model_pooled(g, s->latest, r->config, NULL, NULL));
    else if (r->features)
        status = ls_graph_finish_features(g, s->latest);
    else
        status = ls_graph_finish(g, r->outputs ? LS_NO_VALUE : s->latest);
    if (status != LS_OK) return ls__fail_context(status, "%s: ", path);
    int classes = ls_graph_classes(g), asked = r->config->classes;
    if (asked && classes && classes != asked && !r->classes && !ls__graph_has_losses(g))
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s tells %d classes apart, and %d are asked for: write 'classes %d' into it, and 'classes' in "
                       "place of the number in its last layer",
                       path, classes, asked, classes);
    return LS_OK;
}

static ls_status read_program(const char *path, const net_program *program, const ls_model_config *config,
                              ls_graph **out) {
    reader r = {.program = program, .config = config};
    scope s = {.named = 1, .latest = LS_NO_VALUE};
    LS_TRY(ls_graph_create_empty(program->name, NULL, &r.graph));
    ls_status status = begin_scope(&r, &s);
    if (status == LS_OK) status = run(&r, &s, 0, program->count);
    if (status == LS_OK) status = finish(path, &r, &s);
    end_scope(&s);
    if (status != LS_OK) ls_graph_destroy(&r.graph);
    *out = r.graph;
    return status;
}

ls_status ls_network_read(const char *path, const char *text, const ls_model_config *config, ls_graph **out) {
    LS_NEED(out, "out");
    *out = NULL;
    LS_NEED(path, "path");
    LS_NEED(config, "config");
    LS_TRY(ls__model_check_words(path, config));
    net_program program;
    // Numbers have points, whatever the program's language is.
    locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0), before = plain ? uselocale(plain) : (locale_t)0;
    ls_status status = net_load(&program, path, text);
    if (status == LS_OK) status = read_program(path, &program, config, out);
    net_free(&program);
    if (plain) uselocale(before), freelocale(plain);
    return status;
}
