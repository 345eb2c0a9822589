// Every function of the public headers, called with NULL where it needs something: INVALID_ARGUMENT and the argument's name, or nothing of the
// kind it returns. tests/repo/arguments.sh holds that none is left out. Those of graphs are in test_arguments_graph.c, those of
// communication in test_arguments_comm.c.
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arguments.h"

static ls_dataset *dataset(ls_context *context) {
    static const uint8_t images[8 * 4] = {1, 2, 3};
    static const int32_t labels[8] = {0, 1, 2, 0, 1, 2, 0, 1};
    const ls_field fields[] = {{"image", LS_SHAPE(2, 2, 1), LS_DTYPE_U8, 0}, {"label", {0}, LS_DTYPE_I32, 3}};
    ls_arrays_config config = {
        .fields = fields, .field_count = 2, .train = {8, {images, labels}}, .test = {8, {images, labels}}};
    ls_dataset *d;
    OK(ls_dataset_create_arrays(context, &config, &d));
    return d;
}

static void contexts(void **state) {
    ls_context *c;
    int all[1], mine = 0;
    NEEDS("out", ls_context_create(NULL));
    NEEDS("out", ls_context_create_alone(NULL));
    NEEDS("out", ls_context_create_with_comm(&mine, NULL));
    REFUSED("there is no MPI communicator", ls_context_create_with_comm(NULL, &c));
    ls_cluster cluster = {.hosts = "a:1"};
    ls_cluster_init(NULL);
    ls_cluster_init(&cluster);
    assert_true(!cluster.hosts && cluster.task == -1);
    unsetenv("TF_CONFIG");
    NEEDS("cluster", ls_context_create_cluster(NULL, &c));
    NEEDS("out", ls_context_create_cluster(&cluster, NULL));
    REFUSED("there is no list of hosts", ls_context_create_cluster(&cluster, &c));
    cluster.hosts = "a:1,b:1";
    REFUSED("Its number is one of 0 to 1, and -1 is given", ls_context_create_cluster(&cluster, &c));
    cluster.hosts = "a";
    REFUSED("worker 0 is 'a', which has no port", ls_context_create_cluster(&cluster, &c));
    OK(ls_context_create_alone(&c));
    NEEDS("context", ls_context_agree(NULL, LS_OK));
    NEEDS("context", ls_context_check_equal(NULL, "all", "a=1"));
    NEEDS("what", ls_context_check_equal(c, NULL, "a=1"));
    NEEDS("line", ls_context_check_equal(c, "all", NULL));
    NEEDS("context", ls_context_broadcast(NULL, &mine, 4, 0));
    NEEDS("data", ls_context_broadcast(c, NULL, 4, 0));
    REFUSED("from worker 1; the job has workers 0 to 0", ls_context_broadcast(c, &mine, 4, 1));
    REFUSED("-4 bytes", ls_context_broadcast(c, &mine, -4, 0));
    NEEDS("context", ls_context_gather(NULL, &mine, all, 4));
    NEEDS("mine", ls_context_gather(c, NULL, all, 4));
    NEEDS("all", ls_context_gather(c, &mine, NULL, 4));
    REFUSED("-4 bytes", ls_context_gather(c, &mine, all, -4));
    NEEDS("context", ls_context_barrier(NULL));
    assert_int_equal(ls_context_rank(NULL), 0);
    assert_int_equal(ls_context_size(NULL), 0);
    assert_null(ls_context_describe(NULL).communication);
    ls_context_abort(NULL, 1);
    ls_context_destroy(NULL);
    ls_context_destroy(&c);
    ls_context_destroy(&c);
    assert_non_null(ls_version());
}

