// Options as data: parsing, checking, suggestions, help and the line that workers compare.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/options.h"

typedef struct values {
    int epochs, shuffle, nesterov;
    int64_t batch;
    uint64_t seed;
    double lr;
    const char *precision, *optimizer, *record, *colours;
} values;

static const char *optimizer_choice(int index, const char **help) {
    static const char *const names[] = {"sgd", "adam", "adamw"};
    *help = "what it does";
    return index < 3 ? names[index] : NULL;
}

#define AT(member) .offset = offsetof(values, member)
static const ls_option table[] = {
    {"epochs", LS_OPTION_INT, AT(epochs), .metavar = "N", .min = 1, .group = "Training", .help = "passes"},
    {"batch-size", LS_OPTION_COUNT, AT(batch), .metavar = "B", .min = 1, .group = "Training", .help = "samples"},
    {"seed", LS_OPTION_SEED, AT(seed), .metavar = "N", .group = "Training", .help = "seed"},
    {"shuffle", LS_OPTION_FLAG, AT(shuffle), .group = "Training", .help = "keep the order"},
    {"lr", LS_OPTION_REAL, AT(lr), .metavar = "X", .max = 10, .initial = "its own", .group = "Rate",
     .help = "the rate"},
    {"nesterov", LS_OPTION_FLAG, AT(nesterov), .group = "Rate", .help = "Nesterov's form"},
    {"precision", LS_OPTION_TEXT, AT(precision), .metavar = "fp32|bf16", .group = "Training", .help = "the type"},
    {"optimizer", LS_OPTION_TEXT, AT(optimizer), .metavar = "NAME", .choices = optimizer_choice, .group = "Rate",
     .help = "how"},
    {.name = NULL},
};
static const ls_option more[] = {
    {"record", LS_OPTION_TEXT, AT(record), .metavar = "FILE", .group = "Output", .help = "where"},
    {"colours", LS_OPTION_TEXT, AT(colours), .metavar = "red|green", .several = 1, .group = "Output", .help = "which"},
    {.name = NULL},
};

static values v;
static ls_option_set sets[] = {{table, &v}, {more, &v}, {NULL, NULL}};
static ls_words words;

static int setup(void **state) {
    v = (values){
        .epochs = 5, .shuffle = 1, .batch = 128, .seed = 42, .lr = -1, .precision = "fp32", .optimizer = "adam"};
    return 0;
}

#define PARSE(...)                                                                                                     \
    ls_options_parse(sets, (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[]){__VA_ARGS__}, 1, &words)

static void reads_every_type(void **state) {
    assert_int_equal(
        PARSE("--epochs", "3", "net", "--batch-size=1000000000000", "--seed", "9223372036854775807", "--no-shuffle",
              "--nesterov", "--lr=1e-3", "--precision", "bf16", "--optimizer=sgd", "--record", "-"),
        LS_OK);
    assert_int_equal(v.epochs, 3);
    assert_true(v.batch == 1000000000000);
    assert_true(v.seed == 9223372036854775807u);
    assert_int_equal(v.shuffle, 0);
    assert_int_equal(v.nesterov, 1);
    assert_true(v.lr == 1e-3);
    assert_string_equal(v.precision, "bf16");
    assert_string_equal(v.optimizer, "sgd");
    assert_string_equal(v.record, "-");
    assert_int_equal(words.count, 1);
    assert_string_equal(words.word[0], "net");
    assert_int_equal(words.help, 0);
}

static void dashes_end_options_and_help_stops(void **state) {
    assert_int_equal(PARSE("--", "--epochs"), LS_OK);
    assert_string_equal(words.word[0], "--epochs");
    assert_int_equal(PARSE("-h", "--nonsense"), LS_OK);
    assert_int_equal(words.help, 1);
}

static void refused(ls_status status, const char *sentence) {
    assert_int_equal(status, LS_STATUS_INVALID_ARGUMENT);
    assert_string_equal(ls_error_message(), sentence);
}

