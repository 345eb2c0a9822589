// Sources of samples, of every kind, and the datasets made of them: what they hold, which labels they take, what they refuse.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/error.h"
#include "data/convert.h"
#include "data/dataset.h"
#include "ok.h"

enum { COUNT = 5, TOKENS = 3 };

static uint8_t images[COUNT * 6];
static int32_t tokens[COUNT * TOKENS];
static float rows[COUNT * 4];
static uint8_t narrow[COUNT];
static int32_t wide[COUNT];

// Values that tell where they are from.
static int set_up(void **state) {
    for (int i = 0; i < COUNT * 6; i++) images[i] = (uint8_t)(3 * i);
    for (int i = 0; i < COUNT * TOKENS; i++) tokens[i] = 1000 * i;
    for (int i = 0; i < COUNT * 4; i++) rows[i] = (float)i / 8;
    for (int i = 0; i < COUNT; i++) narrow[i] = (uint8_t)(i % 3), wide[i] = 100000 * i;
    return 0;
}

static const ls_field fields[] = {{"image", {3, {1, 2, 3}}, LS_DTYPE_U8, 0},
                                  {"tokens", {1, {TOKENS}}, LS_DTYPE_I32, 50257},
                                  {"target", {2, {2, 2}}, LS_DTYPE_F32, 0},
                                  {"label", {0}, LS_DTYPE_U8, 3},
                                  {"word", {0}, LS_DTYPE_I32, 500000}};
enum { FIELDS = sizeof fields / sizeof fields[0] };

static const ls_arrays arrays = {COUNT, {images, tokens, rows, narrow, wide}};

static void refused(ls_status status, ls_status expected, const char *words) {
    if (status != expected) fail_msg("%s: %s", ls_status_name(status), ls_error_message());
    if (!strstr(ls_error_message(), words)) fail_msg("\"%s\" without \"%s\"", ls_error_message(), words);
}

// ---- in memory -----------------------------------------------------------------------------------------------------

static void memory_is_read_where_it_lies(void **state) {
    ls_source *s;
    ls_sample sample;
    OK(ls_source_create_memory("the training set of five", fields, FIELDS, &arrays, &s));
    assert_int_equal(s->count, COUNT);
    assert_int_equal(s->scratch_bytes, 0);
    for (int64_t i = COUNT - 1; i >= 0; i--) {
        OK(ls_source_read(s, i, NULL, &sample));
        assert_ptr_equal(sample.field[0], images + i * 6);
        assert_ptr_equal(sample.field[1], tokens + i * TOKENS);
        assert_ptr_equal(sample.field[2], rows + i * 4);
        assert_ptr_equal(sample.field[3], narrow + i);
        assert_ptr_equal(sample.field[4], wide + i);
    }
    for (int f = 0; f < FIELDS; f++) assert_ptr_equal(ls_source_array(s, f), arrays.field[f]);
    ls_source_destroy(&s);
    assert_null(s);
    ls_source_destroy(&s);
}

static void descriptions_that_cannot_be_are_refused(void **state) {
    ls_source *s;
    ls_field f[2] = {fields[0], fields[3]};
    ls_arrays a = {COUNT, {images, narrow}};
    const ls_status bad = LS_STATUS_INVALID_ARGUMENT;
    refused(ls_source_create_memory("it", f, 0, &a, &s), bad, "0 fields; there may be 1 to 16");
    refused(ls_source_create_memory("it", f, LS_MAX_FIELDS + 1, &a, &s), bad, "17 fields");
    refused(ls_source_create_memory("it", NULL, 2, &a, &s), bad, "it: samples were described with 0 fields");
    strcpy(f[1].name, "image");
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "two fields are named \"image\"");
    f[1].name[0] = 0;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "field 1 has no name");
    memset(f[1].name, 'x', sizeof f[1].name);
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "too long a name");
    f[1] = fields[3], f[0].shape.dim[1] = 0;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "dimension 1 of the field \"image\" is 0");
    f[0] = fields[0], f[0].shape.ndim = 6;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "has 6 dimensions");
    f[0] = fields[0], f[0].shape.dim[0] = f[0].shape.dim[1] = f[0].shape.dim[2] = (int64_t)1 << 31;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "larger than memory");
    f[0] = fields[0], f[0].dtype = LS_DTYPE_BF16;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "\"image\" is of bf16; samples are u8, i32 or fp32");
    f[0].dtype = (ls_dtype)77;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "no known type");
    f[0] = fields[0], f[1].classes = -1;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "-1 classes");
    f[1].classes = 3, f[1].dtype = LS_DTYPE_F32;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "3 classes and is fp32");
    f[1] = fields[3], a.count = 0;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "it has 0 samples");
    a.count = LS_MAX_SAMPLES + 1;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad,
            "it has 4294967297 samples; there may be 1 to 4294967296");
    a.count = COUNT, a.field[1] = NULL;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "no array for the field \"label\"");
    f[1] = fields[4], a.field[1] = (const char *)wide + 1;
    refused(ls_source_create_memory("it", f, 2, &a, &s), bad, "no multiple of the 4 bytes");
    assert_null(s);
}