static void datasets(void **state) {
    ls_context *c;
    ls_dataset *d;
    ls_arrays_config arrays = {.field_count = 1};
    ls_callback_config callback = {.field_count = 1};
    OK(ls_context_create_alone(&c));
    NEEDS("context", ls_dataset_open(NULL, "digits", &d));
    NEEDS("spec", ls_dataset_open(c, NULL, &d));
    NEEDS("out", ls_dataset_open(c, "digits", NULL));
    NEEDS("context", ls_dataset_open_columns(NULL, "digits", NULL, &d));
    NEEDS("spec", ls_dataset_open_columns(c, NULL, NULL, &d));
    NEEDS("out", ls_dataset_open_columns(c, "digits", NULL, NULL));
    NEEDS("context", ls_dataset_create_arrays(NULL, &arrays, &d));
    NEEDS("config", ls_dataset_create_arrays(c, NULL, &d));
    NEEDS("out", ls_dataset_create_arrays(c, &arrays, NULL));
    REFUSED("fields", ls_dataset_create_arrays(c, &arrays, &d));
    NEEDS("context", ls_dataset_create_callback(NULL, &callback, &d));
    NEEDS("config", ls_dataset_create_callback(c, NULL, &d));
    NEEDS("out", ls_dataset_create_callback(c, &callback, NULL));
    REFUSED("function", ls_dataset_create_callback(c, &callback, &d));
    const ls_field fields[] = {{"image", LS_SHAPE(2), LS_DTYPE_U8, 0}};
    arrays = (ls_arrays_config){.fields = fields, .field_count = 1, .train = {.count = 3}};
    REFUSED("\"image\"", ls_dataset_create_arrays(c, &arrays, &d));
    callback = (ls_callback_config){.fields = fields, .field_count = 1, .train = {.count = 3}};
    REFUSED("function", ls_dataset_create_callback(c, &callback, &d));
    const ls_field large[] = {{"image", LS_SHAPE(INT64_MAX, INT64_MAX, 2), LS_DTYPE_F32, 0}};
    arrays = (ls_arrays_config){.fields = large, .field_count = 1, .train = {.count = 3}};
    REFUSED("larger than memory", ls_dataset_create_arrays(c, &arrays, &d));

    d = dataset(c);
    assert_null(ls_dataset_name(NULL));
    assert_true(ls_dataset_train_count(NULL) == 0 && ls_dataset_test_count(NULL) == 0);
    assert_true(ls_dataset_fingerprint(NULL) == 0 && ls_dataset_read_seconds(NULL) == 0);
    assert_true(ls_dataset_stored_bytes(NULL) == 0);
    assert_null(ls_dataset_field(NULL, 0));
    assert_null(ls_dataset_field(d, 2));
    assert_null(ls_dataset_find_field(NULL, "image"));
    assert_null(ls_dataset_find_field(d, NULL));
    assert_int_equal(ls_dataset_image_shape(NULL).ndim, 0);
    int vocabulary = 7;
    assert_int_equal(ls_dataset_sequence_shape(NULL, &vocabulary).ndim, 0);
    assert_int_equal(ls_dataset_labels(NULL), 0);
    assert_int_equal(ls_dataset_targets(NULL), 0);
    assert_int_equal(vocabulary, 0);
    assert_int_equal(ls_dataset_classes(NULL), 0);
    assert_non_null(ls_dataset_format(0, NULL, NULL));
    assert_null(ls_dataset_format_class(NULL, 0));
    assert_string_equal(ls_dataset_note(NULL), "");
    assert_string_equal(ls_dataset_note(d), "");
    assert_null(ls_dataset_class(NULL, 0));
    assert_null(ls_dataset_column(NULL, 0));
    assert_null(ls_dataset_column(d, 0));
    assert_null(ls_dataset_class(d, 0));
    double mean[1], deviation[1];
    NEEDS("dataset", ls_dataset_channels(NULL, mean, deviation));
    NEEDS("mean", ls_dataset_channels(d, NULL, deviation));
    NEEDS("deviation", ls_dataset_channels(d, mean, NULL));
    OK(ls_dataset_channels(d, mean, deviation));
    ls_dataset_test_on_training(NULL);
    ls_image image;
    NEEDS("path", ls_image_read(NULL, 1, &image));
    NEEDS("out", ls_image_read("file", 1, NULL));
    NEEDS("dataset", ls_dataset_convert(NULL, "tar:x", NULL));
    ls_train_config loading;
    ls_data_bench *loads;
    ls_data_round round;
    ls_train_config_init(&loading);
    NEEDS("out", ls_data_bench_create(d, &loading, 4, NULL));
    NEEDS("dataset", ls_data_bench_create(NULL, &loading, 4, &loads));
    NEEDS("config", ls_data_bench_create(d, NULL, 4, &loads));
    REFUSED("at least one", ls_data_bench_create(d, &loading, 0, &loads));
    OK(ls_data_bench_create(d, &loading, 4, &loads));
    NEEDS("bench", ls_data_bench_round(NULL, 4, &round));
    NEEDS("out", ls_data_bench_round(loads, 4, NULL));
    REFUSED("load 0 samples", ls_data_bench_round(loads, 0, &round));
    OK(ls_data_bench_round(loads, 4, &round));
    assert_true(round.samples >= 1 && round.samples <= 4 && round.seconds > 0);
    ls_data_bench_destroy(&loads);
    ls_data_bench_destroy(NULL);
    NEEDS("path", ls_image_write(NULL, &image));
    NEEDS("image", ls_image_write("file", NULL));
    NEEDS("info", ls_dataset_look(NULL, 0, 0, NULL, NULL));
    NEEDS("dataset", ls_dataset_look(NULL, 0, 0, &(ls_sample_info){0}, NULL));
    NEEDS("dataset", ls_dataset_read(NULL, 0, 0, (void *[LS_MAX_FIELDS]){NULL}));
    NEEDS("path", ls_image_read_for(NULL, 1, 4, 4, &image));
    NEEDS("out", ls_image_read_for("file", 1, 4, 4, NULL));
    NEEDS("name", ls_image_decode(NULL, "x", 1, 1, &image));
    NEEDS("bytes", ls_image_decode("file", NULL, 1, 1, &image));
    NEEDS("out", ls_image_decode("file", "x", 1, 1, NULL));
    ls_image_free(&image);
    ls_image_free(NULL);
    ls_dataset_destroy(NULL);
    ls_dataset_destroy(&d);
    ls_dataset_destroy(&d);
    ls_context_destroy(&c);
}

