// Files of weights: what the reader takes, and the sentence for everything it does not.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "ok.h"
#include "train/weights_file.h"
#include "weights_sample.h"

static char path[64];

static int make_path(void **state) {
    strcpy(path, "/tmp/lockstep-weights-XXXXXX");
    int fd = mkstemp(path);
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state) { return unlink(path); }

static void write_file(const void *bytes, size_t n) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void expect(const ls_weights_file *file, const char *name, const char *shape, const float *values,
                   int64_t count) {
    char text[LS_WEIGHTS_SHAPE_TEXT];
    float read[8];
    const ls_stored_tensor *t = ls_weights_file_find(file, name);
    assert_non_null(t);
    assert_string_equal(ls__stored_shape(t, text), shape);
    assert_int_equal(t->count, count);
    OK(ls_weights_file_read(file, t, read));
    assert_memory_equal(read, values, (size_t)count * sizeof *read);
}

static void a_file_of_the_python_package(void **state) {
    ls_weights_file *f;
    write_file(weights_sample, sizeof weights_sample);
    OK(ls_weights_file_open(path, &f));
    assert_int_equal(f->count, 5);
    assert_string_equal(f->model, "net");
    expect(f, "dense/kernel", "(3, 2)", (float[]){-1, -0.5F, 0, 0.5F, 1, 1.5F}, 6);
    expect(f, "dense/bias", "(2)", (float[]){1.5F, -3}, 2);
    expect(f, "norm/gamma", "(4)", (float[]){0.333251953125F, -0.0F, 0x1p-14F, 0x1p-24F}, 4);
    expect(f, "nothing", "(0, 4)", NULL, 0);
    assert_null(ls_weights_file_find(f, "dense"));
    float none;
    assert_int_equal(ls_weights_file_read(f, ls_weights_file_find(f, "steps"), &none), LS_STATUS_UNSUPPORTED);
    assert_non_null(strstr(ls_error_message(), ": tensor 'steps' is of type I64; weights are F32, F16 or BF16"));
    ls_weights_file_close(&f);
    assert_null(f);
    ls_weights_file_close(&f);
}

// Each of them: what IEEE 754 says a half is.
static void every_half(void **state) {
    enum { COUNT = 65536 };
    static float read[COUNT];
    static unsigned char file[8 + 72 + 2 * COUNT];
    char header[80];
    snprintf(header, sizeof header, "%-72s",
             "{\"h\":{\"dtype\":\"F16\",\"shape\":[65536],\"data_offsets\":[0,131072]}}");
    file[0] = 72;
    memcpy(file + 8, header, 72);
    for (int i = 0; i < COUNT; i++) {
        file[80 + 2 * i] = (unsigned char)i;
        file[81 + 2 * i] = (unsigned char)(i >> 8);
    }
    write_file(file, sizeof file);
    ls_weights_file *f;
    OK(ls_weights_file_open(path, &f));
    OK(ls_weights_file_read(f, &f->tensors[0], read));
    for (int i = 0; i < COUNT; i++) {
        int exponent = i >> 10 & 31, fraction = i & 1023;
        double expected = exponent == 31 ? (fraction ? NAN : INFINITY)
                          : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                         : ldexp(fraction, -24);
        if (i >> 15) expected = -expected;
        if (isnan(expected) ? !isnan(read[i]) : read[i] != expected || !signbit(read[i]) != !(i >> 15))
            fail_msg("half %04x is read as %g, not %g", i, (double)read[i], expected);
    }
    ls_weights_file_close(&f);
}

