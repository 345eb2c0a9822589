// Our own operations as functions of ONNX operations, which a model brings along: other programs
// compute them without knowing of us, and the reader finds what they were.
#include <stdlib.h>
#include <string.h>

#include "interchange/onnx_write.h"

// A line is OUTPUTS = OPERATION(INPUTS) ATTRIBUTE=VALUE...; @NAME stands for an attribute of the function.
#define COUNTING_STEPS                                                                                                 \
    "nothing = Constant() value_int=0\n"                                                                               \
    "padding = Equal(tokens,nothing)\n"                                                                                \
    "counts = Not(padding)\n"

// Queries, keys and values (N, heads, T, C / heads) and scores (N, heads, T, T).
#define SCORES                                                                                                         \
    "heads = Constant() value_int=@num_heads\n"                                                                        \
    "rest = Constant() value_ints=[-1]\n"                                                                              \
    "heads_list = Reshape(heads,rest)\n"                                                                               \
    "three = Constant() value_ints=[0,0,3]\n"                                                                          \
    "apart = Concat(three,heads_list,rest) axis=0\n"                                                                   \
    "parts = Reshape(qkv,apart)\n"                                                                                     \
    "turned = Transpose(parts) perm=[2,0,3,1,4]\n"                                                                     \
    "first = Constant() value_int=0\n"                                                                                 \
    "second = Constant() value_int=1\n"                                                                                \
    "third = Constant() value_int=2\n"                                                                                 \
    "query = Gather(turned,first) axis=0\n"                                                                            \
    "key = Gather(turned,second) axis=0\n"                                                                             \
    "value = Gather(turned,third) axis=0\n"                                                                            \
    "key_turned = Transpose(key) perm=[0,1,3,2]\n"                                                                     \
    "products = MatMul(query,key_turned)\n"                                                                            \
    "width = Shape(query) start=3 end=4\n"                                                                             \
    "width_real = Cast(width) to=1\n"                                                                                  \
    "root = Sqrt(width_real)\n"                                                                                        \
    "scores = Div(products,root)\n"
#define CAUSAL                                                                                                         \
    "steps = Shape(qkv) start=1 end=2\n"                                                                               \
    "steps_number = Squeeze(steps)\n"                                                                                  \
    "places = Range(first,steps_number,second)\n"                                                                      \
    "column = Constant() value_ints=[1]\n"                                                                             \
    "places_down = Unsqueeze(places,column)\n"                                                                         \
    "before = LessOrEqual(places,places_down)\n"
#define MASKED                                                                                                         \
    COUNTING_STEPS                                                                                                     \
    "middle = Constant() value_ints=[1,2]\n"                                                                           \
    "there = Unsqueeze(counts,middle)\n"
// Of rows without any step that counts all becomes 0.
#define WHERE(allowed)                                                                                                 \
    "far = Constant() value_float=-1e30\n"                                                                             \
    "none = Constant() value_float=0.0\n"                                                                              \
    "kept = Where(" allowed                                                                                            \
    ",scores,far)\n"                                                                                                   \
    "shares = Softmax(kept) axis=-1\n"                                                                                 \
    "p = Where(" allowed ",shares,none)\n"
#define WEIGHED                                                                                                        \
    "weighed = MatMul(p,value)\n"                                                                                      \
    "back = Transpose(weighed) perm=[0,2,1,3]\n"                                                                       \
    "joined = Constant() value_ints=[0,0,-1]\n"                                                                        \
    "y = Reshape(back,joined)\n"

