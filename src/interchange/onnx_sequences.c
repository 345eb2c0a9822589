// Layers of ONNX over sequences: tables of vectors, recurrent layers; and our own operations, each
// a function of ONNX operations in the files that onnx_write.c writes.
#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "interchange/onnx.h"

// Whether a value is the states of a recurrent layer that reads forwards, which nothing reads yet.
static ls_node *last_states(const onnx_reader *r, ls_value value) {
    const ls_graph *g = r->graph;
    ls_node *n = &g->nodes[g->values[value].node];
    const ls_recurrent_attrs *a = LS_ATTRS(ls_recurrent_attrs, &n->attrs);
    int recurrent = strcmp(ls_op_name(n->op), "lstm") == 0 || strcmp(ls_op_name(n->op), "gru") == 0;
    if (!recurrent || !a->return_sequences || a->backwards || n->input_count > 1) return NULL;
    for (int i = 0; i < g->node_count; i++)
        for (int k = 0; k < g->nodes[i].input_count; k++)
            if (g->nodes[i].inputs[k] == value) return NULL;
    return n;
}

// One element of an axis: of one that is a 1, or the last step of a recurrent layer, which then gives that alone.
static ls_status pick(onnx_reader *r, onnx_node *n) {
    onnx_value *x, to;
    double index;
    int axis;
    LS_TRY(onnx_data(r, 0, &x));
    LS_TRY(onnx_scalar(r, 1, &index));
    LS_TRY(onnx_axis(r, onnx_int(n, "axis", 0), x->ndim, &axis));
    ls_node *states = x->ndim == 3 && x->axis[axis] == 1 && x->uses == 1 ? last_states(r, x->value) : NULL;
    int last = index == -1 || index + 1 == (double)x->dim[axis];
    if (onnx_in(r, 1)->tensor->ndim || !last || (x->axis[axis] != -1 && !states))
        return onnx_wrong(r->model, n, LS_STATUS_UNSUPPORTED,
                          "of values of the network it picks the last step of a recurrent layer that reads forwards, "
                          "which nothing else reads");
    to = *x;
    to.ndim = 0;
    for (int i = 0; i < x->ndim; i++)
        if (i != axis) to.axis[to.ndim++] = states && x->axis[i] == 2 ? 1 : x->axis[i];
    if (states) {
        ((ls_recurrent_attrs *)(void *)states->attrs.bytes)->return_sequences = 0;
        states->output[0].shape = LS_SHAPE(states->output[0].shape.dim[1]);
    }
    return onnx_give(r, 0, x->value, &to);
}

static ls_status embedding(onnx_reader *r, onnx_node *n) {
    onnx_tensor *table;
    onnx_value *x;
    char name[ONNX_NAME];
    if (onnx_in(r, 0) && !onnx_in(r, 0)->tensor) return pick(r, n);
    if (!onnx_in(r, 0) || onnx_int(n, "axis", 0) != 0)
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

// Direction `d` of the matrix (directions, gates * units, columns) as (columns, gates * units) in our order of gates.
static ls_status begin_matrix(onnx_reader *r, ls_value y, int k, const cell *c, int64_t units, int64_t columns,
                              const onnx_tensor *t, int d, int directions) {
    float *values;
    int64_t rows = c->gates * units;
    if (!t->floats || t->ndim != 3 || t->dim[0] != directions || t->dim[1] != rows || t->dim[2] != columns)
        return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA,
                          "its weights are not of %d directions, %d gates of %lld units and %lld columns", directions,
                          c->gates, (long long)units, (long long)columns);
    LS_TRY(ls_calloc(rows * columns, sizeof *values, &values));
    for (int64_t i = 0; i < columns; i++)
        for (int64_t j = 0; j < rows; j++)
            values[i * rows + j] = t->floats[(d * rows + c->order[j / units] * units + j % units) * columns + i];
    onnx_begin_with(r, y, k, values);
    return LS_OK;
}

static ls_status begin_biases(onnx_reader *r, ls_value y, const cell *c, int64_t units, int d, int directions) {
    onnx_tensor *t;
    int64_t count = c->gates * units;
    float *values;
    LS_TRY(ls_calloc(2 * count, sizeof *values, &values));
    onnx_begin_with(r, y, 2, values);
    if (!onnx_in(r, 3)) return LS_OK;
    LS_TRY(onnx_constant(r, 3, &t));
    if (!t->floats || t->count != 2 * count * directions)
        return onnx_wrong(r->model, r->node, LS_STATUS_BAD_DATA, "its biases are %lld, and not %lld",
                          (long long)t->count, 2 * (long long)count * directions);
    const float *from_file = t->floats + 2 * count * d;
    for (int64_t j = 0; j < 2 * count; j++) {
        int64_t g = j % count, from = c->order[g / units] * units + g % units;
        if (c->biases)
            values[j] = from_file[j / count * count + from];
        else if (j < count)
            values[j] = from_file[from] + from_file[count + from];
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
    int directions = onnx_is(n, "direction", "bidirectional", "forward") ? 2 : 1;
    ls_value way[2];
    for (int d = 0; d < directions; d++) {
        int backwards = d || onnx_is(n, "direction", "reverse", "forward");
        const char *own = onnx_name(r, kernel, name);
        way[d] = c->add(
            r->graph, x->value, mask,
            &(ls_recurrent_attrs){.name = own, .units = (int)units, .return_sequences = all, .backwards = backwards});
        if (way[d] == LS_NO_VALUE) break;
        LS_TRY(begin_matrix(r, way[d], 0, c, units, x->dim[2], kernel, d, directions));
        LS_TRY(begin_matrix(r, way[d], 1, c, units, units, second, d, directions));
        LS_TRY(begin_biases(r, way[d], c, units, d, directions));
    }
    ls_value y = directions == 1 || way[0] == LS_NO_VALUE ? way[0] : ls_concat(r->graph, way, 2, NULL);
    // (steps, directions, batch, units), or (directions, batch, units).
    int apart = directions == 2 ? ONNX_HALVES : -1;
    onnx_value states = {.ndim = 4, .axis = {1, apart, 0, 2}}, last = {.ndim = 3, .axis = {apart, 0, 1}};
    if (batch_first) states = (onnx_value){.ndim = 4, .axis = {0, 1, apart, 2}};
    if (batch_first) last = (onnx_value){.ndim = 3, .axis = {0, apart, 1}};
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