static void checkpoints(void **state) {
    ls_checkpoint *c;
    NEEDS("path", ls_checkpoint_find(NULL, &c));
    NEEDS("out", ls_checkpoint_find("folder", NULL));
    assert_null(ls_checkpoint_path(NULL));
    assert_null(ls_checkpoint_damaged(NULL));
    assert_null(ls_checkpoint_recipe(NULL));
    assert_null(ls_checkpoint_numerics(NULL));
    assert_null(ls_checkpoint_state(NULL));
    assert_null(ls_checkpoint_file(NULL, 0));
    assert_null(ls_checkpoint_file_digest(NULL, "weights.safetensors"));
    assert_int_equal(ls_checkpoint_file_bytes(NULL, NULL), -1);
    assert_true(ls_checkpoint_epoch(NULL) == 0 && ls_checkpoint_step(NULL) == 0 && ls_checkpoint_all_steps(NULL) == 0);
    ls_checkpoint_close(&c);
    ls_checkpoint_close(NULL);
}

static void trainers(void **state) {
    ls_context *context;
    ls_trainer *t;
    ls_graph *g = network();
    ls_train_config config;
    ls_train_result result;
    ls_epoch_result epoch;
    double rate;
    int count;
    float values[12];
    ls_train_config_init(NULL);
    ls_train_config_init(&config);
    config.batch_size = 4, config.micro_batch = 2, config.epochs = 1, config.replicas = 1;
    OK(ls_context_create_alone(&context));
    ls_dataset *d = dataset(context);
    assert_non_null(ls_train_options());
    NEEDS("config", ls_train_base_rate(NULL, &rate));
    NEEDS("out", ls_train_base_rate(&config, NULL));
    int threads;
    NEEDS("config", ls_train_spread(NULL, 1, 1, &count, &threads));
    NEEDS("replicas", ls_train_spread(&config, 1, 1, NULL, &threads));
    NEEDS("threads", ls_train_spread(&config, 1, 1, &count, NULL));
    NEEDS("config", ls_train_servers(NULL, 2, &count));
    NEEDS("out", ls_train_servers(&config, 2, NULL));
    assert_int_equal(ls_train_image_shape(NULL, LS_SHAPE(2, 2, 1)).ndim, 3);
    ls_train_fit_model(NULL, NULL, NULL);
    assert_true(ls_micro_batch_default(0) == 0 && ls_micro_batch_default(-5) == 0);
    REFUSED("without a context", ls_trainer_create(NULL, g, d, &config, &t));
    REFUSED("without a graph", ls_trainer_create(context, NULL, d, &config, &t));
    REFUSED("without a dataset", ls_trainer_create(context, g, NULL, &config, &t));
    REFUSED("without a configuration", ls_trainer_create(context, g, d, NULL, &t));
    NEEDS("out", ls_trainer_create(context, g, d, &config, NULL));
    NEEDS("trainer", ls_trainer_begin_epoch(NULL));
    NEEDS("trainer", ls_trainer_step(NULL, NULL));
    NEEDS("trainer", ls_trainer_end_epoch(NULL, &epoch));
    NEEDS("trainer", ls_trainer_fit(NULL, NULL));
    NEEDS("trainer", ls_trainer_evaluate(NULL, NULL, NULL));
    NEEDS("trainer", ls_trainer_result(NULL, &result));
    NEEDS("trainer", ls_trainer_trace(NULL, 1));
    NEEDS("trainer", ls_trainer_trace_write(NULL, "trace"));
    NEEDS("trainer", ls_trainer_get_weights(NULL, "dense/bias", values, 3));
    NEEDS("trainer", ls_trainer_set_weights(NULL, "dense/bias", values, 3));
    NEEDS("trainer", ls_trainer_load_weights(NULL, "file"));
    NEEDS("trainer", ls_trainer_load_weights_by_name(NULL, "file", NULL));
    NEEDS("trainer", ls_trainer_load_body(NULL, "file", NULL, NULL));
    NEEDS("trainer", ls_trainer_save_weights(NULL, "file"));
    NEEDS("path", ls_weights_file_check(NULL));
    int64_t counts[9];
    NEEDS("trainer", ls_trainer_confusion(NULL, counts, 3));
    ls_label_scores scores;
    NEEDS("trainer", ls_trainer_label_scores(NULL, &scores));
    const ls_image image = {2, 2, 1, (uint8_t *)"abc"};
    const ls_shape shape = LS_SHAPE(2, 2, 1);
    NEEDS("config", ls_train_prepare_image(NULL, &image, shape, NULL, NULL, values));
    NEEDS("image", ls_train_prepare_image(&config, NULL, shape, NULL, NULL, values));
    NEEDS("out", ls_train_prepare_image(&config, &image, shape, NULL, NULL, NULL));
    OK(ls_train_prepare_image(&config, &image, shape, NULL, NULL, values));
    NEEDS("config", ls_train_prepare_file(NULL, "f", shape, NULL, NULL, values));
    NEEDS("path", ls_train_prepare_file(&config, NULL, shape, NULL, NULL, values));
    NEEDS("out", ls_train_prepare_file(&config, "f", shape, NULL, NULL, NULL));
    NEEDS("config", ls_train_prepare_sample(NULL, &image, 0, shape, NULL, NULL, values));
    NEEDS("image", ls_train_prepare_sample(&config, NULL, 0, shape, NULL, NULL, values));
    NEEDS("out", ls_train_prepare_sample(&config, &image, 0, shape, NULL, NULL, NULL));
    ls_train_draw_noise(NULL, 0, 1, values);
    ls_train_draw_noise(&config, 0, 1, NULL);
    assert_true(ls_trainer_steps_left(NULL) == 0 && ls_trainer_measure_count(NULL) == 0);
    assert_string_equal(ls_trainer_not_finite(NULL), "");
    assert_null(ls_trainer_measure(NULL, 0).name);
    assert_true(isnan(ls_epoch_score(NULL)));
    assert_true(ls_epoch_score(&(ls_epoch_result){.val_accuracy = 0.5, .val_area = 0.7, .val_loss = 2}) == 0.7);
    assert_true(ls_epoch_score(&(ls_epoch_result){.val_accuracy = 0.5, .val_area = NAN, .val_loss = 2}) == 0.5);
    assert_true(ls_epoch_score(&(ls_epoch_result){.val_accuracy = NAN, .val_area = NAN, .val_loss = 2}) == -2);

    OK(ls_trainer_create(context, g, d, &config, &t));
    OK(ls_trainer_trace(t, 1));
    OK(ls_trainer_begin_epoch(t));
    while (ls_trainer_steps_left(t) > 0) OK(ls_trainer_step(t, NULL));
    OK(ls_trainer_end_epoch(t, NULL));
    OK(ls_trainer_evaluate(t, NULL, NULL));
    NEEDS("counts", ls_trainer_confusion(t, NULL, 3));
    REFUSED("no balanced accuracy", ls_trainer_confusion(t, counts, 3));
    NEEDS("out", ls_trainer_label_scores(t, NULL));
    REFUSED("no areas under ROC curves", ls_trainer_label_scores(t, &scores));
    NEEDS("out", ls_trainer_result(t, NULL));
    NEEDS("path", ls_trainer_trace_write(t, NULL));
    NEEDS("parameter", ls_trainer_get_weights(t, NULL, values, 3));
    NEEDS("out", ls_trainer_get_weights(t, "dense/bias", NULL, 3));
    NEEDS("parameter", ls_trainer_set_weights(t, NULL, values, 3));
    NEEDS("values", ls_trainer_set_weights(t, "dense/bias", NULL, 3));
    NEEDS("path", ls_trainer_load_weights(t, NULL));
    NEEDS("path", ls_trainer_load_weights_by_name(t, NULL, NULL));
    NEEDS("path", ls_trainer_load_body(t, NULL, NULL, NULL));
    NEEDS("body", ls_trainer_load_body(t, "file", NULL, NULL));
    NEEDS("path", ls_trainer_save_weights(t, NULL));
    ls_checkpoint_config checkpoints;
    ls_checkpoint_config_init(NULL);
    ls_checkpoint_config_init(&checkpoints);
    NEEDS("trainer", ls_trainer_checkpoints(NULL, &checkpoints));
    NEEDS("config", ls_trainer_checkpoints(t, NULL));
    REFUSED("checkpoints need a folder", ls_trainer_checkpoints(t, &checkpoints));
    NEEDS("trainer", ls_trainer_checkpoint_now(NULL));
    NEEDS("trainer", ls_trainer_checkpoint_wait(NULL));
    NEEDS("trainer", ls_trainer_resume(NULL, NULL));
    NEEDS("checkpoint", ls_trainer_resume(t, NULL));
    assert_int_equal(ls_trainer_checkpoint_costs(NULL).written, 0);
    assert_null(ls_trainer_measure(t, -1).name);
    assert_null(ls_trainer_measure(t, ls_trainer_measure_count(t)).name);
    ls_trainer_destroy(&t);
    ls_trainer_destroy(&t);
    ls_trainer_destroy(NULL);

    ls_memory memory;
    ls_memory_job job = {.workers = 2};
    NEEDS("context", ls_memory_plan(NULL, g, &job, &config, &memory));
    NEEDS("graph", ls_memory_plan(context, NULL, &job, &config, &memory));
    NEEDS("job", ls_memory_plan(context, g, NULL, &config, &memory));
    NEEDS("config", ls_memory_plan(context, g, &job, NULL, &memory));
    NEEDS("out", ls_memory_plan(context, g, &job, &config, NULL));
    OK(ls_memory_plan(context, g, &job, &config, &memory));
    char *program;
    NEEDS("context", ls_program_text(NULL, g, &job, &config, 0, 0, &program));
    NEEDS("graph", ls_program_text(context, NULL, &job, &config, 0, 0, &program));
    NEEDS("job", ls_program_text(context, g, NULL, &config, 0, 0, &program));
    NEEDS("config", ls_program_text(context, g, &job, NULL, 0, 0, &program));
    NEEDS("text", ls_program_text(context, g, &job, &config, 0, 0, NULL));
    assert_int_equal(ls_program_text(context, g, &job, &config, 2, 0, &program), LS_STATUS_INVALID_ARGUMENT);
    OK(ls_program_text(context, g, &job, &config, 0, 1, &program));
    free(program);
    assert_int_equal(memory.workers, 2);
    assert_null(ls_memory_part_name(LS_MEMORY_PARTS));
    ls_dataset_destroy(&d);
    ls_graph_destroy(&g);
    ls_context_destroy(&context);
}

