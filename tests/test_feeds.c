// Loaders of several threads and of fields of all kinds: the same batches for any number of threads, samples that cannot be
// read, and leaving at any time.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bf16.h"
#include "base/error.h"
#include "base/fp16.h"
#include "data/augment.h"
#include "data/loader.h"
#include "data/noise.h"
#include "ok.h"

enum { COUNT = 61, MICRO = 9, EPOCH = (COUNT + MICRO - 1) / MICRO, SIDE = 8, TOKENS = 5 };

static const ls_field fields[] = {{"image", {3, {SIDE, SIDE, 3}}, LS_DTYPE_U8, 0},
                                  {"tokens", {1, {TOKENS}}, LS_DTYPE_I32, 1 << 20},
                                  {"label", {0}, LS_DTYPE_I32, 1000},
                                  {"row", {1, {4}}, LS_DTYPE_F32, 0}};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static uint32_t order[COUNT];
static ls_range ranges[EPOCH];

// What the function does; looked at by many threads.
typedef struct giver {
    _Atomic int64_t fails_at, also_at;  // -1: nowhere
    _Atomic int slow;                   // microseconds per sample
    _Atomic int64_t reads, at_once, most_at_once;
} giver;

static ls_status give(void *user, int64_t i, void *const *out) {
    giver *g = user;
    int64_t now = atomic_fetch_add(&g->at_once, 1) + 1, most = atomic_load(&g->most_at_once);
    while (now > most && !atomic_compare_exchange_weak(&g->most_at_once, &most, now)) continue;
    atomic_fetch_add(&g->reads, 1);
    if (g->slow) usleep((useconds_t)g->slow);
    for (int b = 0; b < SIDE * SIDE * 3; b++) ((uint8_t *)out[0])[b] = (uint8_t)(i * 31 + b * 7);
    for (int k = 0; k < TOKENS; k++) ((int32_t *)out[1])[k] = (int32_t)(1000 * i + k);
    *(int32_t *)out[2] = (int32_t)(999 - i);
    for (int k = 0; k < 4; k++) ((float *)out[3])[k] = (float)i + (float)k / 4;
    atomic_fetch_sub(&g->at_once, 1);
    if (i == g->fails_at || i == g->also_at) return ls_error_set(LS_STATUS_IO, "no sample %lld here", (long long)i);
    return LS_OK;
}

static giver the_giver;
static ls_source *given, *stored;  // the same samples, from the function and from memory

static int set_up(void **state) {
    static uint8_t images[COUNT * SIDE * SIDE * 3];
    static int32_t tokens[COUNT * TOKENS], labels[COUNT];
    static float rows[COUNT * 4];
    ls_callback callback = {COUNT, give, &the_giver};
    ls_arrays arrays = {COUNT, {images, tokens, labels, rows}};
    the_giver.fails_at = -1;
    the_giver.also_at = -1;
    for (int64_t i = 0; i < COUNT; i++)
        give(&the_giver, i, (void *[]){images + i * SIDE * SIDE * 3, tokens + i * TOKENS, labels + i, rows + i * 4});
    for (int i = 0; i < EPOCH; i++) ranges[i] = (ls_range){i * MICRO, i < EPOCH - 1 ? MICRO : COUNT - i * MICRO};
    return ls_source_create_callback("the test's function", fields, FIELDS, &callback, &given) ||
           ls_source_create_memory("the test's arrays", fields, FIELDS, &arrays, &stored);
}

static int tear_down(void **state) {
    ls_source_destroy(&given);
    ls_source_destroy(&stored);
    return 0;
}

static void refused(ls_status status, ls_status expected, const char *words) {
    if (status != expected) fail_msg("%s: %s", ls_status_name(status), ls_error_message());
    if (!strstr(ls_error_message(), words)) fail_msg("\"%s\" without \"%s\"", ls_error_message(), words);
}

