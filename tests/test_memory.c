// Planning memory: sums, what changes them and how, and that nothing large is allocated. What a run really takes is compared in
// tests/cli/plan.sh.
#include <string.h>

#include "base/memory.h"
#include "comm/comm.h"
#include "ok.h"
#include "train/context.h"

typedef struct fixture {
    ls_context *context;
    ls_graph *graph;
    ls_train_config config;  // 8 micro-batches of 16
} fixture;

static int set_up(void **state) {
    static fixture f;
    OK(ls_context_create_alone(&f.context));
    OK(ls_model_create("mnist-cnn", (ls_shape){0}, 0, &f.graph));
    ls_train_config_init(&f.config);
    f.config.micro_batch = 16, f.config.replicas = 2, f.config.bind = 0;
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    fixture *f = *state;
    ls_graph_destroy(&f->graph);
    ls_context_destroy(&f->context);
    return 0;
}

static ls_memory plan(const fixture *f, ls_memory_job job, const ls_train_config *config) {
    ls_memory m;
    OK(ls_memory_plan(f->context, f->graph, &job, config, &m));
    return m;
}

static void parts_add_up(void **state) {
    const fixture *f = *state;
    ls_memory m = plan(f, (ls_memory_job){0}, &f->config);
    ls_memory_bytes sum = {0};
    for (int i = 0; i < LS_MEMORY_PARTS; i++) {
        const ls_memory_bytes *b = &m.part[i];
        assert_true(b->replica >= 0 && b->host == b->worker);
        assert_true(b->worker >= 2 * b->replica - 1024);  // the second replica may have a unit or two less
        assert_true(strlen(ls_memory_part_name((ls_memory_part)i)) > 3);
        sum.replica += b->replica, sum.worker += b->worker, sum.host += b->host;
    }
    assert_memory_equal(&sum, &m.total, sizeof sum);
    int64_t vector = ls_graph_parameter_count(f->graph) * 4, padded = vector + vector / 10;
    assert_true(m.part[LS_MEMORY_WEIGHTS].worker >= vector);
    assert_int_equal(m.gradient_buffers, 3);  // of 4 micro-batches in a tree: two sums and one in the making
    int64_t gradients = m.part[LS_MEMORY_GRADIENTS].replica;
    assert_true(gradients >= 3 * vector && gradients < 3 * padded);
    int64_t moments = m.part[LS_MEMORY_STATE].worker;
    assert_true(moments >= 2 * vector && moments < 2 * padded);
    assert_int_equal(m.part[LS_MEMORY_DATASET].worker, 0);
    assert_true(m.part[LS_MEMORY_PROGRAM].worker > 1 << 20);
    assert_int_equal(m.train.samples, 16);
    assert_int_equal(m.evaluate.samples, 32);
    assert_int_equal(m.train_tail.samples + m.evaluate_tail.samples, 0);
    int64_t arena = m.train.bytes > m.evaluate.bytes ? m.train.bytes : m.evaluate.bytes;
    assert_int_equal(m.part[LS_MEMORY_ACTIVATIONS].replica + m.part[LS_MEMORY_BACKWARD].replica +
                         m.part[LS_MEMORY_WORKSPACE].replica + m.part[LS_MEMORY_UNUSED].replica,
                     ls_memory_size(arena));
}

static void options_change_what_they_should(void **state) {
    const fixture *f = *state;
    ls_train_config c = f->config;
    ls_memory_job job = {.program = 1 << 20};
    ls_memory before = plan(f, job, &c);
    assert_int_equal(before.part[LS_MEMORY_PROGRAM].worker, 1 << 20);
    c.optimizer = "sgd";
    assert_int_equal(plan(f, job, &c).part[LS_MEMORY_STATE].worker, 0);
    c = f->config, c.clip_norm = 1;
    assert_true(plan(f, job, &c).part[LS_MEMORY_SUMS].worker > before.part[LS_MEMORY_SUMS].worker + 2 * 690590);
    c = f->config, c.replicas = 1;
    assert_true(plan(f, job, &c).total.worker < before.total.worker);
    c = f->config, c.micro_batch = 64;
    assert_true(plan(f, job, &c).train.bytes > before.train.bytes);
    c = f->config, c.batch_size = 0;  // one micro-batch for each replica
    ls_memory m = plan(f, job, &c);
    assert_int_equal(m.global_batch, 32);
    assert_int_equal(m.gradient_buffers, 1);
    c = f->config, c.remat = 1;
    assert_true(plan(f, job, &c).total.worker <= before.total.worker);
    job.more = 5 << 20;
    assert_int_equal(plan(f, job, &f->config).part[LS_MEMORY_PROGRAM].worker, 6 << 20);
}

