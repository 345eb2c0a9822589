// Layers of ONNX over sequences: tables of vectors, recurrent layers; and our own operations, each
// a function of ONNX operations in the files that onnx_write.c writes.
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "interchange/onnx.h"

static ls_status embedding(onnx_reader *r, onnx_node *n) {
    onnx_tensor *table;
    onnx_value *x;
    char name[ONNX_NAME];
    if (!onnx_in(r, 0) || !onnx_in(r, 0)->tensor || onnx_int(n, "axis", 0) != 0)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "rows are picked from constants, along axis 0");
    LS_TRY(onnx_constant(r, 0, &table));
    LS_TRY(onnx_data(r, 1, &x));
    if (table->ndim != 2 || table->dim[0] > INT_MAX || table->dim[1] > INT_MAX || !onnx_is_plain(x))
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "a table of %d dimensions", table->ndim);
    ls_value y =
        ls_embedding(r->graph, x->value,
                     &(ls_embedding_attrs){
                         .name = onnx_name(r, table, name), .rows = (int)table->dim[0], .width = (int)table->dim[1]});
    LS_TRY(onnx_begin(r, y, 0, table, NULL));
    return onnx_give_plain(r, 0, y);
}

// --- recurrent layers ------------------------------------------------------------------------------------------------

typedef struct cell {
    int gates, order[4];  // where ONNX has our gates: of an LSTM input, output, forget, cell
    int biases;           // of the input and of the state apart
    ls_value (*add)(ls_graph *graph, ls_value x, ls_value mask, const ls_recurrent_attrs *attrs);
} cell;

static const cell lstm_cell = {4, {0, 2, 3, 1}, 0, ls_lstm}, gru_cell = {3, {0, 1, 2}, 1, ls_gru};

// The matrix (1, gates * units, columns) as (columns, gates * units) in our order of gates.
static ls_status begin_matrix(onnx_reader *r, ls_value y, int k, const cell *c, int64_t units, int64_t columns,
                              const onnx_tensor *t) {
    float *values;
    int64_t rows = c->gates * units;
    if (!t->floats || t->ndim != 3 || t->dim[0] != 1 || t->dim[1] != rows || t->dim[2] != columns)
        return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA,
                          "its weights are not of one direction, %d gates of %lld units and %lld columns", c->gates,
                          (long long)units, (long long)columns);
    LS_TRY(ls_calloc(rows * columns, sizeof *values, &values));
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = 0; j < rows; j++)
            values[i * rows + j] = t->floats[(c->order[j / units] * units + j % units) * columns + i];
    onnx_begin_with(r, y, k, values);
    return LS_OK;
}

static ls_status begin_biases(onnx_reader *r, ls_value y, const cell *c, int64_t units) {
    onnx_tensor *t;
    int64_t count = c->gates * units;
    float *values;
    LS_TRY(ls_calloc(2 * count, sizeof *values, &values));
    onnx_begin_with(r, y, 2, values);
    if (!onnx_in(r, 3)) return LS_OK;
    LS_TRY(onnx_constant(r, 3, &t));
    if (!t->floats || t->count != 2 * count)
        return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA, "its biases are %lld, and not %lld",
                          (long long)t->count, 2 * (long long)count);
    for (int64_t j = 0; j < 2 * count; j++) {
        int64_t g = j % count, from = c->order[g / units] * units + g % units;
        if (c->biases)
            values[j] = t->floats[j / count * count + from];
        else if (j < count)
            values[j] = t->floats[from] + t->floats[count + from];
    }
    return LS_OK;
}

