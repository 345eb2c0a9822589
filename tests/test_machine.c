// What programs ask before they train: networks, cores, kernels, MPI, times of layers and of an exchange. On any number of workers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "base/memory.h"
#include "train/context.h"
#include "train/topology.h"
#include "worker_check.h"

static void networks_are_listed(ls_comm *c) {
    int count = 0, found = 0;
    for (ls_model_info m; (m = ls_model_at(count)).name; count++) {
        ls_graph *g;
        ls_model_config config;
        ls_model_config_init(&config);
        CHECK(c, m.help && *m.help && m.input.ndim > 0 && m.classes > 0);
        CHECK_OK(c, ls_model_build(m.name, &config, &g));
        CHECK(c, strcmp(ls_graph_name(g), m.name) == 0);
        ls_graph_destroy(&g);
        found |= strcmp(m.name, "mnist-cnn") == 0;
    }
    CHECK(c, found && count > 5 && !ls_model_at(count + 1).name);
}

static void cores_are_divided(ls_context *context, ls_comm *c) {
    ls_topology *t;
    CHECK_OK(c, ls_topology_create(context, &t));
    int mine = ls_topology_cores(t), least = ls_topology_cores_least(t), host = ls_topology_host_cores(t);
    CHECK(c, host >= 1 && mine >= least && least >= 0 && mine <= host);
    CHECK(c, c->size > 1 || mine == host);
    char text[32];
    snprintf(text, sizeof text, "%d", least);
    CHECK_OK(c, ls_context_check_equal(context, "the least", text));
    ls_topology_bind(t, 0, 1);
    ls_topology_unbind(t);
    ls_topology_destroy(&t);
    CHECK(c, t == NULL);
}

// Whether the system was asked to have memory in one domain: its policy, as it lists that of the mapping that begins there. -1: it does not tell.
static int is_placed(const void *memory) {
    char line[4096], start[32];
    int placed = -1;
    FILE *maps = fopen("/proc/self/numa_maps", "r");
    if (!maps) return -1;
    snprintf(start, sizeof start, "%lx ", (unsigned long)memory);
    while (fgets(line, sizeof line, maps))
        if (strncmp(line, start, strlen(start)) == 0) placed = strstr(line, " prefer") != NULL;
    fclose(maps);
    return placed;
}

