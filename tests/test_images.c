// Folders of images: what becomes a sample, with which number and class, on any number of workers; what is read of it; a sentence for each
// thing that can be wrong with a folder or a file.
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/memory.h"
#include "data/augment.h"
#include "data/loader.h"
#include "data_team.h"
#include "image_files.h"

static char root[64];

static void shell(const char *format, ...) {
    char command[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    assert_int_equal(system(command), 0);
}

static int set_up(void **state) {
    snprintf(root, sizeof root, "/tmp/lockstep-images-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state) {
    shell("rm -rf '%s'", root);
    return 0;
}

// An empty folder in place of what was there.
static void fresh(void) { shell("rm -rf '%s' && mkdir '%s'", root, root); }

// A grey image all of one value, in a file of that name; folders are made.
static void put(const char *name, int width, int height, int value) {
    char path[256], *slash;
    snprintf(path, sizeof path, "%s/%s", root, name);
    slash = strrchr(path, '/');
    *slash = 0;
    shell("mkdir -p '%s'", path);
    *slash = '/';
    uint8_t *pixels = malloc((size_t)(3 * width * height));
    memset(pixels, value, (size_t)(3 * width * height));
    int is_png = strstr(name, ".png") || strstr(name, ".PNG");
    assert_true(image_save(is_png ? image_png(width, height, 8, PNG_COLOR_TYPE_RGB, 0, pixels, (size_t)(3 * width))
                                  : image_jpeg(width, height, 3, 0, pixels),
                           path));
    free(pixels);
}

// --- what there is ---------------------------------------------------------------------------------------------------

// "train/b/1.jpg=1 ...": the paths in order, each with its class.
static void describe(const ls_source *s, char *text, size_t size) {
    void *scratch;
    ls_sample sample;
    size_t used = 0;
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    text[0] = 0;
    for (int64_t i = 0; i < s->count; i++) {
        if (ls_source_read(s, i, scratch, &sample) != LS_OK) fail_msg("%s", ls_error_message());
        const ls_picture *p = sample.field[0];
        used += (size_t)snprintf(text + used, size - used, "%s%s=%d", i ? " " : "", p->name + strlen(root) + 1,
                                 *(const int32_t *)sample.field[1]);
    }
    ls_memory_free(scratch);
}

static void holds(const ls_source *s, const char *expected) {
    char text[2048];
    describe(s, text, sizeof text);
    assert_string_equal(text, expected);
}

static const char *spec(const char *options) {
    static char text[256];
    snprintf(text, sizeof text, "images:%s%s", root, options);
    return text;
}

// Classes by the bytes of their names; samples so that any first part has them in proportion; other files do not count.
static void classes_and_order(void **state) {
    uint64_t fingerprint = 0;
    fresh();
    put("train/b/1.jpg", 4, 5, 1), put("train/b/2.JPEG", 6, 5, 2), put("train/b/deep/3.jpg", 4, 5, 3),
        put("train/b/x.PNG", 4, 5, 4);
    put("train/Z/only.png", 9, 9, 5), put("train/a/2.jpg", 4, 5, 6), put("train/a/1.jpg", 4, 5, 7);
    put("valid/a/v.jpg", 4, 4, 8);
    shell(
        "cd '%s' && echo x >train/b/notes.txt && echo x >train/b/.hidden.jpg && echo x >README && mkdir train/.cache "
        "valid/b",
        root);
    for (int workers = 1; workers <= WORKERS_MAX; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, workers, spec("/"));
        assert_string_equal(w[0].message, "");
        for (int r = 0; r < workers; r++) {
            const ls_dataset *d = w[r].dataset;
            assert_true(ls_shape_equal(ls_dataset_image_shape(d), LS_SHAPE(0, 0, 3)));
            assert_int_equal(ls_dataset_classes(d), 3);
            assert_string_equal(ls_dataset_class(d, 0), "Z");
            assert_string_equal(ls_dataset_class(d, 2), "b");
            assert_null(ls_dataset_class(d, 3));
            holds(d->train,
                  "train/b/1.jpg=2 train/a/1.jpg=1 train/b/2.JPEG=2 train/Z/only.png=0 train/b/deep/3.jpg=2 "
                  "train/a/2.jpg=1 train/b/x.PNG=2");
            holds(d->test, "valid/a/v.jpg=1");
            assert_int_equal(d->train->picture_bytes, 9 * 9 * 3);
            if (!fingerprint) fingerprint = d->fingerprint;
            assert_true(d->fingerprint == fingerprint);
        }
        team_close(&t, w);
    }
    // It is the contents that are told apart, not the place.
    ls_data_host *host;
    ls_dataset *d;
    char copy[128];
    snprintf(copy, sizeof copy, "images:%s-copy", root);
    shell("cp -r '%s' '%s-copy'", root, root);
    assert_int_equal(ls_data_host_create_self(&host), LS_OK);
    assert_int_equal(ls_data_open(host, copy, &d), LS_OK);
    assert_true(d->fingerprint == fingerprint);
    ls_data_close(&d);
    shell("mv '%s-copy/train/a/1.jpg' '%s-copy/train/a/0.jpg'", root, root);
    assert_int_equal(ls_data_open(host, copy, &d), LS_OK);
    assert_true(d->fingerprint != fingerprint);
    ls_data_close(&d);
    ls_data_host_destroy_self(&host);
    shell("rm -rf '%s-copy'", root);
}

static void opens(const char *options, const char *train, const char *test) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, spec(options));
    assert_string_equal(w[0].message, "");
    holds(w[0].dataset->train, train);
    if (test)
        holds(w[0].dataset->test, test);
    else
        assert_null(w[0].dataset->test);
    team_close(&t, w);
}

