// What stands behind an attribute's "=": numbers with arithmetic, lists of them, words.
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"
#include "base/text.h"
#include "models/network.h"

static int is_digit(char c) { return c >= '0' && c <= '9'; }
static int is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

// --- variables -------------------------------------------------------------------------------------------------------

ls_status net_set(net_variables *v, const char *name, const net_value *value) {
    if (v->count == v->room) {
        int room = v->room ? 2 * v->room : 8;
        net_variable *grown = realloc(v->all, (size_t)room * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the variables of a network's text");
        v->all = grown;
        v->room = room;
    }
    net_variable *new = &v->all[v->count++];
    new->value = *value;
    snprintf(new->name, sizeof new->name, "%s", name);
    return LS_OK;
}

const net_value *net_get(const net_variables *v, const char *name) {
    for (int i = v->count - 1; i >= 0; i--)
        if (strcmp(v->all[i].name, name) == 0) return &v->all[i].value;
    return NULL;
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

typedef struct terms {
    net_cursor *c;
    const net_variables *variables;
    int depth;
} terms;

static ls_status sum(terms *t, double *out);

// Digits, a point, an exponent: what strtod takes beside that, as 0x10 and nan, is none.
static ls_status number(net_cursor *c, double *out) {
    const char *p = c->at;
    char digits[64];
    while (is_digit(*p)) p++;
    if (*p == '.')
        for (p++; is_digit(*p);) p++;
    const char *exponent = p + 1 + (p[0] && (p[1] == '+' || p[1] == '-'));
    if ((*p == 'e' || *p == 'E') && is_digit(*exponent))
        for (p = exponent; is_digit(*p);) p++;
    if (p - c->at >= (int)sizeof digits) return net_wrong(c, "this number has too many digits");
    snprintf(digits, sizeof digits, "%.*s", (int)(p - c->at), c->at);
    *out = strtod(digits, NULL);
    c->at = p;
    return LS_OK;
}

static ls_status variable(terms *t, double *out) {
    char name[LS_NETWORK_NAME];
    const char *p = t->c->at;
    while (is_letter(*p) || is_digit(*p)) p++;
    snprintf(name, sizeof name, "%.*s", (int)(p - t->c->at), t->c->at);
    const net_value *value = net_get(t->variables, name);
    if (!value) return net_wrong(t->c, "there is no variable '%s' here", name);
    if (value->count != 1) return net_wrong(t->c, "'%s' is not a single number: nothing is worked out with it", name);
    *out = value->number[0];
    t->c->at = p;
    return LS_OK;
}

static ls_status factor(terms *t, double *out) {
    net_cursor *c = t->c;
    ls_status status = LS_OK;
    if (t->depth >= LS_NETWORK_DEPTH) return net_wrong(c, "more than %d brackets in one another", LS_NETWORK_DEPTH);
    if (is_digit(*c->at) || (*c->at == '.' && is_digit(c->at[1]))) return number(c, out);
    if (is_letter(*c->at)) return variable(t, out);
    if (*c->at != '-' && *c->at != '(')
        return net_wrong(c, "a number, a variable or a word belongs here, without blanks: 64, 3x3, 4*filters, relu");
    t->depth++;
    if (*c->at++ == '-') {
        status = factor(t, out);
        *out = -*out;
    } else {
        status = sum(t, out);
        if (status == LS_OK && *c->at++ != ')') {
            c->at--;
            return net_wrong(c, "a bracket is not closed here");
        }
    }
    t->depth--;
    return status;
}

static ls_status product(terms *t, double *out) {
    double right = 1;
    LS_TRY(factor(t, out));
    while (*t->c->at == '*' || *t->c->at == '/') {
        net_cursor at = *t->c;
        char sign = *t->c->at++;
        LS_TRY(factor(t, &right));
        if (sign == '/' && right == 0) return net_wrong(&at, "this divides by 0");
        *out = sign == '*' ? *out * right : *out / right;
    }
    return LS_OK;
}

static ls_status sum(terms *t, double *out) {
    double right = 0;
    LS_TRY(product(t, out));
    while (*t->c->at == '+' || *t->c->at == '-') {
        char sign = *t->c->at++;
        LS_TRY(product(t, &right));
        *out += sign == '+' ? right : -right;
    }
    return LS_OK;
}

static ls_status finite_sum(terms *t, double *out) {
    net_cursor at = *t->c;
    LS_TRY(sum(t, out));
    return isfinite(*out) ? LS_OK : net_wrong(&at, "this number is larger than any that can be computed with");
}

// --- values ----------------------------------------------------------------------------------------------------------

// A word is one that is no variable, and nothing is worked out with.
static int take_word(net_cursor *c, const net_variables *variables, net_value *out) {
    const char *p = c->at;
    while (is_letter(*p) || (p > c->at && is_digit(*p))) p++;
    if (p == c->at || p - c->at >= LS_NETWORK_NAME || (*p && *p != ' ' && *p != '\t' && *p != '#')) return 0;
    *out = (net_value){.count = 0};
    snprintf(out->word, sizeof out->word, "%.*s", (int)(p - c->at), c->at);
    const net_value *value = net_get(variables, out->word);
    if (value) *out = *value;
    c->at = p;
    return 1;
}

ls_status net_evaluate(net_cursor *c, const net_variables *variables, net_value *out) {
    terms t = {.c = c, .variables = variables};
    if (take_word(c, variables, out)) return LS_OK;
    *out = (net_value){.count = 0};
    do {
        if (out->count == 4) return net_wrong(c, "more than 4 numbers in a list");
        LS_TRY(finite_sum(&t, &out->number[out->count]));
        out->count++;
    } while ((*c->at == 'x' || *c->at == ',') && c->at++);
    if (*c->at && *c->at != ' ' && *c->at != '\t' && *c->at != '#')
        return net_wrong(c, "'%.1s' does not belong in a number", c->at);
    return LS_OK;
}

ls_status net_whole(const net_cursor *at, const char *what, const net_value *value, double least, double most,
                    int *out) {
    if (value->count != 1) return net_wrong(at, "%s is one whole number", what);
    double x = value->number[0];
    if (x != floor(x)) return net_wrong(at, "%s is a whole number, and this is %.10g", what, x);
    if (x < least || x > most)
        return net_wrong(at, "%s lies between %.0f and %.0f, not at %.10g", what, least, most, x);
    *out = (int)x;
    return LS_OK;
}

ls_status net_fill_in(const net_cursor *c, const char *word, const net_variables *variables,
                      char out[LS_NETWORK_NAME]) {
    size_t used = 0;
    out[0] = 0;
    for (const char *p = word; *p;) {
        int n = 0, fits;
        if (*p != '{') {
            fits = ls_text_add(out, LS_NETWORK_NAME, &used, "%c", *p++);
        } else {
            net_cursor inside = {c->file, c->line, p + 1, p + 1};
            terms t = {.c = &inside, .variables = variables};
            net_value value = {.count = 1};
            if (sum(&t, &value.number[0]) != LS_OK || *inside.at != '}')
                return net_wrong(c, "what stands in braces is worked out from variables, as in conv{i}; '%s' is not",
                                 word);
            LS_TRY(net_whole(c, "what stands in braces", &value, INT_MIN, INT_MAX, &n));
            fits = ls_text_add(out, LS_NETWORK_NAME, &used, "%d", n);
            p = inside.at + 1;
        }
        if (!fits) return net_wrong(c, "this name is longer than %d bytes", LS_NETWORK_NAME - 1);
    }
    return LS_OK;
}

// --- attributes ------------------------------------------------------------------------------------------------------

static const ls_attr *find_attribute(const ls_op *op, const char *name) {
    for (const ls_attr *row = op->attrs; row && row->name; row++)
        if (strcmp(row->name, name) == 0) return row;
    return NULL;
}

static ls_status no_attribute(const net_cursor *at, const ls_op *op, const char *name) {
    const char *names[32];
    char list[512] = "";
    size_t used = 0;
    int count = 0;
    for (const ls_attr *row = op->attrs; row && row->name && count < 32; row++) {
        ls_text_add(list, sizeof list, &used, "%s%s", used ? ", " : "", row->name);
        names[count++] = row->name;
    }
    if (count == 0) return net_wrong(at, "%s has no attributes, so no '%s'", ls_op_name(op->kind), name);
    const char *near = ls_nearest(name, names, count);
    return net_wrong(at, "%s has no attribute '%s'%s%s%s; it has %s", ls_op_name(op->kind), name,
                     near ? " (did you mean " : "", near ? near : "", near ? "?)" : "", list);
}

static ls_status set_choice(const net_cursor *at, const ls_attr *row, const net_value *value, ls_attrs *attrs) {
    char list[512] = "";
    size_t used = 0;
    for (int i = 0; row->choices[i]; i++) {
        ls_text_add(list, sizeof list, &used, "%s%s", used ? ", " : "", row->choices[i]);
        if (value->count || strcmp(row->choices[i], value->word) != 0) continue;
        ls__attr_set(row, attrs, 0, i);
        return LS_OK;
    }
    if (value->count) return net_wrong(at, "%s is a word: %s", row->name, list);
    return net_wrong(at, "%s cannot be '%s'; there are %s", row->name, value->word, list);
}

static ls_status check_number(const net_cursor *at, const ls_attr *row, double x) {
    int real = row->type == LS_ATTR_FLOAT || row->type == LS_ATTR_REAL;
    if (real && fabs(x) <= (row->type == LS_ATTR_FLOAT ? (double)FLT_MAX : DBL_MAX)) return LS_OK;
    if (!real && x == floor(x) && fabs(x) <= INT_MAX) return LS_OK;
    return net_wrong(at, "%s is a %snumber, and %.10g is none of those there are", row->name, real ? "" : "whole ", x);
}

static ls_status set_numbers(const net_cursor *at, const ls_attr *row, const net_value *value, ls_attrs *attrs) {
    int count = ls__attr_count(row), all_zero = 1;
    // One number is for both, or for all sides; a shape has as many as it has dimensions.
    int single = value->count == 1 && row->type != LS_ATTR_DIMS;
    if (value->count > count || (value->count < count && !single && row->type != LS_ATTR_DIMS))
        return net_wrong(at, "%s takes %d number%s, and %d are given", row->name, count, count == 1 ? "" : "s",
                         value->count);
    for (int i = 0; i < count && (single || i < value->count); i++) {
        double x = value->number[single ? 0 : i];
        LS_TRY(check_number(at, row, x));
        all_zero &= x == 0;
        ls__attr_set(row, attrs, i, x);
    }
    if (all_zero && row->initial != 0)
        return net_wrong(at, "%s is never 0; without it it is %.10g", row->name, row->initial);
    return LS_OK;
}

ls_status net_set_attribute(const net_cursor *at, const ls_op *op, const char *name, const net_value *value,
                            ls_attrs *attrs) {
    const ls_attr *row = find_attribute(op, name);
    if (!row) return no_attribute(at, op, name);
    if (row->choices) return set_choice(at, row, value, attrs);
    if (value->count == 0)
        return net_wrong(at, "%s is a number, and '%s' is neither one nor a variable", name, value->word);
    return set_numbers(at, row, value, attrs);
}