// The image twice: changed at random, and as it is, as something to be reached.
static ls_loader_config config_of(const ls_source *source, int threads, int depth) {
    return (ls_loader_config){.split = {source, source->count},
                              .feed = {{.field = "image",
                                        .dtype = LS_DTYPE_F32,
                                        .image = 1,
                                        .recipe = {.augment = LS_AUGMENT_FLIP | LS_AUGMENT_CROP, .seed = 3}},
                                       {.field = "tokens", .dtype = LS_DTYPE_I32},
                                       {.field = "label", .dtype = LS_DTYPE_I32},
                                       {.field = "row", .dtype = LS_DTYPE_BF16},
                                       {.field = "image", .dtype = LS_DTYPE_F32, .image = 1},
                                       {.field = "label", .dtype = LS_DTYPE_F32}},
                              .feed_count = 6,
                              .micro_batch = MICRO,
                              .depth = depth,
                              .threads = threads};
}

static const int64_t bytes_of[] = {SIDE * SIDE * 3 * 4, TOKENS * 4, 4, 4 * 2, SIDE *SIDE * 3 * 4, 4};

// ---- what comes out ------------------------------------------------------------------------------------------------

static void fields_come_as_they_are_wanted(void **state) {
    ls_loader_config c = config_of(stored, 1, 2);
    ls_loader *loader;
    ls_sampler_order(1, 1, 1, COUNT, order);
    OK(ls_loader_create(&c, &loader));
    OK(ls_loader_start(loader, 1, order, ranges, EPOCH));
    for (int b = 0; b < EPOCH; b++) {
        ls_batch *batch;
        OK(ls_loader_get(loader, &batch, NULL));
        for (int f = 0; f < 6; f++) assert_int_equal((uintptr_t)batch->feed[f] % 64, 0);
        for (int64_t i = 0; i < batch->count; i++) {
            uint32_t sample = order[b * MICRO + i];
            assert_int_equal(batch->samples[i], sample);
            for (int k = 0; k < TOKENS; k++)
                assert_int_equal(((int32_t *)batch->feed[1])[i * TOKENS + k], 1000 * (int)sample + k);
            assert_int_equal(((int32_t *)batch->feed[2])[i], 999 - (int)sample);
            assert_true(((float *)batch->feed[5])[i] == (float)(999 - (int)sample));
            for (int k = 0; k < 4; k++) {
                uint32_t bits = (uint32_t)((uint16_t *)batch->feed[3])[i * 4 + k] << 16;
                float value;
                memcpy(&value, &bits, 4);
                assert_true(value == (float)sample + (float)k / 4);
            }
            for (int p = 0; p < SIDE * SIDE * 3; p++)
                assert_true(((float *)batch->feed[4])[i * SIDE * SIDE * 3 + p] ==
                            (float)(uint8_t)((int)sample * 31 + p * 7) / 255.0f);
        }
        ls_loader_restore(loader, &batch);
    }
    ls_loader_destroy(&loader);
}

// An epoch of everything, batch behind batch, as one thread makes it of what lies in memory.
static void run_epoch(ls_loader *loader, uint32_t epoch, char *out) {
    ls_sampler_order(5, epoch, 1, COUNT, order);
    OK(ls_loader_start(loader, epoch, order, ranges, EPOCH));
    for (int b = 0; b < EPOCH; b++) {
        ls_batch *batch;
        OK(ls_loader_get(loader, &batch, NULL));
        assert_int_equal(batch->count, ranges[b].count);
        memcpy(out, batch->samples, (size_t)batch->count * 8);
        out += batch->count * 8;
        for (int f = 0; f < 6; f++) {
            memcpy(out, batch->feed[f], (size_t)(batch->count * bytes_of[f]));
            out += batch->count * bytes_of[f];
        }
        ls_loader_restore(loader, &batch);
    }
}