// What the writer writes the reader reads, whatever the names.
static void what_is_written_is_read(void **state) {
    static const ls_stored_tensor tensors[] = {
        {.name = "a \"quoted\"\\ name\n\xc3\xa9/kernel", .ndim = 4, .dim = {1, 2, 3, 1}},
        {.name = "b", .ndim = 1, .dim = {2}},
        {.name = "scalar", .ndim = 0},
    };
    static const float values[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    FILE *out = fopen(path, "wb");
    OK(ls_weights_header_write(out, path, "net", tensors, 3));
    assert_int_equal(ftell(out) % 8, 0);
    assert_int_equal(fwrite(values, sizeof values[0], 9, out), 9);
    fclose(out);
    ls_weights_file *f;
    OK(ls_weights_file_open(path, &f));
    assert_string_equal(f->model, "net");
    expect(f, tensors[0].name, "(1, 2, 3, 1)", values, 6);
    expect(f, "b", "(2)", values + 6, 2);
    expect(f, "scalar", "()", values + 8, 1);
    ls_weights_file_close(&f);
    out = fopen(path, "wb");
    static const ls_stored_tensor latin = {.name = "caf\xe9", .ndim = 0};
    assert_int_equal(ls_weights_header_write(out, path, "net", &latin, 1), LS_STATUS_INVALID_ARGUMENT);
    fclose(out);
}

// A header and so many bytes behind it.
static ls_status parse(const char *header, int64_t data_bytes) {
    ls_weights_file *f;
    size_t n = strlen(header);
    unsigned char *bytes = calloc(n + 8, 1);
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)((uint64_t)n >> 8 * i);
    memcpy(bytes + 8, header, n);
    ls_status status = ls__weights_file_parse("input", bytes, (int64_t)n + 8, (int64_t)n + 8 + data_bytes, &f);
    assert_int_equal(status == LS_OK, f != NULL);
    ls_weights_file_close(&f);
    free(bytes);
    return status;
}

#define TENSOR(dtype, shape, begin, end)                                                                               \
    "{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

