// The loader: order, content and keys of micro-batches, epochs one after the other, and leaving at any time.
#define _GNU_SOURCE
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bf16.h"
#include "data/augment.h"
#include "data/loader.h"

enum { COUNT = 103, PIXELS = 5 * 7, MICRO = 8, EPOCH = (COUNT + MICRO - 1) / MICRO };

static uint8_t images[COUNT * PIXELS], labels[COUNT];
static const ls_field fields[] = {{"image", {3, {5, 7, 1}}, LS_DTYPE_U8, 0}, {"label", {0}, LS_DTYPE_U8, 10}};
static ls_source *source;
static uint32_t order[COUNT];
static ls_range ranges[EPOCH];

static int fill_split(void **state) {
    for (int i = 0; i < COUNT * PIXELS; i++) images[i] = (uint8_t)(i * 31 + i / 256);
    for (int i = 0; i < COUNT; i++) labels[i] = (uint8_t)(i % 10);
    for (int i = 0; i < EPOCH; i++) {
        ranges[i].first = i * MICRO;
        ranges[i].count = i < EPOCH - 1 ? MICRO : COUNT - i * MICRO;
    }
    ls_arrays arrays = {COUNT, {images, labels}};
    return ls_source_create_memory("the test's images", fields, 2, &arrays, &source) == LS_OK ? 0 : -1;
}

static int free_split(void **state) {
    ls_source_destroy(&source);
    return 0;
}

// Of all samples of a source: images in `dtype`, then labels.
static ls_loader_config images_of(const ls_source *from, ls_dtype dtype, int64_t micro, int depth) {
    return (ls_loader_config){
        .split = {from, from->count},
        .feed = {{.field = "image", .dtype = dtype, .image = 1}, {.field = "label", .dtype = LS_DTYPE_I32}},
        .feed_count = 2,
        .micro_batch = micro,
        .depth = depth};
}

static ls_loader *make(ls_dtype dtype, int depth) {
    ls_loader_config config = images_of(source, dtype, MICRO, depth);
    ls_loader *loader;
    assert_int_equal(ls_loader_create(&config, &loader), LS_OK);
    return loader;
}

static void test_bytes(void **state) {
    ls_loader_config config = images_of(source, LS_DTYPE_F32, MICRO, 3);
    assert_int_equal(ls_loader_bytes(&config), 3 * (64 + 64 + 8 * 35 * 4 + 32));  // whole lines: 1120 become 1152
    config.feed[0].dtype = LS_DTYPE_BF16;
    config.depth = 1;
    config.feed[0].recipe = (ls_recipe){.height = 64, .width = 32};
    assert_int_equal(ls_loader_bytes(&config), 64 + 64 + 8 * 64 * 32 * 2);
    config.micro_batch = 4096;
    assert_int_equal(ls_loader_bytes(&config), 4096 * (8 + 4 + 64 * 32 * 2));
}

static void check_batch(const ls_batch *b, ls_dtype dtype, ls_range range) {
    assert_int_equal(b->count, range.count);
    assert_int_equal((uintptr_t)b->feed[0] % 64, 0);
    for (int64_t i = 0; i < b->count; i++) {
        uint32_t sample = order[range.first + i];
        assert_int_equal(b->samples[i], sample);
        assert_int_equal(((int32_t *)b->feed[1])[i], sample % 10);
        for (int p = 0; p < PIXELS; p++) {
            // In double the quotient is so near the true one that rounding it once more changes nothing.
            float want = (float)(images[sample * PIXELS + p] / 255.0);
            int64_t at = i * PIXELS + p;
            if (dtype == LS_DTYPE_F32)
                assert_memory_equal((float *)b->feed[0] + at, &want, 4);
            else
                assert_int_equal(((ls_bf16 *)b->feed[0])[at], ls_float_to_bf16(want));
        }
    }
}