// ---- class numbers -------------------------------------------------------------------------------------------------

// One label too large or too small, at any place, of any width.
static void labels_out_of_range_are_told(void **state) {
    static const struct {
        ls_dtype dtype;
        int classes;
        int32_t good, bad;
    } cases[] = {{LS_DTYPE_U8, 3, 2, 3},       {LS_DTYPE_U8, 255, 254, 255},
                 {LS_DTYPE_I32, 1, 0, 1},      {LS_DTYPE_I32, 1000, 999, 1000},
                 {LS_DTYPE_I32, 1000, 0, -1},  {LS_DTYPE_I32, INT32_MAX, INT32_MAX - 1, INT32_MAX},
                 {LS_DTYPE_I32, 256, 255, 256}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (int at = -1; at < COUNT * 2; at++) {
            uint8_t bytes[COUNT * 2];
            int32_t ints[COUNT * 2];
            for (int i = 0; i < COUNT * 2; i++) {
                ints[i] = i == at ? cases[c].bad : cases[c].good;
                bytes[i] = (uint8_t)ints[i];
            }
            ls_field f = {"label", LS_SHAPE(2), cases[c].dtype, cases[c].classes};
            ls_arrays_config config = {
                .fields = &f,
                .field_count = 1,
                .train = {COUNT, {cases[c].dtype == LS_DTYPE_U8 ? (void *)bytes : (void *)ints}}};
            ls_dataset *d;
            ls_status status = ls_data_create_arrays(&config, &d);
            if (at < 0) {
                if (status != LS_OK) fail_msg("%s", ls_error_message());
                ls_data_close(&d);
                continue;
            }
            char words[160];
            snprintf(
                words, sizeof words,
                "sample %d of the training set of arrays: value %d of \"label\" is %d, but its classes go from 0 to %d",
                at / 2, at % 2, cases[c].bad, cases[c].classes - 1);
            refused(status, LS_STATUS_BAD_DATA, words);
            assert_null(d);
        }
}

static void a_byte_is_in_range_of_256_classes_and_more(void **state) {
    uint8_t all[256];
    ls_field f = {"label", {0}, LS_DTYPE_U8, 256};
    for (int i = 0; i < 256; i++) all[i] = (uint8_t)i;
    for (; f.classes < 100000; f.classes *= 3) OK(ls_field_check_values(&f, all, 256));
    f.classes = 0;
    OK(ls_field_check_values(&f, all, 256));
    f.classes = 255;
    refused(ls_field_check_values(&f, all, 256), LS_STATUS_BAD_DATA, "value 255 of \"label\" is 255");
}

// ---- a function ----------------------------------------------------------------------------------------------------

typedef struct giver {
    int64_t fails_at;
    ls_status status;
    int silent;
    int32_t label;
} giver;

static ls_status give(void *user, int64_t i, void *const *out) {
    const giver *g = user;
    for (int f = 0; f < 2; f++) assert_int_equal((uintptr_t)out[f] % 64, 0);
    for (int k = 0; k < 3; k++) ((float *)out[0])[k] = (float)(10 * i + k);
    *(int32_t *)out[1] = g->label ? g->label : (int32_t)i;
    if (i != g->fails_at) return LS_OK;
    return g->silent ? g->status : ls_error_set(g->status, "drawer %d is locked", 7);
}

static const ls_field given[] = {{"features", {1, {3}}, LS_DTYPE_F32, 0}, {"label", {0}, LS_DTYPE_I32, 1000}};

static void a_function_gives_samples(void **state) {
    giver g = {.fails_at = 4};
    ls_callback callback = {100, give, &g};
    ls_source *s;
    ls_sample sample;
    OK(ls_source_create_callback("the drawers", given, 2, &callback, &s));
    assert_int_equal(s->scratch_bytes, 128);
    assert_null(ls_source_array(s, 0));
    char *scratch = aligned_alloc(64, 128);
    g.fails_at = -1;
    for (int64_t i = 99; i >= 0; i -= 9) {
        memset(scratch, 0xFF, 128);
        OK(ls_source_read(s, i, scratch, &sample));
        for (int k = 0; k < 3; k++) assert_true(((const float *)sample.field[0])[k] == (float)(10 * i + k));
        assert_int_equal(*(const int32_t *)sample.field[1], i);
    }
    g = (giver){.fails_at = 17, .status = LS_STATUS_IO};
    OK(ls_source_read(s, 16, scratch, &sample));
    refused(ls_source_read(s, 17, scratch, &sample), LS_STATUS_IO, "sample 17 of the drawers: drawer 7 is locked");
    g.silent = 1;  // the sentence of before is not taken for this one's
    refused(ls_source_read(s, 17, scratch, &sample), LS_STATUS_IO, "returned IO and did not say why");
    g.status = (ls_status)-3;
    refused(ls_source_read(s, 17, scratch, &sample), LS_STATUS_LIBRARY, "returned -3, which is no status");
    g = (giver){.fails_at = -1, .label = 1000};
    refused(ls_source_read(s, 3, scratch, &sample), LS_STATUS_BAD_DATA,
            "sample 3 of the drawers: value 0 of \"label\" is 1000");
    free(scratch);
    ls_source_destroy(&s);
    callback.read = NULL;
    refused(ls_source_create_callback("the drawers", given, 2, &callback, &s), LS_STATUS_INVALID_ARGUMENT,
            "no function that reads them");
}

static void what_is_only_thought_of_cannot_be_read(void **state) {
    ls_source *s;
    ls_sample sample;
    OK(ls_source_create_planned("nothing", given, 2, 7, &s));
    assert_int_equal(s->count, 7);
    refused(ls_source_read(s, 1, NULL, &sample), LS_STATUS_INTERNAL, "sample 1 of nothing: it is only thought of");
    ls_source_destroy(&s);
}

// ---- datasets ------------------------------------------------------------------------------------------------------

static ls_arrays_config five(void) {
    return (ls_arrays_config){.name = "five", .fields = fields, .field_count = FIELDS, .train = arrays};
}

static uint64_t fingerprint_of(const ls_arrays_config *c) {
    ls_dataset *d;
    OK(ls_data_create_arrays(c, &d));
    uint64_t f = ls_dataset_fingerprint(d);
    ls_data_close(&d);
    return f;
}

static void a_dataset_says_what_it_is(void **state) {
    ls_arrays_config c = five();
    ls_dataset *d;
    char text[1024];
    OK(ls_data_create_arrays(&c, &d));
    assert_string_equal(ls_dataset_name(d), "five");
    assert_int_equal(ls_dataset_train_count(d), COUNT);
    assert_int_equal(ls_dataset_test_count(d), 0);
    assert_null(d->test);
    for (int f = 0; f < FIELDS; f++) assert_memory_equal(ls_dataset_field(d, f), &fields[f], sizeof fields[f]);
    assert_null(ls_dataset_field(d, FIELDS));
    assert_null(ls_dataset_field(d, -1));
    assert_ptr_equal(ls_dataset_find_field(d, "word"), ls_dataset_field(d, 4));
    assert_null(ls_dataset_find_field(d, "words"));
    assert_true(ls_shape_equal(ls_dataset_image_shape(d), LS_SHAPE(1, 2, 3)));
    assert_int_equal(ls_dataset_classes(d), 3);
    assert_true(ls_data_bytes(d) >= COUNT * (6 + 12 + 16 + 1 + 4));
    ls_data_describe(d, text, sizeof text);
    assert_non_null(strstr(text, "dataset=five; field image=u8 1x2x3; field tokens=i32 3 of 50257 classes; "));
    assert_non_null(strstr(text, "field label=u8 of 3 classes; "));
    assert_non_null(strstr(text, "training samples=5; test samples=0; fingerprint="));
    ls_data_describe(d, text, 20);
    assert_int_equal(strlen(text), 19);
    ls_data_close(&d);

    c.fields = fields + 1, c.field_count = 2, c.name = NULL;  // neither an image nor a label
    c.train = (ls_arrays){COUNT, {tokens, rows}};
    c.test = (ls_arrays){1, {tokens, rows}};
    OK(ls_data_create_arrays(&c, &d));
    assert_string_equal(ls_dataset_name(d), "arrays");
    assert_int_equal(ls_dataset_test_count(d), 1);
    assert_int_equal(ls_dataset_image_shape(d).ndim, 0);
    assert_int_equal(ls_dataset_classes(d), 0);
    ls_data_close(&d);
    ls_data_close(&d);
}

// Any value, type, shape, name, number of classes or count that differs gives another fingerprint; the dataset's name does not.
static void fingerprints_tell_datasets_apart(void **state) {
    ls_arrays_config c = five();
    uint64_t before = fingerprint_of(&c);
    ls_field f[FIELDS];
    memcpy(f, fields, sizeof f);
    c.name = "another name", c.fields = f;
    assert_true(fingerprint_of(&c) == before);
    rows[COUNT * 4 - 1] += 1;
    assert_true(fingerprint_of(&c) != before);
    rows[COUNT * 4 - 1] -= 1;
    wide[0] = 1;
    assert_true(fingerprint_of(&c) != before);
    wide[0] = 0;
    f[3].classes = 4;
    assert_true(fingerprint_of(&c) != before);
    f[3].classes = 3, f[1].classes = 50258;
    assert_true(fingerprint_of(&c) != before);
    f[1].classes = 50257, f[2].shape = LS_SHAPE(4);
    assert_true(fingerprint_of(&c) != before);
    f[2].shape = LS_SHAPE(2, 2), f[2].dtype = LS_DTYPE_I32;
    assert_true(fingerprint_of(&c) != before);
    f[2].dtype = LS_DTYPE_F32, f[2].name[0] = 'T';
    assert_true(fingerprint_of(&c) != before);
    f[2].name[0] = 't', c.test = c.train;
    assert_true(fingerprint_of(&c) != before);
    c.test.count = 0;
    assert_true(fingerprint_of(&c) == before);
    c.train.count = COUNT - 1;
    assert_true(fingerprint_of(&c) != before);
}

static void a_dataset_of_a_function_is_tried_at_once(void **state) {
    giver g = {.fails_at = -1}, broken = {.fails_at = 9, .status = LS_STATUS_IO};
    ls_callback_config c = {.fields = given, .field_count = 2, .train = {100, give, &g}, .test = {19, give, &g}};
    ls_dataset *d, *e;
    OK(ls_data_create_callback(&c, &d));
    assert_string_equal(ls_dataset_name(d), "callback");
    assert_int_equal(ls_dataset_test_count(d), 19);
    assert_int_equal(ls_dataset_classes(d), 1000);
    assert_int_equal(ls_data_bytes(d), 0);
    uint64_t before = ls_dataset_fingerprint(d);
    c.version = 2;
    OK(ls_data_create_callback(&c, &e));
    assert_true(ls_dataset_fingerprint(e) != before);
    ls_data_close(&e);
    c.version = 0, g.label = 5;
    OK(ls_data_create_callback(&c, &e));
    assert_true(ls_dataset_fingerprint(e) != before);
    ls_data_close(&e);
    ls_data_close(&d);
    c.test.user = &broken;  // in the middle of it
    refused(ls_data_create_callback(&c, &d), LS_STATUS_IO, "sample 9 of the test set of callback: drawer 7 is locked");
    c.test.read = NULL;
    refused(ls_data_create_callback(&c, &d), LS_STATUS_INVALID_ARGUMENT,
            "the test set of callback has 19 samples and no");
    c.test.count = 0, c.train.count = 0;
    refused(ls_data_create_callback(&c, &d), LS_STATUS_INVALID_ARGUMENT, "the training set of callback has 0 samples");
    c.train.count = LS_MAX_SAMPLES + 1;
    refused(ls_data_create_callback(&c, &d), LS_STATUS_INVALID_ARGUMENT, "has 4294967297 samples");
    assert_null(d);
    c.train.count = LS_MAX_SAMPLES, g.label = 1;  // that many are fine
    OK(ls_data_create_callback(&c, &d));
    ls_data_close(&d);
}

static void a_copy_outlives_its_arrays(void **state) {
    ls_arrays_config c = five();
    uint8_t *labels = malloc(COUNT);
    ls_data_host *host;
    ls_dataset *d;
    ls_sample sample;
    memcpy(labels, narrow, COUNT);
    c.train.field[3] = labels, c.test = c.train, c.test.count = 2;
    OK(ls_data_host_create_self(&host));
    OK(ls_data_create_arrays(&c, &d));
    uint64_t before = ls_dataset_fingerprint(d);
    assert_ptr_equal(ls_source_array(d->train, 3), labels);
    OK(ls_data_copy(host, d));
    memset(labels, 0xAA, COUNT);
    free(labels);
    assert_int_equal(ls_dataset_fingerprint(d), before);
    for (int64_t i = 0; i < COUNT; i++) {
        OK(ls_source_read(d->train, i, NULL, &sample));
        assert_memory_equal(sample.field[0], images + 6 * i, 6);
        assert_memory_equal(sample.field[1], tokens + TOKENS * i, 4 * TOKENS);
        assert_memory_equal(sample.field[2], rows + 4 * i, 16);
        assert_memory_equal(sample.field[3], narrow + i, 1);
        assert_memory_equal(sample.field[4], wide + i, 4);
        for (int f = 0; f < FIELDS; f++) assert_true(ls_source_array(d->train, f) != arrays.field[f]);
    }
    OK(ls_source_read(d->test, 1, NULL, &sample));
    assert_memory_equal(sample.field[4], wide + 1, 4);
    ls_data_close(&d);
    ls_data_host_destroy_self(&host);
}

static void formats_can_be_listed(void **state) {
    const char *name, *argument, *help;
    int count = 0, files = 0;
    for (; (name = ls_dataset_format(count, &argument, &help)); count++) {
        assert_string_equal(name, ls_formats()[count]->name);
        assert_true(strlen(help) > 10);
        files += argument != NULL;
    }
    assert_null(ls_formats()[count]);
    assert_true(files > 0 && files < count);
    assert_null(ls_dataset_format(-1, &argument, &help));
    assert_null(ls_dataset_format(count + 1, &argument, &help));
}

// ---- conversions ---------------------------------------------------------------------------------------------------

static float as_float(ls_bf16 b) {
    uint32_t u = (uint32_t)b << 16;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static void numbers_are_converted_or_refused(void **state) {
    enum { N = 37 };
    uint8_t bytes[N], out_bytes[N];
    int32_t ints[N], out_ints[N];
    float floats[N], out_floats[N];
    ls_bf16 out_bf16[N];
    const void *in[] = {[LS_DTYPE_U8] = bytes, [LS_DTYPE_I32] = ints, [LS_DTYPE_F32] = floats, [LS_DTYPE_BF16] = NULL};
    void *out[] = {
        [LS_DTYPE_U8] = out_bytes, [LS_DTYPE_I32] = out_ints, [LS_DTYPE_F32] = out_floats, [LS_DTYPE_BF16] = out_bf16};
    for (int i = 0; i < N; i++) bytes[i] = (uint8_t)(7 * i), ints[i] = 7 * i - 100, floats[i] = (float)i / 4;
    int found = 0;
    for (int from = 0; from <= LS_DTYPE_I32; from++)
        for (int to = 0; to <= LS_DTYPE_I32; to++) {
            ls_convert_fn convert;
            ls_status status = ls_convert_find((ls_dtype)from, (ls_dtype)to, &convert);
            if (status != LS_OK) {
                refused(status, LS_STATUS_UNSUPPORTED, "cannot be turned into");
                continue;
            }
            found++;
            convert(in[from], N, out[to]);
            for (int i = 0; i < N; i++) {
                double was = from == LS_DTYPE_U8 ? bytes[i] : from == LS_DTYPE_I32 ? ints[i] : (double)floats[i];
                double is = to == LS_DTYPE_U8     ? out_bytes[i]
                            : to == LS_DTYPE_I32  ? out_ints[i]
                            : to == LS_DTYPE_BF16 ? (double)as_float(out_bf16[i])
                                                  : (double)out_floats[i];
                if (was != is) fail_msg("%s to %s: %g became %g", ls_dtype_name(from), ls_dtype_name(to), was, is);
            }
        }
    assert_int_equal(found, 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_read_where_it_lies),
        cmocka_unit_test(descriptions_that_cannot_be_are_refused),
        cmocka_unit_test(labels_out_of_range_are_told),
        cmocka_unit_test(a_byte_is_in_range_of_256_classes_and_more),
        cmocka_unit_test(a_function_gives_samples),
        cmocka_unit_test(what_is_only_thought_of_cannot_be_read),
        cmocka_unit_test(a_dataset_says_what_it_is),
        cmocka_unit_test(fingerprints_tell_datasets_apart),
        cmocka_unit_test(a_dataset_of_a_function_is_tried_at_once),
        cmocka_unit_test(a_copy_outlives_its_arrays),
        cmocka_unit_test(formats_can_be_listed),
        cmocka_unit_test(numbers_are_converted_or_refused),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