static void refuses_with_a_sentence(void **state) {
    refused(PARSE("--epochs", "x"), "--epochs: expected a whole number of at least 1, got 'x'");
    refused(PARSE("--epochs", "0"), "--epochs: expected a whole number of at least 1, got '0'");
    refused(PARSE("--epochs", "3000000000"), "--epochs: expected a whole number of at least 1, got '3000000000'");
    refused(PARSE("--epochs="), "--epochs: expected a whole number of at least 1, got ''");
    refused(PARSE("--epochs", "1.5"), "--epochs: expected a whole number of at least 1, got '1.5'");
    refused(PARSE("--batch-size", "99999999999999999999"),
            "--batch-size: expected a whole number of at least 1, got '99999999999999999999'");
    refused(PARSE("--lr", "nan"), "--lr: expected a number from 0 to 10, got 'nan'");
    refused(PARSE("--lr", "11"), "--lr: expected a number from 0 to 10, got '11'");
    refused(PARSE("--lr", "-1"), "--lr: expected a number from 0 to 10, got '-1'");
    refused(PARSE("--epochs"), "--epochs needs a value: --epochs N");
    refused(PARSE("--no-shuffle=1"), "--no-shuffle takes no value, got '1'");
    refused(PARSE("--precision", "fp16"), "--precision: 'fp16' is not one of fp32, bf16; did you mean fp32?");
    refused(PARSE("--optimizer", "SGD"), "--optimizer: 'SGD' is not one of sgd, adam, adamw; did you mean sgd?");
    refused(PARSE("--optimizer", "lion"), "--optimizer: 'lion' is not one of sgd, adam, adamw");
    refused(PARSE("--record="), "--record: expected FILE, got nothing");
    refused(PARSE("a", "b"), "unexpected word 'b'; --help shows the usage");
    assert_int_equal(v.epochs, 5);  // a refused value changes nothing
}

// A row in front has other words; one without help takes the option away.
static void the_first_row_of_a_name_counts(void **state) {
    static const ls_option own[] = {
        {"batch-size", LS_OPTION_COUNT, AT(batch), .metavar = "B", .min = 1, .initial = "as many as fit",
         .group = "Own", .help = "samples, here"},
        {.name = "epochs"},
        {.name = "shuffle"},
        {.name = NULL},
    };
    const ls_option_set fewer[] = {{own, &v}, {table, &v}, {NULL, NULL}};
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    ls_options_help(out, fewer, 80);
    fclose(out);
    const char *first = strstr(text, "batch-size");
    assert_non_null(first);
    assert_null(strstr(first + 1, "batch-size"));
    assert_non_null(strstr(text, "samples, here (default: as many as fit)"));
    assert_null(strstr(text, "epochs"));
    assert_null(strstr(text, "shuffle"));
    assert_non_null(strstr(text, "--seed N"));
    free(text);

#define PARSE_FEWER(word) ls_options_parse(fewer, 1, (char *[]){word}, 1, &words)
    assert_int_equal(PARSE_FEWER("--batch-size=7"), LS_OK);
    assert_true(v.batch == 7);
    refused(PARSE_FEWER("--epochs=3"), "unknown option --epochs; --help lists the options");
    refused(PARSE_FEWER("--epoch=3"), "unknown option --epoch; --help lists the options");
    refused(PARSE_FEWER("--no-shuffle"), "unknown option --no-shuffle; --help lists the options");
    refused(ls_options_assign(fewer, "shuffle", "false"), "unknown option --shuffle; --help lists the options");
    assert_int_equal(v.epochs, 5);
    assert_int_equal(v.shuffle, 1);
}

static void takes_several_where_there_may_be(void **state) {
    assert_int_equal(PARSE("--colours", "red"), LS_OK);
    assert_string_equal(v.colours, "red");
    assert_int_equal(PARSE("--colours=green,red"), LS_OK);
    assert_string_equal(v.colours, "green,red");
    refused(PARSE("--colours", "green,gren,red"), "--colours: 'gren' is not one of red, green; did you mean green?");
    refused(PARSE("--colours", "green,"), "--colours: '' is not one of red, green");
    refused(PARSE("--colours", ",green"), "--colours: '' is not one of red, green");
    refused(PARSE("--colours="), "--colours: '' is not one of red, green");
    refused(PARSE("--precision", "fp32,bf16"), "--precision: 'fp32,bf16' is not one of fp32, bf16");
    assert_string_equal(v.colours, "green,red");
}