// Several epochs of shuffled order through rings of several depths, the last micro-batch shorter.
static void test_epochs(void **state) {
    for (int dtype = LS_DTYPE_F32; dtype <= LS_DTYPE_BF16; dtype++)
        for (int depth = 1; depth <= EPOCH + 2; depth += depth < 3 ? 1 : 6) {
            ls_loader *loader = make(dtype, depth);
            for (uint32_t epoch = 0; epoch < 4; epoch++) {
                ls_sampler_order(5, epoch, 1, COUNT, order);
                assert_int_equal(ls_loader_start(loader, 0, order, ranges, EPOCH), LS_OK);
                for (int i = 0; i < EPOCH; i++) {
                    ls_batch *batch;
                    double waited = -1;
                    assert_int_equal(ls_loader_get(loader, &batch, &waited), LS_OK);
                    assert_true(waited >= 0 && waited < 10);
                    check_batch(batch, dtype, ranges[i]);
                    ls_loader_restore(loader, &batch);
                    assert_null(batch);
                }
            }
            ls_loader_destroy(&loader);
            assert_null(loader);
        }
}

// All 256 pixel values come out as their quotient by 255, whatever the position in a vector.
static void test_values(void **state) {
    static uint8_t all[256 * 3], label[3];
    for (int i = 0; i < 768; i++) all[i] = (uint8_t)(i * 7);
    const ls_field square[] = {{"image", LS_SHAPE(16, 16, 1), LS_DTYPE_U8, 0}, {"label", {0}, LS_DTYPE_U8, 1}};
    ls_arrays arrays = {3, {all, label}};
    ls_source *three;
    assert_int_equal(ls_source_create_memory("three images", square, 2, &arrays, &three), LS_OK);
    for (int dtype = LS_DTYPE_F32; dtype <= LS_DTYPE_BF16; dtype++) {
        ls_loader_config config = images_of(three, (ls_dtype)dtype, 3, 1);
        uint32_t identity[3] = {0, 1, 2};
        ls_range range = {0, 3};
        ls_loader *loader;
        ls_batch *b;
        assert_int_equal(ls_loader_create(&config, &loader), LS_OK);
        assert_int_equal(ls_loader_start(loader, 0, identity, &range, 1), LS_OK);
        assert_int_equal(ls_loader_get(loader, &b, NULL), LS_OK);
        for (int i = 0; i < 768; i++) {
            float want = (float)(all[i] / 255.0);
            if (dtype == LS_DTYPE_F32)
                assert_memory_equal((float *)b->feed[0] + i, &want, 4);
            else
                assert_int_equal(((ls_bf16 *)b->feed[0])[i], ls_float_to_bf16(want));
        }
        ls_loader_destroy(&loader);  // with the batch still borrowed
    }
    ls_source_destroy(&three);
}

// What a sample becomes depends on the epoch and the sample: not on the order, the batch, the loader or its neighbours.
static void test_augmented(void **state) {
    enum { SIDE = 8, OUT = 12, VALUES = OUT * OUT * 3, SAMPLES = 20 };
    static uint8_t pixels[SAMPLES * SIDE * SIDE * 3], label[SAMPLES];
    static float first[3][SAMPLES][VALUES];
    for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (uint8_t)((uint32_t)i * 2654435761u >> 13);
    const ls_field small[] = {{"image", LS_SHAPE(SIDE, SIDE, 3), LS_DTYPE_U8, 0}, {"label", {0}, LS_DTYPE_U8, 1}};
    ls_arrays arrays = {SAMPLES, {pixels, label}};
    ls_source *some;
    assert_int_equal(ls_source_create_memory("some images", small, 2, &arrays, &some), LS_OK);
    uint32_t places[SAMPLES];
    int changed = 0;
    for (int round = 0; round < 6; round++) {
        uint32_t epoch = (uint32_t)round % 3;
        int64_t micro = round < 3 ? 5 : 3;
        ls_range cut[SAMPLES];
        int64_t count = 0;
        for (int64_t at = 0; at < SAMPLES; at += micro)
            cut[count++] = (ls_range){at, at + micro < SAMPLES ? micro : SAMPLES - at};
        ls_loader_config config = images_of(some, LS_DTYPE_F32, micro, 2);
        config.threads = 1 + round % 2;
        config.feed[0].recipe = (ls_recipe){
            .height = OUT, .width = OUT, .seed = 3, .augment = LS_AUGMENT_FLIP | LS_AUGMENT_CROP | LS_AUGMENT_CUTOUT};
        ls_loader *loader;
        assert_int_equal(ls_loader_create(&config, &loader), LS_OK);
        ls_sampler_order(8, (uint32_t)round, 1, SAMPLES, places);
        assert_int_equal(ls_loader_start(loader, epoch, places, cut, count), LS_OK);
        for (int64_t i = 0; i < count; i++) {
            ls_batch *b;
            assert_int_equal(ls_loader_get(loader, &b, NULL), LS_OK);
            for (int64_t k = 0; k < b->count; k++) {
                float *was = first[epoch][b->samples[k]], *is = (float *)b->feed[0] + k * VALUES;
                if (round < 3)
                    memcpy(was, is, sizeof first[0][0]);
                else
                    assert_memory_equal(was, is, sizeof first[0][0]);
            }
            ls_loader_restore(loader, &b);
        }
        ls_loader_destroy(&loader);
    }
    for (int i = 0; i < SAMPLES; i++) changed += memcmp(first[0][i], first[1][i], sizeof first[0][0]) != 0;
    assert_true(changed > SAMPLES / 2);
    ls_source_destroy(&some);
}