static void without_a_test_set(void **state) {
    fresh();
    for (int i = 0; i < 5; i++)
        for (int c = 0; c < 2; c++) {
            char name[32];
            snprintf(name, sizeof name, "%s/%d.png", c ? "dog" : "cat", i);
            put(name, 3, 3, i);
        }
    opens("",
          "cat/0.png=0 dog/0.png=1 cat/1.png=0 dog/1.png=1 cat/2.png=0 dog/2.png=1 cat/3.png=0 dog/3.png=1 cat/4.png=0 "
          "dog/4.png=1",
          NULL);
    opens(",validation-split=0.4", "cat/0.png=0 dog/0.png=1 cat/1.png=0 dog/1.png=1 cat/3.png=0 dog/3.png=1",
          "cat/2.png=0 dog/2.png=1 cat/4.png=0 dog/4.png=1");
    opens(",validation-split=0.2,channels=1",
          "cat/0.png=0 dog/0.png=1 cat/1.png=0 dog/1.png=1 cat/2.png=0 dog/2.png=1 cat/3.png=0 dog/3.png=1",
          "cat/4.png=0 dog/4.png=1");
}

// --- what is wrong with it -------------------------------------------------------------------------------------------

static void refused(const char *options, ls_status status, const char *words) {
    for (int workers = 1; workers <= 2; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        team_open(&t, w, workers, spec(options));
        if (w[0].status != status || !strstr(w[0].message, words))
            fail_msg("%s instead of \"%s\": %s", ls_status_name(w[0].status), words, w[0].message);
        team_close(&t, w);
    }
}