static void batches_do_not_depend_on_threads(void **state) {
    enum { EPOCHS = 3 };
    static const int threads[] = {1, 2, 4, 13};
    int64_t bytes = 8;
    for (int f = 0; f < 6; f++) bytes += bytes_of[f];
    bytes *= COUNT;
    char *first = malloc((size_t)(EPOCHS * bytes)), *again = malloc((size_t)bytes);
    for (int kind = 0; kind < 2; kind++)
        for (int t = 0; t < 4; t++)
            for (int depth = 1; depth <= 3; depth++) {
                ls_loader_config c = config_of(kind ? given : stored, threads[t], depth);
                ls_loader *loader;
                OK(ls_loader_create(&c, &loader));
                for (uint32_t e = 0; e < EPOCHS; e++) {
                    int reference = kind == 0 && t == 0 && depth == 1;
                    run_epoch(loader, e, reference ? first + e * bytes : again);
                    if (!reference) assert_memory_equal(first + e * bytes, again, (size_t)bytes);
                }
                ls_loader_destroy(&loader);
            }
    assert_true(memcmp(first, first + bytes, (size_t)bytes) != 0);
    free(first);
    free(again);
}

// They do work side by side: on one batch where there is only one, and on several.
static void threads_share_the_work(void **state) {
    ls_range whole = {0, 32}, single[] = {{0, 1}, {1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}};
    ls_sampler_order(0, 0, 0, COUNT, order);
    for (int several = 0; several < 2; several++) {
        ls_loader_config c = config_of(given, 4, several ? 4 : 1);
        ls_loader *loader;
        ls_batch *batch;
        c.micro_batch = 32;
        the_giver.slow = 2000;
        the_giver.most_at_once = 0;
        the_giver.reads = 0;
        OK(ls_loader_create(&c, &loader));
        OK(ls_loader_start(loader, 0, order, several ? single : &whole, several ? 8 : 1));
        for (int i = 0; i < (several ? 8 : 1); i++) {
            OK(ls_loader_get(loader, &batch, NULL));
            ls_loader_restore(loader, &batch);
        }
        ls_loader_destroy(&loader);
        the_giver.slow = 0;
        assert_int_equal(the_giver.reads, several ? 8 : 32);
        assert_in_range(the_giver.most_at_once, 2, 4);
    }
}

// ---- samples that cannot be read -----------------------------------------------------------------------------------

// The batch of it fails, with a sentence; those before and after it come, and so does the next epoch.
static void a_failing_sample_fails_its_batch(void **state) {
    static const int threads[] = {1, 2, 4};
    ls_sampler_order(2, 0, 1, COUNT, order);
    for (int t = 0; t < 3; t++)
        for (int at = 0; at < COUNT; at += 6) {
            ls_loader_config c = config_of(given, threads[t], 1 + at % 3);
            ls_loader *loader;
            ls_batch *batch;
            char words[96];
            OK(ls_loader_create(&c, &loader));
            for (int round = 0; round < 2; round++) {
                the_giver.fails_at = round ? -1 : (int64_t)order[at];
                OK(ls_loader_start(loader, 1, order, ranges, EPOCH));
                for (int b = 0; b < EPOCH; b++) {
                    ls_status status = ls_loader_get(loader, &batch, NULL);
                    if (round == 0 && b == at / MICRO) {
                        snprintf(words, sizeof words, "sample %u of the test's function: no sample %u here", order[at],
                                 order[at]);
                        refused(status, LS_STATUS_IO, words);
                        assert_null(batch);
                    } else {
                        OK(status);
                        assert_int_equal(batch->samples[0], order[b * MICRO]);
                    }
                    ls_loader_restore(loader, &batch);
                }
            }
            ls_loader_destroy(&loader);
        }
    the_giver.fails_at = -1;
}

// Of two in one batch always the first is told, whichever thread comes by it first.
static void the_first_of_two_failures_is_told(void **state) {
    ls_loader_config c = config_of(given, 4, 1);
    ls_loader *loader;
    ls_batch *batch;
    ls_range whole = {0, 40};
    c.micro_batch = 40;
    ls_sampler_order(0, 0, 0, COUNT, order);
    the_giver.fails_at = 33;
    the_giver.also_at = 7;
    OK(ls_loader_create(&c, &loader));
    for (int round = 0; round < 50; round++) {
        OK(ls_loader_start(loader, 0, order, &whole, 1));
        refused(ls_loader_get(loader, &batch, NULL), LS_STATUS_IO, "no sample 7 here");
    }
    ls_loader_destroy(&loader);
    the_giver.fails_at = -1;
    the_giver.also_at = -1;
}

