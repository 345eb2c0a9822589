// Checkpoints by the API, on any number of workers and hosts: what is gone on with ends as what was never left, damaged ones are found
// however they are damaged, and states that say what cannot be are refused.
#define _GNU_SOURCE
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/checkpoint.h>
#include <lockstep/lockstep.h>

#include "train/checkpoint.h"
#include "train/context.h"
#include "worker_check.h"

typedef struct job {
    ls_context *context;
    ls_comm *comm;
    ls_dataset *data;
    ls_graph *graph;
    char folder[64];  // known to all workers
} job;

static ls_graph *network(job *j, const char *name) {
    ls_graph *g;
    CHECK_OK(j->comm, ls_graph_create(name, LS_SHAPE(28, 28, 1), &g));
    ls_value x = ls_conv2d(g, ls_graph_input(g), &(ls_conv2d_attrs){.filters = 4, .kernel = {3, 3}, .strides = {3, 3}});
    x = ls_batch_norm(g, x, &(ls_batch_norm_attrs){0});
    x = ls_dropout(g, ls_flatten(g, x, NULL), &(ls_dropout_attrs){.rate = 0.3f});
    CHECK_OK(j->comm, ls_graph_finish(g, ls_dense(g, x, &(ls_dense_attrs){.name = "head", .units = 10})));
    return g;
}

typedef struct recipe {
    const char *optimizer, *strategy, *precision, *device;
    double clip, bucket;
    int lookahead;
} recipe;

static ls_trainer *new_trainer(job *j, const recipe *r) {
    ls_trainer *t;
    ls_train_config c;
    ls_train_config_init(&c);
    c.device = r->device, c.optimizer = r->optimizer, c.strategy = r->strategy, c.precision = r->precision;
    c.lr = 0.01, c.clip_norm = r->clip, c.bucket_size = r->bucket;
    c.schedule = "cosine", c.warmup_epochs = 0.5;
    if (strcmp(r->optimizer, "sgd") == 0) c.momentum = 0.9, c.momentum_correction = 1;
    c.lookahead = r->lookahead, c.lookahead_power = 1;
    c.augment = "crop";
    c.batch_size = 16, c.micro_batch = 2, c.replicas = 1, c.bind = 0, c.validate = 1;
    c.epochs = 3, c.limit_train = 93, c.limit_test = 16;  // six steps, the last a smaller one
    CHECK_OK(j->comm, ls_trainer_create(j->context, j->graph, j->data, &c, &t));
    return t;
}

static void clear(job *j) {
    char command[128];
    CHECK_OK(j->comm, ls_comm_barrier(j->comm));
    snprintf(command, sizeof command, "rm -rf %s/*", j->folder);
    if (j->comm->rank == 0) CHECK(j->comm, system(command) == 0);
    CHECK_OK(j->comm, ls_comm_barrier(j->comm));
}

// What has to be the same: the weights, and the log.
typedef struct outcome {
    char digest[65];
    ls_epoch_result epochs[3];
} outcome;

static outcome outcome_of(job *j, ls_trainer *t) {
    ls_train_result r;
    outcome o;
    CHECK_OK(j->comm, ls_trainer_result(t, &r));
    CHECK(j->comm, r.epochs == 3);
    memcpy(o.digest, r.weights_digest, sizeof o.digest);
    memcpy(o.epochs, r.epoch, sizeof o.epochs);
    return o;
}

static void check_same(job *j, const outcome *a, const outcome *b) {
    CHECK(j->comm, strcmp(a->digest, b->digest) == 0);
    for (int e = 0; e < 3; e++) {
        const ls_epoch_result *x = &a->epochs[e], *y = &b->epochs[e];
        CHECK(j->comm, x->epoch == y->epoch && x->steps == y->steps && x->loss == y->loss &&
                           x->accuracy == y->accuracy && x->learning_rate == y->learning_rate &&
                           x->val_loss == y->val_loss && x->val_accuracy == y->val_accuracy);
    }
}