static void wrong_folders(void **state) {
    fresh();
    refused("/nowhere", LS_STATUS_NOT_FOUND, "/nowhere is not a folder");
    refused("", LS_STATUS_NOT_FOUND, "has no folders of classes");
    put("lonely.jpg", 4, 4, 0);
    refused("", LS_STATUS_BAD_DATA, "put each class's images into a folder of their own");
    fresh();
    put("train/a/1.jpg", 4, 4, 0), put("train/b/1.jpg", 4, 4, 0);
    shell("mkdir '%s/train/c'", root);
    refused("", LS_STATUS_BAD_DATA, "train/c has no images");
    shell("rmdir '%s/train/c'; mkdir '%s/test'", root, root);
    refused("", LS_STATUS_BAD_DATA, "test has no images");
    put("test/q/1.jpg", 4, 4, 0);
    refused("", LS_STATUS_BAD_DATA, "test/q is a class that the training set does not have");
    shell("mv '%s/test/q' '%s/test/a'", root, root);
    refused(",validation-split=0.5", LS_STATUS_INVALID_ARGUMENT, "validation-split would make another one");
    shell("mkdir -p '%s/val/a' '%s/validation'", root, root);
    refused("", LS_STATUS_BAD_DATA, "either could be the test set");
    shell("rm -r '%s/val' '%s/validation'; echo x >'%s/train/b/2.webp'", root, root, root);
    refused("", LS_STATUS_UNSUPPORTED, "train/b/2.webp is an image in a format that is not read");
    shell("cd '%s/train/b' && rm 2.webp && ln -s nowhere 2.jpg", root);
    refused("", LS_STATUS_IO, "cannot look at");
    shell("cd '%s/train/b' && rm 2.jpg && ln -s . loop", root);
    refused("", LS_STATUS_BAD_DATA, "does a link lead back?");
    shell("cd '%s/train/b' && rm loop && truncate -s 300M 2.jpg", root);
    refused("", LS_STATUS_BAD_DATA, "more than the 256 MB");
    shell("cd '%s/train/b' && rm 2.jpg", root);
    refused(",validation-splitt=0.5", LS_STATUS_INVALID_ARGUMENT, "did you mean validation-split?");
    refused(",validation-split=0.95", LS_STATUS_INVALID_ARGUMENT, "from 0 to 0.9");
    refused(",channels=2", LS_STATUS_INVALID_ARGUMENT, "channels is 1, grey, or 3, in colour");
    refused(",channels=x", LS_STATUS_INVALID_ARGUMENT, "expected a whole number");
}

// Worker 0 lists; where the host has no memory for it all are told.
static void no_memory(void **state) {
    fresh();
    put("a/1.jpg", 4, 4, 0);
    for (int rank = 0; rank < 2; rank++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        t.fail_alloc_rank = rank;
        team_open(&t, w, 2, spec(""));
        assert_string_equal(w[1].message, "no memory, says the test");
        team_close(&t, w);
    }
}

// --- reading ---------------------------------------------------------------------------------------------------------

enum { SIDE = 8, BYTES = SIDE * SIDE * 3 * 4, MOST = 64 };

static ls_loader_config config_of(const ls_source *s, unsigned augment, int threads) {
    ls_loader_config c = {.split = {s, s->count}, .feed_count = 2, .micro_batch = MOST, .depth = 1, .threads = threads};
    c.feed[0] = (ls_feed){.field = "image",
                          .dtype = LS_DTYPE_F32,
                          .image = 1,
                          .recipe = {.height = SIDE, .width = SIDE, .augment = augment, .seed = 3}};
    c.feed[1] = (ls_feed){.field = "label", .dtype = LS_DTYPE_I32};
    return c;
}

// One batch of all samples of a set, in order, into `out`.
static ls_status load(const ls_source *s, unsigned augment, int threads, float *out) {
    ls_loader_config c = config_of(s, augment, threads);
    uint32_t order[MOST];
    ls_range range = {0, s->count};
    ls_loader *loader;
    ls_batch *batch;
    for (uint32_t i = 0; i < MOST; i++) order[i] = i;
    assert_int_equal(ls_loader_create(&c, &loader), LS_OK);
    assert_int_equal(ls_loader_start(loader, 2, order, &range, 1), LS_OK);
    ls_status status = ls_loader_get(loader, &batch, NULL);
    if (status == LS_OK) {
        memcpy(out, batch->feed[0], (size_t)(s->count * BYTES));
        ls_loader_restore(loader, &batch);
    }
    ls_loader_destroy(&loader);
    return status;
}