// That a layer is as all are but for what attributes of ours say: no other activations, no state to begin with.
static ls_status check_recurrent(onnx_reader *r, const cell *c) {
    const onnx_node *n = r->node;
    const char *wrong = NULL;
    for (int k = 5; k < 7; k++) {
        onnx_tensor *t;
        if (!onnx_in(r, k)) continue;
        LS_TRY(onnx_constant(r, k, &t));
        for (int64_t i = 0; i < t->count; i++)
            if (!t->floats || t->floats[i] != 0) wrong = "it does not begin with a state of zeros";
    }
    if (onnx_in(r, 7)) wrong = "it has peepholes";
    if (onnx_find(n, "activations") || onnx_find(n, "clip") || onnx_int(n, "input_forget", 0))
        wrong = "it has activations, a clip or an input_forget of its own";
    if (onnx_is(n, "direction", "bidirectional", "forward"))
        wrong = "it reads in both directions: two layers of one each are read";
    if (c->biases && !onnx_int(n, "linear_before_reset", 0))
        wrong = "its reset gate acts before the recurrent product: linear_before_reset=1 is read";
    if (onnx_out(r, 0) && onnx_out(r, 0)->uses && onnx_out(r, 1) && onnx_out(r, 1)->uses)
        wrong = "both its states after all steps and the last are used";
    if (onnx_out(r, 2) && onnx_out(r, 2)->uses) wrong = "its cells are used";
    return wrong ? onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "%s", wrong) : LS_OK;
}

// What the lengths of sequences were made of.
static ls_status find_mask(onnx_reader *r, ls_value *mask) {
    const onnx_value *lengths = onnx_in(r, 4);
    *mask = LS_NO_VALUE;
    if (!lengths) return LS_OK;
    const onnx_node *from = lengths->maker >= 0 ? &r->model->nodes[lengths->maker] : NULL;
    if (!from || strcmp(from->domain, ONNX_OWN_DOMAIN) != 0 || strcmp(from->op, "SequenceLengths") != 0)
        return onnx_wrong(r->model, r->node, LS_STATUS_UNSUPPORTED,
                          "its sequences are of different lengths, which are read from " ONNX_OWN_DOMAIN
                          ".SequenceLengths alone");
    *mask = lengths->value;
    return LS_OK;
}

static ls_status recurrent(onnx_reader *r, onnx_node *n, const cell *c) {
    onnx_value *x;
    onnx_tensor *kernel, *second;
    ls_value mask;
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_constant(r, 1, &kernel));
    LS_TRY(onnx_constant(r, 2, &second));
    LS_TRY(check_recurrent(r, c));
    LS_TRY(find_mask(r, &mask));
    int64_t units = onnx_int(n, "hidden_size", second->ndim == 3 ? second->dim[2] : 0);
    int batch_first = onnx_int(n, "layout", 0) != 0;
    if (x->ndim != 3 || x->axis[0] != !batch_first || x->axis[1] != batch_first || x->axis[2] != 2 || units < 1 ||
        units > 1 << 24)
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED, "its input is no sequence (steps, batch, channels)");
    int all = onnx_out(r, 0) && onnx_out(r, 0)->uses;
    ls_value y = c->add(r->graph, x->value, mask,
                        &(ls_recurrent_attrs){.name = onnx_name(r, kernel, name),
                                              .units = (int)units,
                                              .return_sequences = all,
                                              .backwards = onnx_is(n, "direction", "reverse", "forward")});
    if (y != LS_NO_VALUE) {
        LS_TRY(begin_matrix(r, y, 0, c, units, x->dim[2], kernel));
        LS_TRY(begin_matrix(r, y, 1, c, units, units, second));
        LS_TRY(begin_biases(r, y, c, units));
    }
    // (steps, directions, batch, units), or (directions, batch, units).
    onnx_value states = {.ndim = 4, .axis = {1, -1, 0, 2}}, last = {.ndim = 3, .axis = {-1, 0, 1}};
    if (batch_first) states = (onnx_value){.ndim = 4, .axis = {0, 1, -1, 2}};
    if (batch_first) last = (onnx_value){.ndim = 3, .axis = {0, -1, 1}};
    return onnx_give(r, all ? 0 : 1, y, all ? &states : &last);
}

static ls_status lstm(onnx_reader *r, onnx_node *n) { return recurrent(r, n, &lstm_cell); }
static ls_status gru(onnx_reader *r, onnx_node *n) { return recurrent(r, n, &gru_cell); }

// --- our own ---------------------------------------------------------------------------------------------------------

static ls_status two(onnx_reader *r, onnx_value **x, onnx_value **second) {
    LS_TRY(onnx_data(r, 0, x));
    return onnx_data(r, 1, second);
}

