// Recurrent layers over an embedding: on the cpu device their products are made of the table's rows (kernel.h: table_rows). Gradients of all
// parameters against the reference device, which knows nothing of that; and the same bits with two threads, and where
// activations are made again.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "golden_check.h"
#include "graph/graph.h"
#include "graph/plan_impl.h"
#include "graph/runner.h"
#include "ok.h"
#include "plan_rig.h"

enum { BATCH = 3, LENGTH = 14, WIDTH = 5, UNITS = 18, MOST = 8192 };

typedef struct network {
    int gru, both_ways, masked, shared, rows;  // shared: the dense layer reads the embedding, too; rows: of the table
} network;

static ls_value layer(const network *n, ls_graph *g, ls_value x, ls_value tokens, const char *name, int backwards) {
    const ls_recurrent_attrs a = {.name = name, .units = UNITS, .return_sequences = 1, .backwards = backwards};
    return (n->gru ? ls_gru : ls_lstm)(g, x, n->masked ? tokens : LS_NO_VALUE, &a);
}

// Scores of each position's next token, by one layer or two, in one direction or both; both read the one embedding.
static ls_graph *build(const network *n) {
    ls_graph *g;
    OK(ls_graph_create_empty("tables", NULL, &g));
    ls_value tokens = ls_graph_add_input(g, "tokens", LS_SHAPE(LENGTH), LS_DTYPE_I32);
    ls_value x = ls_embedding(g, tokens, &(ls_embedding_attrs){.rows = n->rows, .width = WIDTH});
    ls_value y = layer(n, g, x, tokens, "ahead", 0);
    if (n->both_ways) y = ls_concat(g, (ls_value[]){y, layer(n, g, x, tokens, "back", 1)}, 2, NULL);
    if (n->shared) y = ls_concat(g, (ls_value[]){y, x}, 2, NULL);
    ls_value logits = ls_dense(g, y, &(ls_dense_attrs){.units = n->rows});
    ls_softmax_cross_entropy(g, logits, ls_graph_add_input(g, "targets", LS_SHAPE(LENGTH), LS_DTYPE_I32), NULL);
    OK(ls_graph_finish(g, logits));
    return g;
}

typedef struct result {
    double loss;
    int tables;  // kernels that were handed numbers
    int64_t count;
    float gradient[MOST];
} result;

static int count_tables(const ls_plan *p) {
    int tables = 0;
    for (int i = 0; i < p->step_count; i++) tables += p->steps[i].arg[LS_ARG_NUMBERS].place != LS_PLACE_NONE;
    return tables;
}

// Token 1 does not come, and rows 2 and 3 of the table are equal: what is told of one must not go to the other.
static int32_t token(const network *n, int i) {
    int32_t t = (int32_t)(draw(7, 1, i) % (uint32_t)n->rows);
    return t == 1 ? 0 : t;
}

static void set_weights(ls_runner *run, const ls_store *store) {
    float w[MOST];
    for (int p = 0; p < store->count; p++) {
        ls_shape shape = store->params[p].shape;
        assert_true(ls_shape_count(shape) <= MOST);
        for (int64_t i = 0; i < ls_shape_count(shape); i++) w[i] = 0.4f * (float)draw_signed((uint32_t)p, 3, i);
        if (strstr(store->params[p].name, "embeddings")) memcpy(w + 3 * WIDTH, w + 2 * WIDTH, WIDTH * sizeof *w);
        OK(ls_runner_set(run, p, w));
    }
    OK(ls_runner_refresh(run));
}