// After a failure, before it was noticed, in the middle of slow samples: cancelling and leaving end soon, and the memory can be used
// by another loader.
static void failing_loaders_can_be_left(void **state) {
    ls_sampler_order(4, 0, 1, COUNT, order);
    for (int threads = 1; threads <= 4; threads++)
        for (int taken = 0; taken < 4; taken++)
            for (int cancel = 0; cancel < 2; cancel++) {
                ls_loader_config c = config_of(given, threads, 3);
                ls_loader *loader;
                ls_batch *batch;
                the_giver.fails_at = (int64_t)order[MICRO + 2];
                the_giver.slow = taken % 2 ? 300 : 0;
                OK(ls_loader_create(&c, &loader));
                OK(ls_loader_start(loader, 0, order, ranges, EPOCH));
                for (int b = 0; b < taken; b++) {
                    assert_int_equal(ls_loader_get(loader, &batch, NULL), b == 1 ? LS_STATUS_IO : LS_OK);
                    ls_loader_restore(loader, &batch);
                }
                if (cancel) {
                    ls_loader_cancel(loader);
                    refused(ls_loader_get(loader, &batch, NULL), LS_STATUS_INVALID_ARGUMENT, "start");
                    the_giver.fails_at = -1;
                    the_giver.slow = 0;
                    OK(ls_loader_start(loader, 0, order, ranges, EPOCH));
                    for (int b = 0; b < EPOCH; b++) {
                        OK(ls_loader_get(loader, &batch, NULL));
                        for (int64_t i = 0; i < batch->count; i++) {
                            assert_int_equal(batch->samples[i], order[b * MICRO + i]);
                            assert_int_equal(((int32_t *)batch->feed[2])[i], 999 - (int)order[b * MICRO + i]);
                        }
                        ls_loader_restore(loader, &batch);
                    }
                }
                ls_loader_destroy(&loader);
            }
    the_giver.fails_at = -1;
    the_giver.slow = 0;
}

// Leaving does not wait for a whole batch of slow samples.
static void leaving_waits_for_a_sample_at_most(void **state) {
    ls_loader_config c = config_of(given, 1, 1);
    ls_loader *loader;
    ls_range whole = {0, COUNT};
    c.micro_batch = COUNT;
    ls_sampler_order(0, 0, 0, COUNT, order);
    the_giver.slow = 20000;
    the_giver.reads = 0;
    OK(ls_loader_create(&c, &loader));
    OK(ls_loader_start(loader, 0, order, &whole, 1));
    while (the_giver.reads < 2) usleep(1000);
    ls_loader_cancel(loader);
    ls_loader_destroy(&loader);
    the_giver.slow = 0;
    assert_in_range(the_giver.reads, 2, COUNT / 2);
}

// ---- what is refused -----------------------------------------------------------------------------------------------

static void feeds_that_cannot_be_are_refused(void **state) {
    const ls_status bad = LS_STATUS_INVALID_ARGUMENT;
    ls_loader *loader;
    ls_loader_config c = config_of(given, 1, 1);
    c.feed[1].field = "words";
    refused(ls_loader_create(&c, &loader), bad,
            "the test's function has no field \"words\"; there are: image, tokens, label, row");
    c = config_of(given, 1, 1), c.feed[1].image = 1;
    refused(ls_loader_create(&c, &loader), bad, "\"tokens\" of the test's function has 1 dimensions of i32; images");
    c = config_of(given, 1, 1), c.feed[3].dtype = LS_DTYPE_I32;
    refused(ls_loader_create(&c, &loader), LS_STATUS_UNSUPPORTED,
            "the field \"row\" of the test's function: values in fp32 cannot be turned into i32");
    c = config_of(given, 1, 1), c.feed_count = 0;
    refused(ls_loader_create(&c, &loader), bad, "0 feeds");
    c.feed_count = LS_MAX_FIELDS + 1;
    refused(ls_loader_create(&c, &loader), bad, "17 feeds");
    c = config_of(given, -1, 1);
    refused(ls_loader_create(&c, &loader), bad, "-1 threads");
    c = config_of(given, 1, 1), c.split.count = COUNT + 1;
    refused(ls_loader_create(&c, &loader), bad, "the first 62 samples of the test's function, which has 61");
    c.split.count = 10;  // a part is fine, and what is beyond it is not there
    ls_range last = {9, 2};
    ls_sampler_order(0, 0, 0, COUNT, order);
    OK(ls_loader_create(&c, &loader));
    refused(ls_loader_start(loader, 0, order, &last, 1), bad, "sample 10 of a dataset of 10");
    ls_loader_destroy(&loader);
}