// A plain loop's pixel: the file is decoded, halved, cut and resampled, one after the other.
static void expect(const ls_picture *p, unsigned augment, int64_t sample, float *out) {
    ls_image_file file = *p;
    ls_image_buffer buffer = {{NULL}, {0}};
    ls_image image;
    int64_t h, w;
    assert_int_equal(ls_image_file_size(&file, &h, &w), LS_OK);
    ls_augment_draw draw =
        ls_augment_sample(augment, 3, 2, (uint64_t)sample, LS_SHAPE(h, w, 3), LS_SHAPE(SIDE, SIDE, 3));
    int by = 1;
    while (by < 8 && draw.box.height / (2 * by) >= SIDE && draw.box.width / (2 * by) >= SIDE) by *= 2;
    assert_int_equal(ls_image_file_decode(&file, (ls_image_wish){.channels = 3, .shrink = by}, &buffer, &image), LS_OK);
    int64_t top = draw.box.y * image.height / h, left = draw.box.x * image.width / w;
    int64_t bottom = ((draw.box.y + draw.box.height) * image.height + h - 1) / h;
    int64_t right = ((draw.box.x + draw.box.width) * image.width + w - 1) / w;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++)
            for (int c = 0; c < 3; c++) {
                double v = (y + 0.5) * (double)(bottom - top) / SIDE - 0.5,
                       u = (x + 0.5) * (double)(right - left) / SIDE - 0.5, value = 0;
                for (int k = 0; k < 4; k++) {
                    int64_t yy = (int64_t)(v < 0 ? -1 : v) + (k & 1), xx = (int64_t)(u < 0 ? -1 : u) + (k >> 1);
                    double wy = v - (v < 0 ? -1 : (int64_t)v), wx = u - (u < 0 ? -1 : (int64_t)u);
                    yy = yy < 0 ? 0 : yy > bottom - top - 1 ? bottom - top - 1 : yy;
                    xx = xx < 0 ? 0 : xx > right - left - 1 ? right - left - 1 : xx;
                    value += (k & 1 ? wy : 1 - wy) * (k >> 1 ? wx : 1 - wx) *
                             image.pixels[((top + yy) * image.width + left + xx) * 3 + c];
                }
                int at = draw.mirror ? SIDE - 1 - x : x;
                out[(y * SIDE + at) * 3 + c] = (float)(value / 255);
            }
    ls_image_buffer_free(&buffer);
}

static void fill_folder(void) {
    fresh();
    for (int i = 0; i < 24; i++) {
        char name[128];
        int width = 6 + 7 * (i % 9), height = 5 + 11 * (i % 7);
        uint8_t *pixels = malloc((size_t)(3 * width * height));
        for (int p = 0; p < 3 * width * height; p++) pixels[p] = (uint8_t)(p * (3 + i) / 5 % 256);
        snprintf(name, sizeof name, "%s/%s/%02d.%s", root, i % 3 ? "a" : "b", i, i % 2 ? "jpg" : "png");
        shell("mkdir -p '%s/%s'", root, i % 3 ? "a" : "b");
        image_file f = i % 2 ? image_jpeg(width, height, 3, i % 4 == 1, pixels)
                             : image_png(width, height, 8, PNG_COLOR_TYPE_RGB, 0, pixels, (size_t)(3 * width));
        if (i % 8 == 3) image_orient(&f, 6, 0);
        assert_true(image_save(f, name));
        free(pixels);
    }
}

// What a loader makes of pictures is what their files say, for any number of its threads.
static void pixels(void **state) {
    static float first[MOST * BYTES / 4], again[MOST * BYTES / 4], one[BYTES / 4];
    static const unsigned augments[] = {0, LS_AUGMENT_FLIP, LS_AUGMENT_RESIZED_CROP | LS_AUGMENT_FLIP};
    fill_folder();
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, spec(""));
    const ls_source *s = w[0].dataset->train;
    void *scratch;
    ls_sample sample;
    assert_int_equal(ls_memory_alloc(s->scratch_bytes, &scratch), LS_OK);
    for (int a = 0; a < 3; a++) {
        assert_int_equal(load(s, augments[a], 1, first), LS_OK);
        assert_int_equal(load(s, augments[a], 3, again), LS_OK);
        assert_memory_equal(first, again, (size_t)(s->count * BYTES));
        for (int64_t i = 0; i < s->count; i++) {
            assert_int_equal(ls_source_read(s, i, scratch, &sample), LS_OK);
            expect(sample.field[0], augments[a], i, one);
            for (int k = 0; k < BYTES / 4; k++)
                if (!(one[k] - first[i * BYTES / 4 + k] < 1e-5f && first[i * BYTES / 4 + k] - one[k] < 1e-5f))
                    fail_msg("augmentation %u, sample %d, value %d: %g, expected %g", augments[a], (int)i, k,
                             (double)first[i * BYTES / 4 + k], (double)one[k]);
        }
    }
    ls_memory_free(scratch);
    team_close(&t, w);
}