// Returns 0 where the device does not have the precision.
static int compute(const network *n, const char *name, ls_dtype precision, int threads, ls_remat remat, result *out) {
    ls_graph *g = build(n);
    const ls_store *store = ls_graph_store(g);
    ls_device *device;
    ls_runner *run;
    int32_t tokens[BATCH * LENGTH], targets[BATCH * LENGTH];
    ls_plan_config config = {.batch = BATCH, .precision = precision, .mode = LS_PLAN_TRAINING, .remat = remat};
    memset(out, 0, sizeof *out);
    OK(ls_device_create(name, &(ls_device_options){.threads = threads}, &device));
    int there = device->ops->supports(device, precision) == LS_OK;
    if (there) {
        OK(ls_runner_create(g, device, &config, NULL, &run));
        rig_poison(run);
        set_weights(run, store);
        for (int i = 0; i < BATCH * LENGTH; i++) tokens[i] = token(n, i), targets[i] = token(n, i + 1);
        OK(ls_runner_write(run, 0, tokens));
        OK(ls_runner_write(run, 1, targets));
        OK(ls_runner_forward(run, &out->loss));
        OK(ls_runner_backward(run));
        for (int p = 0; p < store->count; p++) {
            int64_t count = ls_shape_count(store->params[p].shape);
            assert_true(out->count + count <= MOST);
            OK(ls_runner_get(run, p, run->gradient, out->gradient + out->count));
            out->count += count;
        }
        out->tables = count_tables(run->plan);
        ls_runner_destroy(&run);
    }
    ls_device_destroy(&device);
    ls_graph_destroy(&g);
    return there;
}

static void check(network n, int tables) {
    static result ref, one, two, again;
    const struct {
        ls_dtype precision;
        double loss, gradient;
    } kinds[] = {{LS_DTYPE_F32, 1e-6, 2e-6}, {LS_DTYPE_BF16, 2e-3, 2e-2}};
    for (int k = 0; k < 2; k++) {
        if (!compute(&n, "cpu", kinds[k].precision, 1, LS_REMAT_NONE, &one)) continue;
        assert_true(compute(&n, "ref", LS_DTYPE_F32, 1, LS_REMAT_NONE, &ref));
        assert_true(compute(&n, "cpu", kinds[k].precision, 2, LS_REMAT_NONE, &two));
        assert_true(compute(&n, "cpu", kinds[k].precision, 1, LS_REMAT_FULL, &again));
        assert_int_equal(one.tables, tables);
        assert_true(again.tables >= tables);
        assert_int_equal(ref.tables, 0);
        check_error("the loss", fabs(one.loss - ref.loss) / ref.loss, kinds[k].loss);
        int64_t embedding = n.rows * WIDTH;  // the first parameter
        check_error("gradients of the table", relative_distance(one.gradient, ref.gradient, embedding, 1e-6),
                    kinds[k].gradient);
        check_error("gradients",
                    relative_distance(one.gradient + embedding, ref.gradient + embedding, ref.count - embedding, 1e-6),
                    kinds[k].gradient);
        assert_true(one.loss == two.loss);
        assert_memory_equal(one.gradient, two.gradient, (size_t)one.count * sizeof *one.gradient);
        assert_true(one.loss == again.loss);
        assert_memory_equal(one.gradient, again.gradient, (size_t)one.count * sizeof *one.gradient);
    }
}

static void test_lstm(void **state) { check((network){.rows = 9}, 2); }
static void test_gru(void **state) { check((network){.gru = 1, .rows = 9}, 2); }
static void test_masked(void **state) { check((network){.masked = 1, .rows = 9}, 2); }
static void test_both_ways(void **state) { check((network){.both_ways = 1, .masked = 1, .gru = 1, .rows = 12}, 4); }
static void test_shared(void **state) { check((network){.shared = 1, .rows = 9}, 2); }
// 42 vectors of a table of 22: as many products without it.
static void test_large(void **state) { check((network){.rows = 22}, 0); }
static void test_largest_table(void **state) { check((network){.rows = 21}, 2); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lstm),          cmocka_unit_test(test_gru),    cmocka_unit_test(test_masked),
        cmocka_unit_test(test_both_ways),     cmocka_unit_test(test_shared), cmocka_unit_test(test_large),
        cmocka_unit_test(test_largest_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