// What threads read into comes with the batches.
static void scratch_is_counted(void **state) {
    ls_loader_config memory = config_of(stored, 3, 2), function = config_of(given, 3, 2);
    assert_int_equal(ls_loader_bytes(&function) - ls_loader_bytes(&memory), 3 * (192 + 64 + 64 + 64));
    int64_t bytes = ls_loader_bytes(&memory);
    memory.threads = 1;
    assert_int_equal(ls_loader_bytes(&memory), bytes);
}

// A class becomes a row: its weight at the class, a part of it everywhere where it is smoothed.
static void classes_become_rows(void **state) {
    static float weights[1003];
    for (int k = 0; k < 1003; k++) weights[k] = 1 + (float)(k % 5);
    for (int way = 0; way < 3; way++) {
        double smoothing = way == 2 ? 0.25 : 0;
        ls_loader_config c = {.split = {stored, COUNT},
                              .feed = {{.field = "label",
                                        .kind = LS_FEED_CLASS,
                                        .dtype = LS_DTYPE_F32,
                                        .shape = {1, {1003}},
                                        .weights = way ? weights : NULL,
                                        .smoothing = smoothing}},
                              .feed_count = 1,
                              .micro_batch = MICRO,
                              .depth = 2,
                              .threads = 2};
        ls_loader *loader;
        ls_batch *batch;
        ls_sampler_order(1, 1, 1, COUNT, order);
        OK(ls_loader_create(&c, &loader));
        OK(ls_loader_start(loader, 1, order, ranges, EPOCH));
        OK(ls_loader_get(loader, &batch, NULL));
        for (int64_t i = 0; i < batch->count; i++) {
            const float *row = (const float *)batch->feed[0] + i * 1003;
            int class = 999 - (int)order[i];
            for (int k = 0; k < 1003; k++) {
                double weight = way ? 1 + class % 5 : 1;
                assert_true(row[k] == (float)(weight * (smoothing / 1003 + (k == class ? 1 - smoothing : 0))));
            }
        }
        ls_loader_restore(loader, &batch);
        ls_loader_destroy(&loader);
        c.feed[0].shape.dim[0] = 999;
        refused(ls_loader_create(&c, &loader), LS_STATUS_INVALID_ARGUMENT, "is no class below 999");
        c.feed[0].field = "row";
        refused(ls_loader_create(&c, &loader), LS_STATUS_INVALID_ARGUMENT, "of which a row in fp32 could be made");
    }
}

static float value_at(const void *values, ls_dtype dtype, int64_t i) {
    if (dtype == LS_DTYPE_F16) return ls_fp16_to_float(((const ls_fp16 *)values)[i]);
    return dtype == LS_DTYPE_BF16 ? ls_bf16_to_float(((const ls_bf16 *)values)[i]) : ((const float *)values)[i];
}