// Ranges in any order, again and again, of any length; none at all.
static void test_ranges(void **state) {
    static const ls_range some[] = {{90, 8}, {3, 1}, {3, 1}, {0, 0}, {95, 8}};
    ls_sampler_order(1, 1, 1, COUNT, order);
    ls_loader *loader = make(LS_DTYPE_F32, 2);
    assert_int_equal(ls_loader_start(loader, 0, order, some, 0), LS_OK);
    assert_int_equal(ls_loader_start(loader, 0, order, some, 5), LS_OK);
    for (int i = 0; i < 5; i++) {
        ls_batch *batch;
        assert_int_equal(ls_loader_get(loader, &batch, NULL), LS_OK);
        check_batch(batch, LS_DTYPE_F32, some[i]);
        ls_loader_restore(loader, &batch);
    }
    ls_loader_destroy(&loader);
}

// Several borrowed at once keep their content until given back, in whichever order.
static void test_borrow(void **state) {
    ls_sampler_order(1, 2, 1, COUNT, order);
    ls_loader *loader = make(LS_DTYPE_F32, 3);
    assert_int_equal(ls_loader_start(loader, 0, order, ranges, EPOCH), LS_OK);
    ls_batch *b[4];
    for (int i = 0; i < 3; i++) assert_int_equal(ls_loader_get(loader, &b[i], NULL), LS_OK);
    assert_int_equal(ls_loader_get(loader, &b[3], NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_non_null(strstr(ls_error_message(), "borrowed"));
    assert_null(b[3]);
    ls_loader_restore(loader, &b[2]);
    usleep(2000);
    check_batch(b[0], LS_DTYPE_F32, ranges[0]);
    check_batch(b[1], LS_DTYPE_F32, ranges[1]);
    ls_loader_restore(loader, &b[0]);
    ls_loader_restore(loader, &b[1]);
    for (int i = 3; i < EPOCH; i++) {
        assert_int_equal(ls_loader_get(loader, &b[0], NULL), LS_OK);
        check_batch(b[0], LS_DTYPE_F32, ranges[i]);
        ls_loader_restore(loader, &b[0]);
    }
    ls_loader_destroy(&loader);
}

static void refused(ls_status status, const char *words) {
    assert_int_equal(status, LS_STATUS_INVALID_ARGUMENT);
    if (!strstr(ls_error_message(), words)) fail_msg("\"%s\" without \"%s\"", ls_error_message(), words);
}

static void test_refused(void **state) {
    ls_loader *loader;
    ls_batch *batch;
    ls_loader_config bad = images_of(source, LS_DTYPE_I32, MICRO, 1);
    refused(ls_loader_create(&bad, &loader), "i32");
    bad.feed[0].dtype = LS_DTYPE_F32;
    bad.depth = 0;
    refused(ls_loader_create(&bad, &loader), "0 micro-batches");
    bad.depth = 1;
    bad.micro_batch = 0;
    refused(ls_loader_create(&bad, &loader), "0 samples");
    bad.micro_batch = 1;
    bad.feed[0].recipe.augment = LS_AUGMENT_CROP;
    refused(ls_loader_create(&bad, &loader), "5x7 pixels");
    assert_null(loader);

    loader = make(LS_DTYPE_F32, 2);
    refused(ls_loader_get(loader, &batch, NULL), "start");
    ls_range wide = {0, MICRO + 1}, low = {-1, 2}, last = {COUNT - 1, 1};
    refused(ls_loader_start(loader, 0, order, &wide, 1), "room for 8");
    refused(ls_loader_start(loader, 0, order, &low, 1), "position -1");
    ls_sampler_order(0, 0, 0, COUNT, order);
    order[COUNT - 1] = COUNT;
    refused(ls_loader_start(loader, 0, order, &last, 1), "sample 103 of a dataset of 103");
    order[COUNT - 1] = COUNT - 1;
    assert_int_equal(ls_loader_start(loader, 0, order, ranges, 2), LS_OK);
    assert_int_equal(ls_loader_get(loader, &batch, NULL), LS_OK);
    refused(ls_loader_start(loader, 0, order, ranges, 2), "1 micro-batches of the previous");
    ls_loader_restore(loader, &batch);
    assert_int_equal(ls_loader_get(loader, &batch, NULL), LS_OK);
    ls_loader_restore(loader, &batch);
    refused(ls_loader_get(loader, &batch, NULL), "were taken");
    ls_loader_destroy(&loader);
}

// Two loaders in one piece of memory: one is left in the middle of its epoch, at any place, then the other has it.
static void test_cancel(void **state) {
    ls_loader_config config = images_of(source, LS_DTYPE_F32, MICRO, 3);
    int64_t bytes = ls_loader_bytes(&config);
    char *memory = aligned_alloc(64, (size_t)bytes + 64);
    ls_loader *one, *other;
    assert_non_null(memory);
    memset(memory + bytes, 0x5A, 64);
    config.memory = memory;
    assert_int_equal(ls_loader_create(&config, &one), LS_OK);
    assert_int_equal(ls_loader_create(&config, &other), LS_OK);
    for (int taken = 0; taken <= EPOCH; taken++)
        for (int pause = 0; pause < 2; pause++) {
            ls_batch *batch;
            ls_sampler_order(0, (uint32_t)taken, 1, COUNT, order);
            assert_int_equal(ls_loader_start(one, 0, order, ranges, EPOCH), LS_OK);
            for (int i = 0; i < taken; i++) {
                assert_int_equal(ls_loader_get(one, &batch, NULL), LS_OK);
                ls_loader_restore(one, &batch);
            }
            if (pause) usleep(500);
            ls_loader_cancel(one);
            assert_int_equal(ls_loader_get(one, &batch, NULL), LS_STATUS_INVALID_ARGUMENT);
            assert_int_equal(ls_loader_start(other, 0, order, ranges, EPOCH), LS_OK);
            for (int i = 0; i < EPOCH; i++) {
                assert_int_equal(ls_loader_get(other, &batch, NULL), LS_OK);
                assert_true((char *)batch->feed[0] >= memory && (char *)batch->feed[0] < memory + bytes);
                check_batch(batch, LS_DTYPE_F32, ranges[i]);
                ls_loader_restore(other, &batch);
            }
        }
    for (int i = 0; i < 64; i++) assert_int_equal(memory[bytes + i], 0x5A);
    ls_loader_destroy(&one);
    ls_loader_destroy(&other);
    free(memory);
}

// Leaving before an epoch, with the ring full, in the middle, with batches borrowed: never hangs.
static void test_leave(void **state) {
    ls_sampler_order(0, 0, 1, COUNT, order);
    ls_loader *none = NULL;
    ls_loader_destroy(&none);
    for (int taken = -1; taken <= EPOCH; taken++)
        for (int pause = 0; pause < 2; pause++)
            for (int depth = 1; depth < 4; depth++) {
                ls_loader *loader = make(LS_DTYPE_BF16, depth);
                if (taken >= 0) assert_int_equal(ls_loader_start(loader, 0, order, ranges, EPOCH), LS_OK);
                ls_batch *batch = NULL;
                for (int i = 0; i < taken; i++) {
                    ls_loader_restore(loader, &batch);
                    assert_int_equal(ls_loader_get(loader, &batch, NULL), LS_OK);
                }
                if (pause) usleep(500);  // the thread has filled what it can
                ls_loader_destroy(&loader);
            }
}

// The signals a thread of this process blocks, as the kernel tells; of a thread that is not this one.
static uint64_t blocked_by_other(void) {
    uint64_t mask = 0;
    char path[64], line[128];
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        if (e->d_name[0] == '.' || atoi(e->d_name) == getpid()) continue;
        snprintf(path, sizeof path, "/proc/self/task/%.16s/status", e->d_name);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof line, f))
            if (strncmp(line, "SigBlk:", 7) == 0) mask = strtoull(line + 7, NULL, 16);
        if (f) fclose(f);
    }
    if (tasks) closedir(tasks);
    return mask;
}