static ls_checkpoint_config every_step(job *j) {
    ls_checkpoint_config c;
    ls_checkpoint_config_init(&c);
    c.folder = j->folder;
    c.every_steps = 1;
    c.keep = 100;
    c.recipe = "{\"lr\": 0.5}";
    return c;
}

// Goes on from `name`, to the end.
static void resumes(job *j, const recipe *r, const char *name, const outcome *whole) {
    char path[192];
    ls_checkpoint *c = NULL;
    snprintf(path, sizeof path, "%s/%s", j->folder, name);
    if (j->comm->rank == 0) {
        CHECK_OK(j->comm, ls_checkpoint_find(path, &c));
        CHECK(j->comm,
              strcmp(ls_checkpoint_recipe(c), "{\"lr\":0.5}") == 0 && strcmp(ls_checkpoint_path(c), path) == 0);
        CHECK(j->comm, strstr(ls_checkpoint_numerics(c), r->device) && !*ls_checkpoint_damaged(c));
    }
    ls_trainer *t = new_trainer(j, r);
    CHECK_OK(j->comm, ls_trainer_resume(t, c));
    ls_checkpoint_close(&c);
    CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
    outcome o = outcome_of(j, t);
    check_same(j, whole, &o);
    ls_trainer_destroy(&t);
}

static int is_there(job *j, const char *name) {
    char path[192];
    struct stat s;
    snprintf(path, sizeof path, "%s/%s/" LS_CHECKPOINT_MANIFEST, j->folder, name);
    int there = stat(path, &s) == 0;
    CHECK_OK(j->comm, ls_comm_broadcast(j->comm, &there, 1, LS_DTYPE_I32, 0));
    return there;
}

static void goes_on(job *j, const recipe *r) {
    clear(j);
    ls_trainer *t = new_trainer(j, r);
    CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
    outcome whole = outcome_of(j, t), o;
    ls_trainer_destroy(&t);

    t = new_trainer(j, r);
    ls_checkpoint_config config = every_step(j);
    CHECK_OK(j->comm, ls_trainer_checkpoints(t, &config));
    CHECK(j->comm, ls_trainer_checkpoints(t, &config) == LS_STATUS_INVALID_ARGUMENT);
    CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
    CHECK_OK(j->comm, ls_trainer_step(t, NULL));
    CHECK_OK(j->comm, ls_trainer_step(t, NULL));
    CHECK_OK(j->comm, ls_trainer_checkpoint_now(t));  // whatever else was taken or left out
    while (ls_trainer_steps_left(t) > 0) CHECK_OK(j->comm, ls_trainer_step(t, NULL));
    CHECK_OK(j->comm, ls_trainer_end_epoch(t, NULL));
    CHECK_OK(j->comm, ls_trainer_checkpoint_wait(t));
    CHECK_OK(j->comm, ls_trainer_fit(t, NULL));
    o = outcome_of(j, t);
    check_same(j, &whole, &o);
    if (j->comm->rank == 0) CHECK(j->comm, ls_trainer_checkpoint_costs(t).written >= 4);
    ls_trainer_destroy(&t);

    CHECK(j->comm, is_there(j, "step-000000002") && is_there(j, "epoch-0001") && is_there(j, "epoch-0003"));
    resumes(j, r, "step-000000002", &whole);
    resumes(j, r, "epoch-0001", &whole);
    resumes(j, r, "epoch-0003", &whole);
}

// --- damage ----------------------------------------------------------------------------------------------------------