// Means and deviations are over all pixels of all files as they are.
static void channel_moments(void **state) {
    double mean[3], deviation[3];
    fresh();
    put("a/1.png", 2, 3, 10), put("a/2.png", 4, 1, 110);
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, spec(""));
    assert_int_equal(ls_dataset_channels(w[0].dataset, mean, deviation), LS_OK);
    assert_true(mean[1] * 255 > 49.999 && mean[1] * 255 < 50.001);
    assert_true(deviation[2] * 255 > 48.989 && deviation[2] * 255 < 48.991);  // the root of (6 * 40^2 + 4 * 60^2) / 10
    team_close(&t, w);
}

// What it is, as it is stored, and a file that a picture is written to.
static void look(void **state) {
    ls_sample_info info;
    ls_image image, again;
    char path[128];
    fresh();
    put("train/a/1.png", 5, 3, 200), put("train/b/1.jpg", 7, 9, 30), put("val/b/2.png", 2, 2, 1);
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, spec(""));
    assert_int_equal(ls_dataset_look(w[0].dataset, 0, 1, &info, NULL), LS_OK);
    assert_true(info.height == 9 && info.width == 7 && info.label == 1 && info.channels == 0);
    assert_non_null(strstr(info.file, "train/b/1.jpg"));
    assert_int_equal(ls_dataset_look(w[0].dataset, 1, 0, &info, NULL), LS_OK);
    assert_true(info.height == 2 && info.label == 1);
    assert_int_equal(ls_dataset_look(w[0].dataset, 1, 1, &info, NULL), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_dataset_look(w[0].dataset, 0, -1, &info, &image), LS_STATUS_INVALID_ARGUMENT);
    assert_int_equal(ls_dataset_look(w[0].dataset, 0, 0, &info, &image), LS_OK);
    assert_true(info.channels == 3 && image.width == 5 && image.pixels[0] == 200);
    for (int i = 0; i < 45; i++) image.pixels[i] = (uint8_t)(5 * i);
    snprintf(path, sizeof path, "%s/written.png", root);
    assert_int_equal(ls_image_write(path, &image), LS_OK);
    assert_int_equal(ls_image_read(path, 0, &again), LS_OK);
    assert_memory_equal(image.pixels, again.pixels, 45);
    snprintf(path, sizeof path, "%s/nowhere/written.png", root);
    assert_int_equal(ls_image_write(path, &image), LS_STATUS_IO);
    assert_non_null(strstr(ls_error_message(), "nowhere/written.png"));
    image.channels = 2;
    assert_int_equal(ls_image_write(path, &image), LS_STATUS_INVALID_ARGUMENT);
    ls_image_free(&image);
    ls_image_free(&again);
    team_close(&t, w);
}

static void fails(const char *words) {
    static float out[MOST * BYTES / 4];
    team t = TEAM;
    worker w[WORKERS_MAX];
    team_open(&t, w, 1, spec(""));
    assert_string_equal(w[0].message, "");
    ls_status status = load(w[0].dataset->train, 0, 1, out);
    if (status == LS_OK || !strstr(ls_error_message(), words) ||
        !strstr(ls_error_message(), "of the training set of images: "))
        fail_msg("not \"%s\": %s", words, ls_error_message());
    team_close(&t, w);
}