// A mixed sample is so much of itself, and the rest of another, as both would be by themselves; its row likewise. The shares are Beta's.
static void samples_are_mixed(void **state) {
    enum { VALUES = SIDE * SIDE * 3, CLASSES = 1000 };
    const double alphas[] = {0.2, 1};
    const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F32, LS_DTYPE_F32, LS_DTYPE_F32, LS_DTYPE_BF16, LS_DTYPE_F16};
    float *alone = malloc(sizeof *alone * COUNT * VALUES);
    for (int way = 0; way < 6; way++) {
        ls_dtype dtype = dtypes[way];
        float near = dtype == LS_DTYPE_F32 ? 1e-6F : dtype == LS_DTYPE_BF16 ? 0x1p-8F : 0x1p-11F;  // values are up to 1
        double alpha = alphas[way % 2], mean = 0, square = 0;
        for (int mixed = 0; mixed < 2; mixed++) {
            ls_recipe recipe = {.augment = LS_AUGMENT_FLIP | LS_AUGMENT_CROP, .seed = 3};
            ls_loader_config c = {.split = {way < 2 ? stored : given, COUNT},
                                  .feed = {{.field = "image", .dtype = dtype, .image = 1, .recipe = recipe},
                                           {.field = "label",
                                            .kind = LS_FEED_CLASS,
                                            .dtype = LS_DTYPE_F32,
                                            .shape = {1, {CLASSES}},
                                            .recipe = recipe}},
                                  .feed_count = 2,
                                  .micro_batch = MICRO,
                                  .depth = 2,
                                  .threads = 1 + way};
            for (int f = 0; mixed && f < 2; f++) c.feed[f].mix = alpha, c.feed[f].mix_count = 40;
            ls_loader *loader;
            ls_sampler_order(1, 1, 1, COUNT, order);
            OK(ls_loader_create(&c, &loader));
            OK(ls_loader_start(loader, 5, order, ranges, EPOCH));
            for (int b = 0; b < EPOCH; b++) {
                ls_batch *batch;
                OK(ls_loader_get(loader, &batch, NULL));
                for (int64_t i = 0; i < batch->count; i++) {
                    uint32_t sample = order[b * MICRO + i];
                    const float *row = (const float *)batch->feed[1] + i * CLASSES;
                    int64_t other;
                    float share = ls_noise_mix(3, 5, sample, alpha, 40, &other), sum = 0;
                    if (!mixed) {
                        for (int k = 0; k < VALUES; k++)
                            alone[sample * VALUES + k] = value_at(batch->feed[0], dtype, i * VALUES + k);
                        continue;
                    }
                    assert_true(other >= 0 && other < 40 && share >= 0 && share <= 1);
                    for (int k = 0; k < VALUES; k++) {
                        float expected = share * alone[sample * VALUES + k] + (1 - share) * alone[other * VALUES + k];
                        float mixed_value = value_at(batch->feed[0], dtype, i * VALUES + k);
                        assert_true(mixed_value - expected < near && expected - mixed_value < near);
                    }
                    for (int k = 0; k < CLASSES; k++) sum += row[k];
                    assert_true(sum > 0.99999F && sum < 1.00001F);
                    if (other != sample) assert_true(row[999 - sample] == share && row[999 - other] == 1 - share);
                }
                ls_loader_restore(loader, &batch);
            }
            ls_loader_destroy(&loader);
        }
        // The mean is a half, the variance 1 / (4 (2 alpha + 1)).
        for (uint32_t n = 0; n < 20000; n++) {
            int64_t other;
            double share = (double)ls_noise_mix(7, 1, n, alpha, COUNT, &other);
            mean += share / 20000;
            square += (share - 0.5) * (share - 0.5) / 20000;
        }
        assert_true(mean > 0.49 && mean < 0.51);
        assert_true(square > 0.97 / (4 * (2 * alpha + 1)) && square < 1.03 / (4 * (2 * alpha + 1)));
    }
    free(alone);
}

int main(void) {
    alarm(100);  // a hang ends the test
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_come_as_they_are_wanted),
        cmocka_unit_test(batches_do_not_depend_on_threads),
        cmocka_unit_test(threads_share_the_work),
        cmocka_unit_test(a_failing_sample_fails_its_batch),
        cmocka_unit_test(the_first_of_two_failures_is_told),
        cmocka_unit_test(failing_loaders_can_be_left),
        cmocka_unit_test(leaving_waits_for_a_sample_at_most),
        cmocka_unit_test(feeds_that_cannot_be_are_refused),
        cmocka_unit_test(scratch_is_counted),
        cmocka_unit_test(classes_become_rows),
        cmocka_unit_test(samples_are_mixed),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