static const struct {
    const char *name, *inputs, *output, *attribute, *body;
} functions[] = {
    {"SequenceLengths", "tokens", "lengths", NULL,
     COUNTING_STEPS "numbers = Cast(counts) to=6\n"
                    "along = Constant() value_ints=[1]\n"
                    "lengths = ReduceSum(numbers,along) keepdims=0\n"},
    {"MaskedMean", "x,tokens", "y", NULL,
     COUNTING_STEPS "weights = Cast(counts) to=1\n"
                    "last = Constant() value_ints=[2]\n"
                    "weights_up = Unsqueeze(weights,last)\n"
                    "products = Mul(x,weights_up)\n"
                    "along = Constant() value_ints=[1]\n"
                    "sums = ReduceSum(products,along) keepdims=0\n"
                    "number = ReduceSum(weights_up,along) keepdims=0\n"
                    "one = Constant() value_float=1.0\n"
                    "divisor = Max(number,one)\n"
                    "y = Div(sums,divisor)\n"},
    {"PositionEmbedding", "x,table", "y", NULL,
     "steps = Shape(x) start=1 end=2\n"
     "begin = Constant() value_ints=[0]\n"
     "rows = Slice(table,begin,steps)\n"
     "y = Add(x,rows)\n"},
    {"Attention", "qkv", "y", "num_heads", SCORES "p = Softmax(scores) axis=-1\n" WEIGHED},
    {"CausalAttention", "qkv", "y", "num_heads", SCORES CAUSAL WHERE("before") WEIGHED},
    {"MaskedAttention", "qkv,tokens", "y", "num_heads", SCORES MASKED WHERE("there") WEIGHED},
    {"MaskedCausalAttention", "qkv,tokens", "y", "num_heads",
     SCORES CAUSAL MASKED "both = And(before,there)\n" WHERE("both") WEIGHED},
    {"NormalSample", "code,noise", "y", NULL,
     "mean,log_variance = Split(code) axis=-1 num_outputs=2\n"
     "half = Constant() value_float=0.5\n"
     "log_deviation = Mul(log_variance,half)\n"
     "deviation = Exp(log_deviation)\n"
     "drawn = Mul(deviation,noise)\n"
     "y = Add(mean,drawn)\n"},
    {"Normalization", "x,mean,variance", "y", NULL,
     "deviation = Sqrt(variance)\n"
     "least = Constant() value_float=1e-7\n"
     "divisor = Max(deviation,least)\n"
     "centred = Sub(x,mean)\n"
     "y = Div(centred,divisor)\n"},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

// Names between commas, each as a field.
static void put_names(ls_pb_out *out, int field, const char *names, size_t size) {
    for (const char *end = names + size; names < end;) {
        const char *comma = memchr(names, ',', (size_t)(end - names));
        size_t n = (size_t)((comma ? comma : end) - names);
        ls_pb_put_bytes(out, field, names, (int64_t)n);
        names += n + 1;
    }
}

// "perm=[2,0,1]", "to=1", "value_float=0.5", "value_int=@num_heads".
static void put_attribute(ls_pb_out *out, const char *text, size_t size) {
    const char *equals = memchr(text, '=', size), *value = equals + 1, *end = text + size;
    int64_t since = out->size;
    ls_pb_put_bytes(out, 1, text, equals - text);
    int list = *value == '[', real = !list && memchr(value, '.', (size_t)(end - value)) != NULL;
    real |= !list && memchr(value, 'e', (size_t)(end - value)) != NULL && *value != '@';
    if (*value == '@') {
        ls_pb_put(out, 20, 2);
        ls_pb_put_bytes(out, 21, value + 1, end - value - 1);
    } else if (real) {
        ls_pb_put_float(out, 2, strtof(value, NULL));
        ls_pb_put(out, 20, 1);
    } else if (!list) {
        ls_pb_put(out, 3, strtoll(value, NULL, 10));
        ls_pb_put(out, 20, 2);
    } else {
        for (char *next = (char *)value; *next != ']';) ls_pb_put(out, 8, strtoll(next + 1, &next, 10));
        ls_pb_put(out, 20, 7);
    }
    ls_pb_wrap(out, 5, since);
}

static void put_line(ls_pb_out *out, const char *line, size_t size) {
    int64_t since = out->size;
    const char *end = line + size, *equals = strstr(line, " = "), *open = memchr(line, '(', size);
    const char *close = memchr(line, ')', size);
    put_names(out, 1, open + 1, (size_t)(close - open - 1));
    put_names(out, 2, line, (size_t)(equals - line));
    ls_pb_put_bytes(out, 4, equals + 3, open - equals - 3);
    for (const char *at = close + 1; at < end;) {
        const char *next = memchr(at + 1, ' ', (size_t)(end - at - 1));
        size_t n = (size_t)((next ? next : end) - at - 1);
        put_attribute(out, at + 1, n);
        at += n + 1;
    }
    ls_pb_wrap(out, 7, since);
}

static void put_opset(ls_pb_out *out, int field, const char *domain, int version) {
    int64_t since = out->size;
    ls_pb_put_text(out, 1, domain);
    ls_pb_put(out, 2, version);
    ls_pb_wrap(out, field, since);
}

int onnx_use_function(const char *name) {
    for (int i = 0; i < FUNCTIONS; i++)
        if (strcmp(functions[i].name, name) == 0) return 1 << i;
    return 0;
}

void onnx_put_functions(ls_pb_out *out, int used) {
    put_opset(out, 8, "", ONNX_WRITTEN);
    if (used) put_opset(out, 8, ONNX_OWN_DOMAIN, 1);
    for (int i = 0; i < FUNCTIONS; i++) {
        int64_t since = out->size;
        if (!(used >> i & 1)) continue;
        ls_pb_put_text(out, 1, functions[i].name);
        put_names(out, 4, functions[i].inputs, strlen(functions[i].inputs));
        ls_pb_put_text(out, 5, functions[i].output);
        if (functions[i].attribute) ls_pb_put_text(out, 6, functions[i].attribute);
        for (const char *line = functions[i].body; *line; line = strchr(line, '\n') + 1)
            put_line(out, line, strcspn(line, "\n"));
        put_opset(out, 9, "", ONNX_WRITTEN);
        ls_pb_put_text(out, 10, ONNX_OWN_DOMAIN);
        ls_pb_wrap(out, 25, since);
    }
}