static ls_status lengths(onnx_reader *r, onnx_node *n) {
    onnx_value *tokens, *out = onnx_out(r, 0);
    LS_TRY(onnx_data(r, 0, &tokens));
    if (out) out->value = tokens->value, out->ndim = 1, out->dim[0] = ONNX_BATCH;
    return LS_OK;
}

static ls_status masked_mean(onnx_reader *r, onnx_node *n) {
    onnx_value *x, *tokens;
    char name[ONNX_NAME];
    LS_TRY(two(r, &x, &tokens));
    return onnx_give_plain(
        r, 0, ls_global_average_pool1d_masked(r->graph, x->value, tokens->value, onnx_name(r, NULL, name)));
}

static ls_status positions(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *table;
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_constant(r, 1, &table));
    int64_t rows = table->ndim == 2 && table->dim[0] <= INT_MAX ? table->dim[0] : 0;
    ls_value y = ls_position_embedding(
        r->graph, x->value, &(ls_position_embedding_attrs){.name = onnx_name(r, table, name), .rows = (int)rows});
    LS_TRY(onnx_begin(r, y, 0, table, NULL));
    return onnx_give_plain(r, 0, y);
}

static ls_status attention(onnx_reader *r, onnx_node *n) {
    onnx_value *x, *tokens;
    char name[ONNX_NAME];
    int64_t heads = onnx_int(n, "num_heads", 1);
    LS_TRY(onnx_data(r, 0, &x));
    ls_value mask = LS_NO_VALUE;
    if (onnx_in(r, 1)) {
        LS_TRY(onnx_data(r, 1, &tokens));
        mask = tokens->value;
    }
    if (heads < 1 || heads > 1 << 20 || !onnx_is_plain(x))
        return onnx_wrong(r->model, n, LS_STATUS_BAD_DATA, "%lld heads, or no sequence of vectors", (long long)heads);
    return onnx_give_plain(r, 0,
                           ls_attention(r->graph, x->value, mask,
                                        &(ls_attention_attrs){.name = onnx_name(r, NULL, name),
                                                              .heads = (int)heads,
                                                              .causal = strstr(n->op, "Causal") != NULL}));
}

static ls_status normal_sample(onnx_reader *r, onnx_node *n) {
    onnx_value *code, *noise;
    char name[ONNX_NAME];
    LS_TRY(two(r, &code, &noise));
    return onnx_give(r, 0, ls_normal_sample(r->graph, code->value, noise->value, onnx_name(r, NULL, name)), code);
}

static ls_status normalize(onnx_reader *r, onnx_node *n) {
    onnx_value *x;
    onnx_tensor *t;
    char name[ONNX_NAME];
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_constant(r, 1, &t));
    ls_value y = ls_normalize(r->graph, x->value, onnx_name(r, t, name));
    for (int k = 0; k < 2; k++) {
        LS_TRY(onnx_constant(r, k + 1, &t));
        LS_TRY(onnx_begin(r, y, k, t, NULL));
    }
    return onnx_give(r, 0, y, x);
}

onnx_builder onnx_find_sequence(const onnx_node *n) {
    static const struct {
        const char *domain, *op;
        onnx_builder build;
    } rows[] = {{"", "Gather", embedding},
                {"", "LSTM", lstm},
                {"", "GRU", gru},
                {ONNX_OWN_DOMAIN, "SequenceLengths", lengths},
                {ONNX_OWN_DOMAIN, "MaskedMean", masked_mean},
                {ONNX_OWN_DOMAIN, "PositionEmbedding", positions},
                {ONNX_OWN_DOMAIN, "Attention", attention},
                {ONNX_OWN_DOMAIN, "CausalAttention", attention},
                {ONNX_OWN_DOMAIN, "MaskedAttention", attention},
                {ONNX_OWN_DOMAIN, "MaskedCausalAttention", attention},
                {ONNX_OWN_DOMAIN, "NormalSample", normal_sample},
                {ONNX_OWN_DOMAIN, "Normalization", normalize}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(n->op, rows[i].op) == 0 && strcmp(n->domain, rows[i].domain) == 0) return rows[i].build;
    return NULL;
}