static void predictors(void **state) {
    ls_graph *g = network();
    ls_predictor *p;
    ls_predict_config config;
    float values[12], image[4] = {0};
    const void *inputs[] = {image}, *missing[] = {NULL};
    float *outputs[] = {values}, *nowhere[] = {NULL};
    ls_predict_config_init(NULL);
    ls_predict_config_init(&config);
    REFUSED("a predictor was to be made without a graph", ls_predictor_create(NULL, &config, &p));
    REFUSED("a predictor was to be made without a configuration", ls_predictor_create(g, NULL, &p));
    NEEDS("out", ls_predictor_create(g, &config, NULL));
    OK(ls_predictor_create(g, &config, &p));
    NEEDS("predictor", ls_predictor_load_weights(NULL, "file"));
    NEEDS("path", ls_predictor_load_weights(p, NULL));
    NEEDS("predictor", ls_predictor_load_weights_by_name(NULL, "file", NULL));
    NEEDS("path", ls_predictor_load_weights_by_name(p, NULL, NULL));
    NEEDS("predictor", ls_predictor_save_weights(NULL, "file"));
    NEEDS("path", ls_predictor_save_weights(p, NULL));
    NEEDS("predictor", ls_predictor_get_weights(NULL, "dense/bias", values, 3));
    NEEDS("parameter", ls_predictor_get_weights(p, NULL, values, 3));
    NEEDS("out", ls_predictor_get_weights(p, "dense/bias", NULL, 3));
    NEEDS("predictor", ls_predictor_set_weights(NULL, "dense/bias", values, 3));
    NEEDS("parameter", ls_predictor_set_weights(p, NULL, values, 3));
    NEEDS("values", ls_predictor_set_weights(p, "dense/bias", NULL, 3));
    NEEDS("predictor", ls_predictor_run(NULL, 1, inputs, outputs));
    NEEDS("inputs", ls_predictor_run(p, 1, NULL, outputs));
    NEEDS("outputs", ls_predictor_run(p, 1, inputs, NULL));
    REFUSED("dense", ls_predictor_run(p, 1, inputs, nowhere));
    REFUSED("input", ls_predictor_run(p, 1, missing, outputs));
    NEEDS("predictor", ls_predictor_evaluate(NULL, 1, inputs, NULL, NULL, NULL));
    NEEDS("inputs", ls_predictor_evaluate(p, 1, NULL, NULL, NULL, NULL));
    OK(ls_predictor_run(p, 1, inputs, outputs));
    ls_softmax(NULL, 1, 3);
    ls_softmax(values, 1, 0);
    ls_softmax(values, 1, 3);
    assert_true(fabsf(values[0] + values[1] + values[2] - 1) < 1e-6f);
    ls_predictor_destroy(&p);
    ls_predictor_destroy(&p);
    ls_predictor_destroy(NULL);
    ls_graph_destroy(&g);
}