static void a_dataset_counts_once_a_host(void **state) {
    const fixture *f = *state;
    static uint8_t images[200 * 32 * 32 * 3], labels[200];
    ls_field fields[] = {{"image", LS_SHAPE(28, 28, 1), LS_DTYPE_U8, 0}, {"label", {0}, LS_DTYPE_U8, 10}};
    ls_arrays_config config = {.name = "fake",
                               .fields = fields,
                               .field_count = 2,
                               .train = {130, {images, labels}},
                               .test = {70, {images + 130 * 784, labels + 130}},
                               .copy = 1};
    ls_dataset *data;
    OK(ls_dataset_create_arrays(f->context, &config, &data));
    ls_memory m = plan(f, (ls_memory_job){.workers = 2, .dataset = data}, &f->config);
    int64_t bytes = m.part[LS_MEMORY_DATASET].host;
    assert_true(bytes >= 200 * 785 && bytes < 200 * 785 + 4 * 64);
    assert_int_equal(m.part[LS_MEMORY_DATASET].worker, bytes);
    assert_int_equal(m.train_tail.samples, 2);
    assert_int_equal(m.evaluate_tail.samples, 6);
    ls_dataset_destroy(&data);
    config.copy = 0;  // the caller's own, in every worker
    OK(ls_dataset_create_arrays(f->context, &config, &data));
    ls_memory own = plan(f, (ls_memory_job){.workers = 2, .dataset = data}, &f->config);
    assert_int_equal(own.part[LS_MEMORY_DATASET].worker, bytes);
    assert_int_equal(own.part[LS_MEMORY_DATASET].host, 2 * bytes);
    ls_dataset_destroy(&data);
    fields[0].shape = LS_SHAPE(32, 32, 3);
    OK(ls_dataset_create_arrays(f->context, &config, &data));
    ls_memory_job job = {.dataset = data};
    assert_int_equal(ls_memory_plan(f->context, f->graph, &job, &f->config, &m), LS_STATUS_INVALID_ARGUMENT);
    ls_dataset_destroy(&data);
}

static void workers_share_their_host(void **state) {
    const fixture *f = *state;
    ls_train_config c = f->config;
    c.replicas = 1;
    ls_memory_job job = {.workers = 4, .hosts = 1, .program = 1 << 20};
    ls_memory one = plan(f, job, &c);
    job.hosts = 2;
    ls_memory two = plan(f, job, &c);
    assert_int_equal(one.workers_per_host, 4);
    assert_int_equal(two.workers_per_host, 2);
    assert_true(one.total.host > one.total.worker && one.total.host < 4 * one.total.worker);
    assert_true(two.total.host < one.total.host);
    assert_true(two.part[LS_MEMORY_SUMS].worker > one.part[LS_MEMORY_SUMS].worker);  // what goes between hosts
    assert_true(one.part[LS_MEMORY_STATE].worker < plan(f, (ls_memory_job){0}, &c).part[LS_MEMORY_STATE].worker / 3);
    c.strategy = "reduce-broadcast";
    assert_true(plan(f, job, &c).part[LS_MEMORY_STATE].host > 2 * two.part[LS_MEMORY_STATE].host);
    ls_memory m;
    job.workers = 9;
    assert_int_equal(ls_memory_plan(f->context, f->graph, &job, &c, &m), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "9 workers for 8 micro-batches"));
    job = (ls_memory_job){.workers = 1, .hosts = 2};
    assert_int_equal(ls_memory_plan(f->context, f->graph, &job, &c, &m), LS_STATUS_INVALID_ARGUMENT);
    job.hosts = 1, c.precision = "fp8";
    assert_int_equal(ls_memory_plan(f->context, f->graph, &job, &c, &m), LS_STATUS_INVALID_ARGUMENT);
}

static void a_trainer_of_the_graph_is_in_nobodys_way(void **state) {
    const fixture *f = *state;
    ls_train_config c = f->config, other = f->config;
    other.strategy = "reduce-broadcast";
    c.limit_train = 128, c.epochs = 1;
    ls_dataset *data;
    ls_trainer *t;
    OK(ls_dataset_open(f->context, "digits", &data));
    OK(ls_trainer_create(f->context, f->graph, data, &c, &t));
    assert_true(plan(f, (ls_memory_job){.workers = 2}, &other).total.worker > 0);
    OK(ls_trainer_fit(t, NULL));
    ls_trainer_destroy(&t);
    ls_dataset_destroy(&data);
}

static void nothing_large_is_allocated(void **state) {
    const fixture *f = *state;
    ls_train_config c = f->config;
    c.batch_size = 1 << 18, c.micro_batch = 1 << 15;
    int64_t before = ls_memory_peak_rss();
    ls_memory m = plan(f, (ls_memory_job){0}, &c);
    assert_true(m.total.worker > (int64_t)4
                                     << 30);  // how much more is the kernels' workspace, which their version decides
    assert_true(ls_memory_peak_rss() < before + (256 << 20));
}

static void mpi_is_measured_elsewhere(void **state) {
    int64_t bytes = ls_comm_library_bytes();
    assert_null(ls_comm_thread_level());  // not in this process
    if (bytes) assert_true(bytes > 1 << 20 && bytes < 1 << 30);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_add_up),
        cmocka_unit_test(options_change_what_they_should),
        cmocka_unit_test(a_dataset_counts_once_a_host),
        cmocka_unit_test(workers_share_their_host),
        cmocka_unit_test(nothing_large_is_allocated),
        cmocka_unit_test(mpi_is_measured_elsewhere),
        cmocka_unit_test(a_trainer_of_the_graph_is_in_nobodys_way),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