static void test_signals(void **state) {
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGCHLD, SIGALRM};
    if (access("/proc/self/task", R_OK) != 0) skip();
    ls_loader *loader = make(LS_DTYPE_F32, 1);
    ls_batch *batch;  // a thread that has worked is past its start, where every thread blocks all signals
    assert_int_equal(ls_loader_start(loader, 0, order, ranges, 1), LS_OK);
    assert_int_equal(ls_loader_get(loader, &batch, NULL), LS_OK);
    uint64_t mask = blocked_by_other();
    sigset_t mine;
    sigprocmask(SIG_BLOCK, NULL, &mine);
    for (int i = 0; i < 5; i++) {
        assert_true(mask >> (signals[i] - 1) & 1);
        assert_false(sigismember(&mine, signals[i]));
    }
    ls_loader_destroy(&loader);
}

static ls_status read_slowly(void *user, int64_t sample, void *const *out) {
    usleep(*(const useconds_t *)user);
    memset(out[0], (int)sample, PIXELS);
    return LS_OK;
}

// Epochs of so many batches by somebody who waits for each, until it is known how many threads keep up: up to so many. How many that are is a matter of the
// clock (test_pace); that what they read is right is not. Returns whether it is known.
static int adapted(int epochs, int batches) {
    useconds_t read = 500;
    ls_callback callback = {.count = COUNT, .read = read_slowly, .user = &read};
    ls_source *slow;
    ls_loader *loader;
    ls_batch *batch;
    assert_int_equal(ls_source_create_callback("slow", fields, 1, &callback, &slow), LS_OK);
    ls_loader_config config = images_of(slow, LS_DTYPE_F32, MICRO, 3);
    config.feed_count = 1;
    config.threads = 4;
    config.adapt = 1;
    assert_int_equal(ls_loader_create(&config, &loader), LS_OK);
    assert_int_equal(ls_loader_threads(loader), 1);
    ls_sampler_order(1, 0, 1, COUNT, order);
    for (int e = 0; e < epochs && !ls_loader_measured(loader); e++) {
        assert_int_equal(ls_loader_start(loader, (uint32_t)e, order, ranges, batches), LS_OK);
        for (int b = 0; b < batches; b++) {
            assert_int_equal(ls_loader_get(loader, &batch, NULL), LS_OK);
            for (int64_t i = 0; i < batch->count; i++) {
                assert_int_equal(batch->samples[i], order[ranges[b].first + i]);
                assert_true(((float *)batch->feed[0])[i * PIXELS] == (float)((double)batch->samples[i] / 255.0));
            }
            ls_loader_restore(loader, &batch);
        }
    }
    int measured = ls_loader_measured(loader);
    assert_in_range(ls_loader_threads(loader), 1, 4);
    ls_loader_destroy(&loader);
    ls_source_destroy(&slow);
    return measured;
}

// Threads come to work while an epoch runs; of epochs of one batch nothing is measured.
static void test_adapts(void **state) {
    assert_true(adapted(1000, EPOCH));
    assert_false(adapted(20, 1));
}

int main(void) {
    alarm(50);  // a hang ends the test
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),   cmocka_unit_test(test_cancel),  cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_values),  cmocka_unit_test(test_ranges),  cmocka_unit_test(test_augmented),
        cmocka_unit_test(test_borrow),  cmocka_unit_test(test_refused), cmocka_unit_test(test_leave),
        cmocka_unit_test(test_signals), cmocka_unit_test(test_adapts),
    };
    return cmocka_run_group_tests(tests, fill_split, free_split);
}