static void files_of_weights(void **state) {
    ls_weights_file *file = NULL;
    ls_stored_tensor tensor = {.name = "t"};
    float value;
    NEEDS("path", ls_weights_file_open(NULL, &file));
    NEEDS("out", ls_weights_file_open("file", NULL));
    assert_null(ls_weights_file_find(NULL, "t"));
    NEEDS("file", ls_weights_file_read(NULL, &tensor, &value));
    ls_weights_file_close(NULL);
    ls_weights_file_close(&file);
}

static void machines(void **state) {
    ls_context *context;
    ls_topology *t;
    char text[256];
    OK(ls_context_create_alone(&context));
    NEEDS("context", ls_topology_create(NULL, &t));
    NEEDS("out", ls_topology_create(context, NULL));
    NEEDS("device", ls_machine_kernels(NULL, text, sizeof text));
    NEEDS("text", ls_machine_kernels("cpu", NULL, 0));
    NEEDS("device", ls_machine_computes(NULL, LS_DTYPE_F32));
    assert_true(ls_topology_cores(NULL) == 0 && ls_topology_cores_least(NULL) == 0 &&
                ls_topology_host_cores(NULL) == 0);
    ls_topology_bind(NULL, 0, 1);
    ls_topology_unbind(NULL);
    ls_topology_destroy(NULL);
    ls_machine_mpi(NULL, 0);
    (void)ls_machine_mpi_thread_level();  // no pointers
    (void)ls_machine_mpi_bytes;
    assert_int_equal(ls_dtype_size((ls_dtype)77), 0);
    assert_string_equal(ls_dtype_name((ls_dtype)-1), "unknown");
    assert_non_null(ls_status_name((ls_status)77));
    assert_non_null(ls_error_trace());
    ls_context_destroy(&context);
}