static unsigned random_state = 1;
static unsigned draw(unsigned n) {
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static const char *const files[] = {"weights.safetensors", "first_moment.safetensors", "second_moment.safetensors",
                                    LS_CHECKPOINT_STATE, LS_CHECKPOINT_MANIFEST};
enum { FILES = 5 };

static char *read_file(job *j, const char *path, long *size) {
    FILE *f = fopen(path, "rb");
    CHECK(j->comm, f && fseek(f, 0, SEEK_END) == 0 && (*size = ftell(f)) > 0);
    char *data = malloc((size_t)*size + 1);
    CHECK(j->comm, data && fseek(f, 0, SEEK_SET) == 0 && fread(data, 1, (size_t)*size, f) == (size_t)*size);
    data[*size] = 0;
    fclose(f);
    return data;
}

static void write_file(job *j, const char *path, const char *data, long size) {
    FILE *f = fopen(path, "wb");
    CHECK(j->comm, f && fwrite(data, 1, (size_t)size, f) == (size_t)size && fclose(f) == 0);
}

// One file is cut, flipped in one bit or several, filled, swapped with another or gone: never is it taken for whole.
static void damage_is_found(job *j, int times) {
    char path[FILES][192], one[128];
    char *data[FILES];
    long size[FILES];
    snprintf(one, sizeof one, "%s/epoch-0003", j->folder);
    for (int i = 0; i < FILES; i++) {
        snprintf(path[i], sizeof path[i], "%s/%s", one, files[i]);
        data[i] = read_file(j, path[i], &size[i]);
    }
    for (int k = 0; k < times; k++) {
        ls_checkpoint *c = NULL;
        unsigned which = draw(FILES), other = (which + 1 + draw(FILES - 1)) % FILES, way = draw(6);
        char *copy = malloc((size_t)size[which] + 64);
        CHECK(j->comm, copy != NULL);
        memcpy(copy, data[which], (size_t)size[which]);
        long n = size[which], at = (long)draw((unsigned)n);
        if (way == 0) n = at;
        if (way == 1 || way == 2)
            for (unsigned flips = way == 1 ? 1 : 1 + draw(20); flips > 0; flips--)
                copy[draw((unsigned)n)] ^= (char)(1 << draw(8));
        if (way == 3) memset(copy + at, (int)draw(256), (size_t)(n - at));
        if (way == 4) memcpy(copy + n, "more", 4), n += 4;
        int changed = n != size[which] || memcmp(copy, data[which], (size_t)n) != 0;
        if (way == 5)
            write_file(j, path[which], data[other], size[other]), changed = 1;
        else
            write_file(j, path[which], copy, n);
        if (way == 0 && which == FILES - 1 && at == size[which] - 1)
            changed = 0;  // the newline at the manifest's end says nothing
        ls_status status = ls_checkpoint_find(one, &c);
        if (changed && status != LS_STATUS_BAD_DATA)
            fprintf(stderr, "damage %d: %s, way %u, byte %ld of %ld: %s\n", k, files[which], way, at, size[which],
                    ls_status_name(status));
        if (changed) CHECK(j->comm, status == LS_STATUS_BAD_DATA && *ls_error_message() && !c);
        ls_checkpoint_close(&c);
        write_file(j, path[which], data[which], size[which]);
        free(copy);
    }
    for (int i = 0; i < FILES; i++) free(data[i]);
}

// A state that says anything at all is applied whole or refused; hostile ones have hashes that are right.
static void hostile_states(job *j, const recipe *r, int times) {
    char path[192];
    long size;
    snprintf(path, sizeof path, "%s/epoch-0001/" LS_CHECKPOINT_STATE, j->folder);
    char *text = read_file(j, path, &size);
    int refused = 0;
    ls_trainer *t = new_trainer(j, r);
    for (int k = 0; k < times; k++) {
        static const char *const words[] = {"-1", "0",  "1e999", "9223372036854775807",  "null",
                                            "[]", "{}", "\"x\"", "99999999999999999999", "-0.5"};
        char *copy = strdup(text), *colon = copy;
        for (unsigned skip = draw(60); skip > 0 && colon; skip--) colon = strchr(colon + 1, ':');
        if (!colon || colon == copy) {
            free(copy);
            continue;
        }
        char *end = colon + 1 + strcspn(colon + 1, ",\n"), *hostile;
        *colon = 0;
        CHECK(j->comm, asprintf(&hostile, "%s: %s%s", copy, words[draw(10)], end) > 0);
        json_t *state = json_loads(hostile, 0, NULL);
        if (state) refused += ls__state_apply(t, "hostile", state) != LS_OK;
        json_decref(state);
        free(hostile);
        free(copy);
    }
    CHECK(j->comm, refused > times / 20);
    ls_trainer_destroy(&t);
    free(text);
}

static void bad_calls(job *j, const recipe *r) {
    ls_checkpoint *c = NULL;
    ls_checkpoint_config config = every_step(j);
    ls_trainer *t = new_trainer(j, r);
    CHECK(j->comm, ls_trainer_checkpoint_now(t) == LS_STATUS_INVALID_ARGUMENT);
    CHECK_OK(j->comm, ls_trainer_checkpoint_wait(t));
    CHECK(j->comm, ls_trainer_resume(t, NULL) == LS_STATUS_INVALID_ARGUMENT);
    CHECK(j->comm, ls_trainer_checkpoints(t, &config) == LS_STATUS_IO);  // there are those of another training
    CHECK(j->comm, strstr(ls_error_message(), "has checkpoints of an earlier training, the newest epoch-0003"));
    config.recipe = "[1]";
    config.keep = 0;
    CHECK(j->comm, ls_trainer_checkpoints(t, &config) == LS_STATUS_INVALID_ARGUMENT);
    CHECK_OK(j->comm, ls_trainer_begin_epoch(t));
    if (j->comm->rank == 0) CHECK_OK(j->comm, ls_checkpoint_find(j->folder, &c));
    CHECK(j->comm, ls_trainer_resume(t, c) == LS_STATUS_INVALID_ARGUMENT);
    ls_checkpoint_close(&c);
    ls_trainer_destroy(&t);
    CHECK(j->comm, ls_checkpoint_find("/nowhere", &c) == LS_STATUS_NOT_FOUND && !c);
    CHECK(j->comm, ls_checkpoint_epoch(NULL) == 0 && !ls_checkpoint_path(NULL));
}

// LOCKSTEP_DAMAGES: how often a checkpoint is damaged, for the long form.
static int damages(void) {
    const char *text = getenv("LOCKSTEP_DAMAGES");
    return text ? atoi(text) : 300;
}

// The whole life of checkpoints with as many hosts as the context has.
static void test_hosts(ls_context *context, int thorough) {
    job j = {.context = context, .comm = context->comm};
    CHECK_OK(j.comm, ls_dataset_open(j.context, "digits", &j.data));
    j.graph = network(&j, "net");
    if (j.comm->rank == 0) {
        snprintf(j.folder, sizeof j.folder, "/tmp/lockstep-checkpoint.XXXXXX");
        CHECK(j.comm, mkdtemp(j.folder));
    }
    CHECK_OK(j.comm, ls_comm_broadcast(j.comm, j.folder, sizeof j.folder, LS_DTYPE_U8, 0));
    recipe last = {"adam", "allreduce", "fp32", "cpu", 0, 0.005, 0};
    if (thorough) {
        goes_on(&j, &(recipe){"sgd", "reduce-broadcast", "fp32", "cpu", 0, 0, 4});
        goes_on(&j, &(recipe){"adamw", "tree", "fp32", "ref", 0, 0.01, 0});
    }
    goes_on(&j, &(recipe){"lamb", "allreduce", "fp32", "cpu", 1, 0.01, 3});
    goes_on(&j, &last);
    bad_calls(&j, &last);
    if (j.comm->size == 1) {
        damage_is_found(&j, damages());
        hostile_states(&j, &last, damages());
    }
    clear(&j);
    if (j.comm->rank == 0) rmdir(j.folder);
    ls_graph_destroy(&j.graph);
    ls_dataset_destroy(&j.data);
}

int main(void) {
    ls_context *world, *context;  // the first keeps MPI running
    unsetenv("LOCKSTEP_TEST_HOSTS");
    CHECK_OK((ls_comm *)NULL, ls_context_create(&world));
    test_hosts(world, 1);
    for (int hosts = 2; hosts <= 3 && hosts <= world->comm->size; hosts++) {
        setenv("LOCKSTEP_TEST_HOSTS", hosts == 2 ? "2" : "3", 1);
        CHECK_OK(world->comm, ls_context_create(&context));
        test_hosts(context, hosts == 2);
        ls_context_destroy(&context);
    }
    ls_context_destroy(&world);
    return 0;
}