// On a machine that is told to have two domains of one core each. The second one is not there: its memory stays where it is.
static void memory_lies_near_its_core(ls_context *context, ls_comm *c) {
    enum { BYTES = 16 << 20 };
    ls_topology *t;
    void *near[2];
    setenv("HWLOC_SYNTHETIC", "numa:2 core:1 pu:1", 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    CHECK_OK(c, ls_topology_create(context, &t));
    unsetenv("HWLOC_SYNTHETIC");
    unsetenv("HWLOC_THISSYSTEM");
    for (int core = 0; core < 2 && ls_topology_cores(t) == 2; core++) {
        CHECK_OK(c, ls_memory_alloc(BYTES, &near[core]));
        ls__topology_place(t, core, near[core], BYTES);
        int placed = is_placed(near[core]);
        CHECK(c, placed < 0 || placed == (core == 0));
        ls_memory_free(near[core]);
    }
    ls_topology_destroy(&t);
}

static void builds_say_what_they_have(ls_comm *c) {
    char text[256] = "";
    CHECK_OK(c, ls_machine_kernels("cpu", text, sizeof text));
    CHECK(c, strstr(text, "oneDNN") != NULL);
    CHECK_OK(c, ls_machine_kernels("ref", text, sizeof text));
    CHECK(c, ls_machine_kernels("gpu", text, sizeof text) == LS_STATUS_NOT_FOUND);
    CHECK_OK(c, ls_machine_computes("cpu", LS_DTYPE_F32));
    CHECK(c, ls_machine_computes("ref", LS_DTYPE_I32) == LS_STATUS_UNSUPPORTED && *ls_error_message());
    ls_machine_mpi(text, sizeof text);
    CHECK(c, *text);
}

static void layers_are_timed(ls_comm *c, const char *device, int floor) {
    ls_graph *g;
    ls_train_config config;
    ls_layer_bench *bench;
    ls_train_config_init(&config);
    config.device = device, config.threads = 1, config.micro_batch = 4;
    CHECK_OK(c, ls_model_create("mnist-cnn", (ls_shape){0}, 0, &g));
    CHECK_OK(c, ls_layer_bench_create(g, &config, floor, &bench));
    CHECK_OK(c, ls_layer_bench_start(bench, 2));
    double sum = 0, floors = 0;
    for (int i = 0; i < 3; i++) floors = ls_layer_bench_round(bench);
    CHECK(c, ls_layer_bench_count(bench) > 5);
    for (int i = 0; i < ls_layer_bench_count(bench); i++) {
        ls_layer_time t = ls_layer_bench_get(bench, i);
        CHECK(c, *t.node && *t.pass && *t.implementation && t.seconds > 0 && isfinite(t.seconds));
        CHECK(c, t.floor_seconds <= t.seconds && (floor && t.flops > 0) == (*t.fastest != 0));
        sum += t.seconds;
    }
    CHECK(c, floor ? floors > 0 && sum > 0 : floors == 0);
    ls_layer_bench_destroy(&bench);
    CHECK(c, bench == NULL);
    ls_graph_destroy(&g);
}

// A failure in a thread has its sentence in the caller, and a bench that did not start is destroyed like others.
static void layer_benches_fail_with_words(ls_comm *c) {
    ls_graph *g;
    ls_train_config config;
    ls_layer_bench *bench;
    ls_train_config_init(&config);
    config.device = "ref", config.threads = 1, config.micro_batch = 4;
    CHECK_OK(c, ls_model_create("mnist-mlp", (ls_shape){0}, 0, &g));
    CHECK_OK(c, ls_layer_bench_create(g, &config, 1, &bench));
    CHECK(c, ls_layer_bench_start(bench, 2) == LS_STATUS_UNSUPPORTED);
    CHECK(c, strstr(ls_error_message(), "ref") != NULL);
    ls_layer_bench_destroy(&bench);
    ls_graph_destroy(&g);
}

static void exchanges_are_timed(ls_context *context, ls_comm *c) {
    ls_exchange_bench *bench;
    CHECK(c, ls_exchange_bench_create(context, 0, "adam", "none", "auto", 0, &bench) == LS_STATUS_INVALID_ARGUMENT);
    CHECK(c, ls_exchange_bench_create(context, 1, "magic", "none", "auto", 0, &bench) == LS_STATUS_NOT_FOUND);
    CHECK(c, ls_exchange_bench_create(context, 1, "sgd", "zip", "auto", 0, &bench) == LS_STATUS_INVALID_ARGUMENT);
    CHECK(c, ls_exchange_bench_create(context, 1, "sgd", "none", "ring", 0, &bench) == LS_STATUS_INVALID_ARGUMENT);
    for (int64_t count = 1; count < 100000; count *= 317) {
        const char *optimizer = count == 1 ? "sgd" : "adam", *compress = count == 317 ? "bf16" : "none";
        CHECK_OK(c, ls_exchange_bench_create(context, count, optimizer, compress, "auto", 0, &bench));
        for (int i = 0; i < 4; i++) {
            double seconds = -1;
            CHECK_OK(c, ls_exchange_bench_step(bench, &seconds));
            CHECK(c, seconds > 0 && isfinite(seconds));
        }
        for (int i = 0; i < 2; i++) {
            ls_exchange_times t = {-1, -1, -1, -1};
            CHECK_OK(c, ls_exchange_bench_compare(bench, &t));
            CHECK(c, t.step > 0 && t.allreduce > 0 && t.update > 0 && t.limit > 0);
        }
        ls_exchange_bench_destroy(&bench);
        CHECK(c, bench == NULL);
    }
}

int main(void) {
    alarm(100);
    // A child process starts MPI, alone: before this one does.
    int64_t bytes = ls_machine_mpi_bytes();
    ls_context *context;
    CHECK_OK((ls_comm *)NULL, ls_context_create(&context));
    ls_comm *c = context->comm;
    CHECK(c, bytes >= 0 && bytes < (int64_t)1 << 30);
    CHECK(c, c->size == 1 || ls_machine_mpi_thread_level() != NULL);
    networks_are_listed(c);
    cores_are_divided(context, c);
    if (c->size == 1) memory_lies_near_its_core(context, c);
    builds_say_what_they_have(c);
    layers_are_timed(c, "cpu", 1);
    layers_are_timed(c, "ref", 0);
    layer_benches_fail_with_words(c);
    exchanges_are_timed(context, c);
    ls_context_destroy(&context);
    return 0;
}