static void benches(void **state) {
    ls_context *context;
    ls_graph *g = network();
    ls_train_config config;
    ls_layer_bench *layers;
    ls_exchange_bench *exchange;
    ls_exchange_times times;
    double seconds;
    OK(ls_context_create_alone(&context));
    ls_train_config_init(&config);
    config.micro_batch = 2;
    NEEDS("graph", ls_layer_bench_create(NULL, &config, 0, &layers));
    NEEDS("config", ls_layer_bench_create(g, NULL, 0, &layers));
    NEEDS("out", ls_layer_bench_create(g, &config, 0, NULL));
    NEEDS("bench", ls_layer_bench_start(NULL, 1));
    OK(ls_layer_bench_create(g, &config, 0, &layers));
    assert_true(ls_layer_bench_round(layers) == 0 && ls_layer_bench_count(layers) == 0);  // not started
    assert_int_equal(ls_layer_bench_get(layers, 0).flops, 0);
    assert_true(ls_layer_bench_round(NULL) == 0 && ls_layer_bench_count(NULL) == 0);
    assert_int_equal(ls_layer_bench_get(NULL, 0).flops, 0);
    assert_true(ls_layer_bench_limit(layers).flops == 0 && ls_layer_bench_limit(NULL).flops == 0);
    ls_layer_bench_destroy(&layers);
    ls_layer_bench_destroy(NULL);
    NEEDS("context", ls_exchange_bench_create(NULL, 64, "sgd", "none", "auto", 1, &exchange));
    NEEDS("out", ls_exchange_bench_create(context, 64, "sgd", "none", "auto", 1, NULL));
    NEEDS("bench", ls_exchange_bench_step(NULL, &seconds));
    NEEDS("optimizer", ls_exchange_bench_create(context, 64, NULL, "none", "auto", 1, &exchange));
    NEEDS("compress", ls_exchange_bench_create(context, 64, "sgd", NULL, "auto", 1, &exchange));
    NEEDS("algorithm", ls_exchange_bench_create(context, 64, "sgd", "none", NULL, 1, &exchange));
    OK(ls_exchange_bench_create(context, 64, "sgd", "none", "auto", 1, &exchange));
    NEEDS("seconds", ls_exchange_bench_step(exchange, NULL));
    NEEDS("bench", ls_exchange_bench_compare(NULL, &times));
    NEEDS("out", ls_exchange_bench_compare(exchange, NULL));
    OK(ls_exchange_bench_step(exchange, &seconds));
    ls_exchange_bench_destroy(&exchange);
    ls_exchange_bench_destroy(NULL);
    ls_graph_destroy(&g);
    ls_context_destroy(&context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts),   cmocka_unit_test(datasets),         cmocka_unit_test(trainers),
        cmocka_unit_test(predictors), cmocka_unit_test(checkpoints),      cmocka_unit_test(machines),
        cmocka_unit_test(benches),    cmocka_unit_test(files_of_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