// The file is named, and what to do.
static void broken_files(void **state) {
    fresh();
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "a/%d.jpg", i);
        put(name, 9, 9, 9);
    }
    shell("cd '%s/a' && cp 1.jpg good && head -c 200 good >1.jpg", root);
    fails("a/1.jpg is damaged");
    shell("cd '%s/a' && echo hello >1.jpg", root);
    fails("a/1.jpg is no PNG or JPEG image");
    shell("cd '%s/a' && : >1.jpg", root);
    fails("a/1.jpg is empty");
    shell("cd '%s/a' && printf 'GIF89a' >1.jpg", root);
    fails("a/1.jpg is a GIF image");
    // While it is in use.
    static float out[MOST * BYTES / 4];
    static const char *const changes[][2] = {
        {"cp 3.jpg other; sleep 0.05; cp other 3.jpg", "was changed since this run began"},
        {"rm 3.jpg", "it was there when this run began"},
        {"rm 3.jpg && mkfifo 3.jpg", "was changed since this run began"},
        {"rm 3.jpg && mkdir 3.jpg", "was changed since this run began"}};
    for (int i = 0; i < 4; i++) {
        shell("cd '%s/a' && rm -rf 3.jpg", root);
        team t = TEAM;
        worker w[WORKERS_MAX];
        shell("cd '%s/a' && cp good 1.jpg && cp good 3.jpg", root);
        team_open(&t, w, 1, spec(""));
        assert_int_equal(load(w[0].dataset->train, 0, 1, out), LS_OK);
        shell("cd '%s/a' && %s", root, changes[i][0]);
        assert_true(load(w[0].dataset->train, 0, 1, out) != LS_OK);
        if (!strstr(ls_error_message(), changes[i][1])) fail_msg("not \"%s\": %s", changes[i][1], ls_error_message());
        team_close(&t, w);
    }
}

// --- tables ----------------------------------------------------------------------------------------------------------