static void suggests_the_nearest_name(void **state) {
    refused(PARSE("--epoch", "3"), "unknown option --epoch; did you mean --epochs?");
    refused(PARSE("--batchsize=3"), "unknown option --batchsize; did you mean --batch-size?");
    refused(PARSE("--no-shufle"), "unknown option --no-shufle; did you mean --no-shuffle?");
    refused(PARSE("--batch", "3"), "unknown option --batch; did you mean --batch-size?");
    refused(PARSE("--frobnicate"), "unknown option --frobnicate; --help lists the options");
    refused(PARSE("-n", "4"), "unknown option -n; --help lists the options");
    refused(PARSE("--no-epochs"), "unknown option --no-epochs; --help lists the options");
}

static void assigns_as_a_file_does(void **state) {
    assert_int_equal(ls_options_assign(sets, "shuffle", "false"), LS_OK);
    assert_int_equal(v.shuffle, 0);
    assert_int_equal(ls_options_assign(sets, "no-shuffle", "false"), LS_OK);
    assert_int_equal(v.shuffle, 1);
    assert_int_equal(ls_options_assign(sets, "epochs", "7"), LS_OK);
    assert_int_equal(v.epochs, 7);
    refused(ls_options_assign(sets, "shuffle", "1"), "--shuffle: expected true or false, got '1'");
    refused(ls_options_assign(sets, "epoch", "1"), "unknown option --epoch; did you mean --epochs?");
}

static void line_holds_every_value(void **state) {
    char line[256], small[24];
    assert_int_equal(PARSE("--lr", "0.1"), LS_OK);
    ls_options_line(sets, line, sizeof line);
    assert_string_equal(line,
                        "epochs=5; batch-size=128; seed=42; shuffle=true; lr=0.1; nesterov=false; "
                        "precision=fp32; optimizer=adam; record=; colours=");
    ls_options_line(sets, small, sizeof small);
    assert_true(strlen(small) < sizeof small);
    char text[64];  // doubles read back as they were
    v.lr = 1.0 / 3;
    assert_true(strtod(ls_option_text(&table[4], &v, text, sizeof text), NULL) == 1.0 / 3);
}

// Where a line is too long its end still tells two apart, and nothing is written behind it, however long a value is.
static void a_line_that_is_cut_off_still_tells_apart(void **state) {
    static char value[20001];
    struct {
        char line[300], behind[64];
    } a, b;
    for (size_t size = 1; size <= sizeof a.line; size++)
        for (int length = 10; length < (int)sizeof value; length *= 3) {
            memset(&a, 'x', sizeof a), memset(&b, 'x', sizeof b);
            memset(value, 'r', (size_t)length);
            value[length] = 0;
            v.record = value;
            ls_options_line(sets, a.line, size);
            value[length - 1] = 's';
            ls_options_line(sets, b.line, size);
            assert_true(strlen(a.line) < size && strlen(b.line) < size);
            for (size_t i = size; i < sizeof a; i++) assert_int_equal(((char *)&a)[i], 'x');
            if (size > 200) assert_true(strcmp(a.line, b.line) != 0);
        }
    assert_non_null(strstr(a.line, "...; all="));
}

static void help_is_grouped_and_fits(void **state) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    ls_options_help(out, sets, 60);
    fclose(out);
    assert_non_null(strstr(text, "\nTraining:\n  --epochs N             passes (default: 5)\n"));
    assert_non_null(strstr(text, "  --no-shuffle           keep the order\n"));
    assert_non_null(strstr(text, "  --nesterov "));
    assert_non_null(strstr(text, "the rate (default: its own)\n"));
    assert_non_null(strstr(text, "adamw "));
    assert_true(strstr(text, "precision") < strstr(text, "\nRate:\n"));
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) assert_true(strlen(line) <= 60);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(reads_every_type, setup),
        cmocka_unit_test_setup(dashes_end_options_and_help_stops, setup),
        cmocka_unit_test_setup(refuses_with_a_sentence, setup),
        cmocka_unit_test_setup(the_first_row_of_a_name_counts, setup),
        cmocka_unit_test_setup(takes_several_where_there_may_be, setup),
        cmocka_unit_test_setup(suggests_the_nearest_name, setup),
        cmocka_unit_test_setup(assigns_as_a_file_does, setup),
        cmocka_unit_test_setup(line_holds_every_value, setup),
        cmocka_unit_test_setup(a_line_that_is_cut_off_still_tells_apart, setup),
        cmocka_unit_test_setup(help_is_grouped_and_fits, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
