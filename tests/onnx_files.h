// ONNX models for tests, made field by field: onnx/onnx.proto says what the numbers are.
#ifndef LS_TESTS_ONNX_FILES_H
#define LS_TESTS_ONNX_FILES_H

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/protobuf.h"

// Words between commas, each as a text field.
static inline void onnx_words(ls_pb_out *m, int field, const char *words) {
    for (size_t n; *words; words += n + (words[n] != 0)) {
        n = strcspn(words, ",");
        ls_pb_put_bytes(m, field, words, (int64_t)n);
    }
}

// "axis=1 alpha=0.5 pads=1,1,1,1 mode=nearest"
static inline void onnx_attributes(ls_pb_out *m, const char *text) {
    while (*text) {
        size_t n = strcspn(text, " "), name = strcspn(text, "=");
        const char *value = text + name + 1;
        int64_t since = m->size;
        ls_pb_put_bytes(m, 1, text, (int64_t)name);
        if (isalpha((unsigned char)*value)) {
            ls_pb_put_bytes(m, 4, value, (int64_t)(n - name - 1));
        } else if (memchr(text, ',', n)) {
            char *next = (char *)value - 1;
            do ls_pb_put(m, 8, strtoll(next + 1, &next, 10));
            while (*next == ',');
        } else if (memchr(value, '.', n - name - 1)) {
            ls_pb_put_float(m, 2, strtof(value, NULL));
        } else {
            ls_pb_put(m, 3, strtoll(value, NULL, 10));
        }
        ls_pb_wrap(m, 5, since);
        text += n + (text[n] == ' ');
    }
}

static inline void onnx_test_node(ls_pb_out *g, const char *op, const char *inputs, const char *outputs,
                                  const char *attributes) {
    char name[64];
    int64_t since = g->size;
    snprintf(name, sizeof name, "%.30s_%.20s", op, outputs);
    onnx_words(g, 1, inputs);
    onnx_words(g, 2, outputs);
    ls_pb_put_text(g, 3, name);
    ls_pb_put_text(g, 4, op);
    onnx_attributes(g, attributes);
    ls_pb_wrap(g, 1, since);
}

// `dims` "3,2", "" for a scalar; type 1: floats, 7: 64-bit whole numbers.
static inline void onnx_test_tensor(ls_pb_out *g, const char *name, int type, const char *dims, const void *values,
                                    int64_t bytes) {
    int64_t since = g->size;
    for (char *next = (char *)dims; *next; next += *next == ',') ls_pb_put(g, 1, strtoll(next, &next, 10));
    ls_pb_put(g, 2, type);
    ls_pb_put_text(g, 8, name);
    ls_pb_put_bytes(g, 9, values, bytes);
    ls_pb_wrap(g, 5, since);
}

// Field 11: an input, 12: an output. -1 stands for a dimension that is open.
static inline void onnx_test_port(ls_pb_out *g, int field, const char *name, int type, const char *dims) {
    int64_t since = g->size;
    ls_pb_put_text(g, 1, name);
    int64_t tensor = g->size;
    ls_pb_put(g, 1, type);
    int64_t shape = g->size;
    for (char *next = (char *)dims; *next; next += *next == ',') {
        int64_t dim = g->size, n = strtoll(next, &next, 10);
        if (n < 0)
            ls_pb_put_text(g, 2, "open");
        else
            ls_pb_put(g, 1, n);
        ls_pb_wrap(g, 1, dim);
    }
    ls_pb_wrap(g, 2, shape);
    ls_pb_wrap(g, 1, tensor);
    ls_pb_wrap(g, 2, tensor);
    ls_pb_wrap(g, field, since);
}

// Turns a GraphProto into a model of an opset.
static inline void onnx_test_model(ls_pb_out *g, int opset) {
    ls_pb_wrap(g, 7, 0);
    ls_pb_put(g, 1, 8);
    int64_t since = g->size;
    ls_pb_put_text(g, 1, "");
    ls_pb_put(g, 2, opset);
    ls_pb_wrap(g, 8, since);
}

#endif