static void every_damage_has_its_sentence(void **state) {
    static const struct {
        const char *header;
        int64_t data_bytes;
        const char *sentence;
    } known[] = {
        {"", 0, "input is no safetensors file: its header does not begin with '{'"},
        {" {}", 0, "input is no safetensors file: its header does not begin with '{'"},
        {"[]", 0, "input is no safetensors file: its header does not begin with '{'"},
        {"{", 0, "input: its header is not JSON: string or '}' expected near end of file"},
        {"{}}", 0, "input: its header is not JSON: end of file expected near '}'"},
        {"{\"a\":1,\"a\":2}", 0, "input: its header is not JSON: duplicate object key near '\"a\"'"},
        {"{\"__metadata__\":3}", 0, "input: its __metadata__ is not an object of texts"},
        {"{\"__metadata__\":{\"a\":3}}", 0, "input: its __metadata__ is not an object of texts"},
        {"{\"a\":[]}", 0, "input: tensor 'a' lacks its dtype, shape or data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, "input: tensor 'a' lacks its dtype, shape or data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"more\":1}}", 4,
         "input: tensor 'a' has more than a dtype, a shape and data_offsets"},
        {"{\"a\":" TENSOR("F31", "1", 0, 4) "}", 4, "input: tensor 'a' is of the unknown type 'F31'"},
        {"{\"a\":{\"dtype\":7,\"shape\":[],\"data_offsets\":[0,4]}}", 4, "input: tensor 'a' is of the unknown type ''"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":1,\"data_offsets\":[0,4]}}", 4,
         "input: tensor 'a' has no shape, a list of whole numbers"},
        {"{\"a\":" TENSOR("F32", "-1", 0, 4) "}", 4,
         "input: tensor 'a' has a shape that is not a list of whole numbers"},
        {"{\"a\":" TENSOR("F32", "1.0", 0, 4) "}", 4,
         "input: tensor 'a' has a shape that is not a list of whole numbers"},
        {"{\"a\":" TENSOR("F32", "1,1,1,1,1,1,1,1,1", 0, 4) "}", 4,
         "input: tensor 'a' has more than the 8 dimensions that weights may have"},
        {"{\"a\":" TENSOR("F32", "4611686018427387904,4", 0, 4) "}", 4,
         "input: tensor 'a' has a shape that is larger than the file"},
        {"{\"a\":" TENSOR("F32", "2", 0, 4) "}", 4, "input: tensor 'a' (2) F32 takes 8 bytes, and has 4"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4,
         "input: tensor 'a' has no data_offsets, two whole numbers"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,\"4\"]}}", 4,
         "input: tensor 'a' has no data_offsets, two whole numbers"},
        {"{\"a\":" TENSOR("F32", "1", -4, 0) "}", 4,
         "input: tensor 'a' is said to lie at bytes -4 to 0 of 4: the file is cut off or damaged"},
        {"{\"a\":" TENSOR("F32", "1", 4, 0) "}", 4,
         "input: tensor 'a' is said to lie at bytes 4 to 0 of 4: the file is cut off or damaged"},
        {"{\"a\":" TENSOR("F32", "1", 0, 4) "}", 3,
         "input: tensor 'a' is said to lie at bytes 0 to 4 of 3: the file is cut off or damaged"},
        {"{\"a\":" TENSOR("F32", "1", 0, 4) ",\"b\":" TENSOR("F32", "1", 2, 6) "}", 6,
         "input: tensor 'b' overlaps another one"},
        {"{\"a\":" TENSOR("F32", "1", 0, 4) ",\"b\":" TENSOR("F32", "1", 0, 4) "}", 4,
         "input: tensor 'b' overlaps another one"},
        {"{\"b\":" TENSOR("F32", "1", 5, 9) ",\"a\":" TENSOR("F32", "1", 0, 4) "}", 9,
         "input: tensor 'b' begins behind bytes that belong to none"},
        {"{\"a\":" TENSOR("F32", "1", 0, 4) "}", 5, "input: 1 bytes at its end belong to no tensor"},
        {"{\"line\\nbreak\\u001b[2J\":" TENSOR("F31", "1", 0, 4) "}", 4,
         "input: tensor 'line?break?[2J' is of the unknown type 'F31'"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_int_equal(parse(known[i].header, known[i].data_bytes), LS_STATUS_BAD_DATA);
        assert_string_equal(ls_error_message(), known[i].sentence);
    }
    OK(parse("{}", 0));
    OK(parse("{}    ", 0));
    OK(parse("{\"b\":" TENSOR("F64", "1", 4, 12) ",\"a\":" TENSOR("BOOL", "2,2", 0, 4) "}", 12));
    assert_int_equal(parse("{\"a\":" TENSOR("F32", "1", 0, 99999999999999999999) "}", 4), LS_STATUS_BAD_DATA);
    assert_non_null(strstr(ls_error_message(), "input: its header is not JSON: too big integer"));
}

static void refuse_file(const void *bytes, size_t n, const char *sentence) {
    ls_weights_file *f;
    write_file(bytes, n);
    assert_int_equal(ls_weights_file_open(path, &f), LS_STATUS_BAD_DATA);
    assert_null(f);
    if (!strstr(ls_error_message(), sentence)) fail_msg("'%s' is not in '%s'", sentence, ls_error_message());
    assert_non_null(strstr(ls_error_message(), path));
}

static void other_files(void **state) {
    ls_weights_file *f;
    assert_int_equal(ls_weights_file_open("/nowhere/weights", &f), LS_STATUS_NOT_FOUND);
    assert_string_equal(ls_error_message(), "cannot read the weights /nowhere/weights: No such file or directory");
    assert_int_equal(ls_weights_file_open("/tmp", &f), LS_STATUS_BAD_DATA);
    assert_string_equal(ls_error_message(), "/tmp is no regular file, as weights are");
    refuse_file("", 0, " is no safetensors file: it has 0 bytes, and its header's length alone takes 8");
    refuse_file("{}", 2, " is no safetensors file: it has 2 bytes, and its header's length alone takes 8");
    refuse_file("\x89HDF\r\n\x1a\n....", 12, " is damaged, or no file of weights: it is cut off");
    refuse_file("PK\3\4........", 12, " is no zip archive, or is cut off");
    refuse_file("\3\0\0\0\0\0\0\0{}", 10,
                " is cut off, or no safetensors file: its header is said to have 3 bytes, and 2 are there");
    refuse_file("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10,
                "is said to have 18446744073709551615 bytes, and 2 are there");
    // Every beginning of a good file is refused.
    for (size_t n = 0; n < sizeof weights_sample; n++) refuse_file(weights_sample, n, "");
    // A header of a size no header has, in a file that is large enough (and has no blocks on the disk).
    write_file("\1\0\0\2\0\0\0\0{", 9);
    assert_int_equal(truncate(path, (64 << 20)), 0);
    assert_int_equal(ls_weights_file_open(path, &f), LS_STATUS_BAD_DATA);
    assert_non_null(
        strstr(ls_error_message(), ": its header is said to have 33554433 bytes, and none has more than 33554432"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_the_python_package),
        cmocka_unit_test(every_half),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(every_damage_has_its_sentence),
        cmocka_unit_test(other_files),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