static void table(const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/t.csv", root);
    FILE *f = fopen(path, "wb");
    assert_true(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static const char *csv(const char *options) {
    static char text[512];
    snprintf(text, sizeof text, "csv:%s/t.csv%s", root, options);
    return text;
}

static void table_holds(const char *text, const char *options, const char *train, const char *test, const char *first) {
    for (int workers = 1; workers <= 2; workers++) {
        team t = TEAM;
        worker w[WORKERS_MAX];
        table(text);
        team_open(&t, w, workers, csv(options));
        assert_string_equal(w[0].message, "");
        holds(w[workers - 1].dataset->train, train);
        if (test) holds(w[workers - 1].dataset->test, test);
        assert_true(!test == !w[0].dataset->test);
        if (first)
            assert_string_equal(ls_dataset_class(w[0].dataset, 0), first);
        else
            assert_null(ls_dataset_class(w[0].dataset, 0));
        team_close(&t, w);
    }
}

static void tables(void **state) {
    char text[512], options[128];
    fresh();
    put("in/1.jpg", 3, 3, 1), put("in/two, and.png", 3, 3, 2), put("in/3.jpg", 3, 3, 3);
    table_holds("path,note,label\nin/1.jpg,x,dog\n\"in/two, and.png\",\"a \"\"b\"\"\",cat\nin/3.jpg,,dog\n", "",
                "in/1.jpg=1 in/two, and.png=0 in/3.jpg=1", NULL, "cat");
    // No names of columns; numbers; a byte-order mark; ends of lines of another system; empty lines.
    table_holds("\xef\xbb\xbfin/1.jpg;10\r\n\r\nin/3.jpg;2\r\n", "", "in/1.jpg=10 in/3.jpg=2", NULL, NULL);
    // Tabs, columns of other names, and another place where paths begin.
    snprintf(options, sizeof options, ",file=id,label=what,root=%s/in", root);
    table_holds("what\tid\nb\t1.jpg\na\t3.jpg", options, "in/1.jpg=1 in/3.jpg=0", NULL, "a");
    // A part of each class, and a table of the test set with an absolute path.
    table_holds("in/1.jpg,a\nin/3.jpg,b\nin/1.jpg,b\nin/3.jpg,a\n", ",validation-split=0.5", "in/1.jpg=0 in/3.jpg=1",
                "in/1.jpg=1 in/3.jpg=0", "a");
    snprintf(text, sizeof text, "cd '%s' && echo '%s/in/3.jpg,a' >v.csv", root, root);
    shell("%s", text);
    snprintf(options, sizeof options, ",test=%s/v.csv", root);
    table_holds("in/1.jpg,a\n", options, "in/1.jpg=0", "in/3.jpg=0", "a");
}

static void table_refused(const char *text, const char *options, ls_status status, const char *words) {
    team t = TEAM;
    worker w[WORKERS_MAX];
    table(text);
    team_open(&t, w, 2, csv(options));
    if (w[0].status != status || !strstr(w[0].message, words))
        fail_msg("%s instead of \"%s\": %s", ls_status_name(w[0].status), words, w[0].message);
    team_close(&t, w);
}

static void wrong_tables(void **state) {
    fresh();
    put("1.jpg", 3, 3, 1);
    table_refused("", "", LS_STATUS_BAD_DATA, "has no samples: each line is the path of an image and its class");
    table_refused("file,label\n", "", LS_STATUS_BAD_DATA, "has no samples");
    table_refused("1.jpg,a\n2.jpg,b\n", "", LS_STATUS_NOT_FOUND, "line 2 of ");
    table_refused("1.jpg,a\n2.jpg,b\n", "", LS_STATUS_NOT_FOUND, "root=DIR says where paths begin");
    table_refused("1.jpg,a\n.,b\n", "", LS_STATUS_NOT_FOUND, "it is no file");
    table_refused("1.jpg,a\n", ",lable=x", LS_STATUS_INVALID_ARGUMENT,
                  " has no option 'lable' (did you mean label?); it has ");
    table_refused("1.jpg,a\n1.jpg\n", "", LS_STATUS_BAD_DATA, "line 2 of");
    table_refused("1.jpg,\n", "", LS_STATUS_BAD_DATA, "has an empty path or class");
    table_refused("\"1.jpg,a\n", "", LS_STATUS_BAD_DATA, "ends in quotes that were not closed");
    table_refused("\"1.jpg\"x,a\n", "", LS_STATUS_BAD_DATA, "goes on behind closing quotes");
    table_refused("1.jpg,a\n", ",label=kind", LS_STATUS_BAD_DATA, "names no column");
    table_refused("1.jpg,a\n", ",test=x,validation-split=0.2", LS_STATUS_INVALID_ARGUMENT, "leave one out");
    table_refused("1.jpg,a\n", ",test=/nowhere/x.csv", LS_STATUS_NOT_FOUND, "cannot read /nowhere/x.csv");
    table_refused("1.jpg,a\n", ",channels=2", LS_STATUS_INVALID_ARGUMENT, "channels is 1, grey, or 3");
    char options[200], path[128];
    snprintf(path, sizeof path, "%s/v.csv", root);
    FILE *f = fopen(path, "wb");
    assert_true(f && fputs("1.jpg,q\n", f) >= 0 && fclose(f) == 0);
    snprintf(options, sizeof options, ",test=%.120s", path);
    table_refused("1.jpg,a\n", options, LS_STATUS_BAD_DATA, "has a class that the training set does not have");
}

// --- files that are left out -----------------------------------------------------------------------------------------

static void left_out(void **state) {
    char options[128];
    fresh();
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%d.png", i % 2 ? "dog" : "cat", i);
        put(name, 3, 3, i);
    }
    shell("cd '%s' && printf '# broken\\ncat/2.png\\r\\n\\n%s/dog/1.png\\n' >list", root, root);
    snprintf(options, sizeof options, ",exclude=%s/list", root);
    opens(options, "cat/0.png=0 dog/3.png=1", NULL);
    table_holds("cat/0.png,a\ncat/2.png,a\ndog/1.png,b\ndog/3.png,b\n", options, "cat/0.png=0 dog/3.png=1", NULL, "a");
    shell("echo dog/7.png >>'%s/list'", root);
    refused(options, LS_STATUS_BAD_DATA, "line 5 of ");
    refused(options, LS_STATUS_BAD_DATA, "there is no file dog/7.png in the dataset to leave out");
    shell("printf 'cat/0.png\\ncat/2.png\\n' >'%s/list'", root);
    refused(options, LS_STATUS_BAD_DATA, "cat has no images");
    shell(": >'%s/list'", root);
    opens(options, "cat/0.png=0 dog/1.png=1 cat/2.png=0 dog/3.png=1", NULL);
    shell("rm '%s/list'", root);
    refused(options, LS_STATUS_NOT_FOUND, "the files to leave out");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes_and_order),
        cmocka_unit_test(without_a_test_set),
        cmocka_unit_test(wrong_folders),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(pixels),
        cmocka_unit_test(channel_moments),
        cmocka_unit_test(look),
        cmocka_unit_test(broken_files),
        cmocka_unit_test(tables),
        cmocka_unit_test(left_out),
        cmocka_unit_test(wrong_tables),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
