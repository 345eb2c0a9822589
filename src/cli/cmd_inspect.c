// lockstep inspect: what was saved, and in what two of them differ.
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/saved.h"

enum { NAME = 36, SHAPE = 18, PATH = 4096 };  // columns at most

typedef struct settings {
    int all;
} settings;

static const ls_option table[] = {
    {"all", LS_OPTION_FLAG, .offset = offsetof(settings, all), .group = "Inspect",
     .help = "look at all files of tensors, those of the optimizer's state as well as the weights"},
    {.name = NULL},
};

// --- texts of files --------------------------------------------------------------------------------------------------

// A name of a file's, cut and without what a terminal would obey.
static const char *shown(const char *name, char text[NAME + 1]) {
    snprintf(text, NAME + 1, "%s", name);
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\t') *p = '?';
    ls_text_clean(text);
    return text;
}

static const char *shape_text(const ls_stored_tensor *t, char text[SHAPE + 1]) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < t->ndim; i++) ls_text_add(text, SHAPE + 1, &used, "%s%lld", i ? "x" : "", (long long)t->dim[i]);
    if (t->ndim == 0) ls_text_add(text, SHAPE + 1, &used, "scalar");
    return text;
}

// What the longest name and shape of a file take.
typedef struct columns {
    int name, shape;
} columns;

static columns columns_of(const ls_weights_file *f) {
    char name[NAME + 1], shape[SHAPE + 1];
    columns c = {6, 5};
    for (int i = 0; i < f->count; i++) {
        int n = (int)strlen(shown(f->tensors[i].name, name)), s = (int)strlen(shape_text(&f->tensors[i], shape));
        c.name = n > c.name ? n : c.name;
        c.shape = s > c.shape ? s : c.shape;
    }
    return c;
}

static void print_name(columns c, const ls_stored_tensor *t) {
    char name[NAME + 1], shape[SHAPE + 1];
    printf("%-*s %*s", c.name, shown(t->name, name), c.shape, shape_text(t, shape));
}

static int is_readable(const ls_stored_tensor *t) {
    return strcmp(t->dtype, "F32") == 0 || strcmp(t->dtype, "F16") == 0 || strcmp(t->dtype, "BF16") == 0;
}

// --- the recipe as a command line ------------------------------------------------------------------------------------

static void add_quoted(char *line, size_t size, size_t *used, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%^";
    if (word[0] && strspn(word, plain) == strlen(word)) {
        ls_text_add(line, size, used, "%s", word);
        return;
    }
    ls_text_add(line, size, used, "'");
    for (; *word; word++) ls_text_add(line, size, used, *word == '\'' ? "'\\''" : "%c", *word);
    ls_text_add(line, size, used, "'");
}

// What train takes by default, option by option.
typedef struct defaults {
    cli_train_settings train;
    ls_train_config config;
    ls_model_config network;
    ls_option_set sets[4];
} defaults;

static void init(defaults *d) {
    *d = (defaults){.train = {.data = "digits", .verbose = 1, .tensorboard_every = 1, .trace_steps = 10}};
    ls_train_config_init(&d->config);
    ls_model_config_init(&d->network);
    d->sets[0] = (ls_option_set){ls_train_options(), &d->config};
    d->sets[1] = (ls_option_set){ls_model_options(), &d->network};
    d->sets[2] = (ls_option_set){cli_train_options(), &d->train};
}

// The default of an option as text; NULL: this version has no such option.
static const char *default_of(const defaults *d, const char *name, char *buffer, size_t size) {
    for (const ls_option_set *s = d->sets; s->table; s++)
        for (const ls_option *o = s->table; o->name; o++)
            if (strcmp(o->name, name) == 0) return ls_option_text(o, s->values, buffer, size);
    return NULL;
}

static void add_option(const defaults *d, char *line, size_t size, size_t *used, const char *name,
                       const json_t *value) {
    char usual[64], number[64];
    const char *other = default_of(d, name, usual, sizeof usual), *word = json_string_value(value);
    if (json_is_integer(value)) snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    if (json_is_real(value)) ls_text_real(json_real_value(value), number);
    if (json_is_number(value)) word = number;
    if (json_is_boolean(value)) word = json_is_true(value) ? "true" : "false";
    if (!word || (other && strcmp(other, word) == 0 && strcmp(name, "data") != 0)) return;
    if (json_is_number(value) && other && other[0] && strtod(other, NULL) == json_number_value(value)) return;
    if (json_is_boolean(value)) {
        ls_text_add(line, size, used, " --%s%s", json_is_true(value) ? "" : "no-", name);
        return;
    }
    ls_text_add(line, size, used, " --%s ", name);
    add_quoted(line, size, used, word);
}

// Those that are not as they are by default; the dataset always.
static void print_recipe(const json_t *recipe) {
    char line[8192];
    size_t used = 0;
    defaults d;
    const char *name, *model = json_string_value(json_object_get(recipe, "model"));
    json_t *value;
    init(&d);
    ls_text_add(line, sizeof line, &used, "lockstep train ");
    add_quoted(line, sizeof line, &used, model ? model : "MODEL");
    json_object_foreach((json_t *)recipe, name, value) {
        if (strcmp(name, "model") != 0) add_option(&d, line, sizeof line, &used, name, value);
    }
    ls_text_clean(line);
    printf("Recipe    %s\n", line);
}

// --- a checkpoint ----------------------------------------------------------------------------------------------------

static void row(const char *what, const char *text) {
    char clean[512];
    snprintf(clean, sizeof clean, "%s", text ? text : "not told");
    ls_text_clean(clean);
    printf("%-10s%s\n", what, clean);
}

// The latest epoch that is whole.
static void print_epoch(const cli_saved *s) {
    static const struct {
        const char *key, *words;
    } values[] = {
        {"loss", "loss"}, {"accuracy", "accuracy"}, {"val_loss", "test loss"}, {"val_accuracy", "test accuracy"}};
    char text[256];
    size_t used = 0;
    const json_t *epochs = json_object_get(s->state, "epochs"), *last;
    if (json_array_size(epochs) == 0) return;
    last = json_array_get(epochs, json_array_size(epochs) - 1);
    const json_t *epoch = json_object_get(last, "epoch");
    if (json_is_integer(epoch))
        ls_text_add(text, sizeof text, &used, "epoch %lld", (long long)json_integer_value(epoch));
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const json_t *value = json_object_get(last, values[i].key);
        if (json_is_number(value))
            ls_text_add(text, sizeof text, &used, "%s%s %.4f", used ? ", " : "", values[i].words,
                        json_number_value(value));
    }
    row("Latest", used ? text : NULL);
}

static void print_files(const cli_saved *s) {
    char bytes[32], file[NAME + 1], digest[NAME + 1];
    printf("Files\n");
    const char *name;
    for (int i = 0; (name = ls_checkpoint_file(s->checkpoint, i)); i++)
        printf("  %-*s %10s  SHA-256 %.16s...\n", NAME, shown(name, file),
               ls_bytes_text(cli_saved_bytes(s, name), bytes), shown(cli_saved_digest(s, name), digest));
}

static void print_checkpoint(const cli_saved *s) {
    char text[128];
    row("Found", s->folder);
    row("Trained", cli_saved_where(s, text, sizeof text) ? text : NULL);
    print_epoch(s);
    row("Written", json_string_value(json_object_get(s->state, "written")));
    row("Lockstep", json_string_value(json_object_get(s->state, "lockstep")));
    row("Numerics", cli_saved_numerics(s));
    print_recipe(cli_saved_recipe(s));
    print_files(s);
}

// --- tensors ---------------------------------------------------------------------------------------------------------

static ls_status read(const ls_weights_file *file, const ls_stored_tensor *t, float **out) {
    *out = NULL;
    LS_TRY(ls_calloc(t->count + 1, sizeof **out, out));
    ls_status status = ls_weights_file_read(file, t, *out);
    if (status != LS_OK) {
        free(*out);
        *out = NULL;
    }
    return status;
}

typedef struct figures {
    double mean, deviation, least, most;
    int64_t finite, zeros, count;
} figures;

static figures measure(const float *x, int64_t count) {
    figures f = {.least = INFINITY, .most = -INFINITY, .count = count};
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) continue;
        f.finite++;
        f.zeros += x[i] == 0;
        f.least = fmin(f.least, x[i]);
        f.most = fmax(f.most, x[i]);
        sum += x[i];
    }
    f.mean = sum / (double)f.finite;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i])) squares += (x[i] - f.mean) * (x[i] - f.mean);
    f.deviation = sqrt(squares / (double)f.finite);
    return f;
}

static void print_figures(columns c, const ls_stored_tensor *t, const figures *f) {
    print_name(c, t);
    if (f->finite)
        printf(" %9.3g %9.3g %9.3g %9.3g", f->mean, f->deviation, f->least, f->most);
    else
        printf(" %9s %9s %9s %9s", "-", "-", "-", "-");
    double of = f->count ? 100 / (double)f->count : 0;
    printf(" %5.1f %% %5.1f %%\n", of * (double)f->zeros, of * (double)(f->count - f->finite));
}

static void print_other_type(columns c, const ls_stored_tensor *t, const char *dtype) {
    print_name(c, t);
    printf("  of type %s, which is not looked into\n", dtype);
}

static ls_status print_tensor(const ls_weights_file *file, columns c, const ls_stored_tensor *t, int64_t *spoiled) {
    float *values;
    if (!is_readable(t)) {
        print_other_type(c, t, t->dtype);
        return LS_OK;
    }
    LS_TRY(read(file, t, &values));
    figures f = measure(values, t->count);
    free(values);
    print_figures(c, t, &f);
    *spoiled += f.count - f.finite;
    return LS_OK;
}

static ls_status print_tensors(const char *path) {
    ls_weights_file *file;
    ls_status status = LS_OK;
    int64_t spoiled = 0, all = 0;
    char count[32], model[NAME + 1];
    LS_TRY(ls_weights_file_open(path, &file));
    columns c = columns_of(file);
    printf("\n%s%s%s\n", path, file->model ? ": weights of " : "", file->model ? shown(file->model, model) : "");
    printf("%-*s %*s %9s %9s %9s %9s %7s %7s\n", c.name, "Tensor", c.shape, "Shape", "Mean", "Deviation", "Minimum",
           "Maximum", "Zeros", "Inf, NaN");
    for (int i = 0; i < file->count && status == LS_OK; i++) {
        status = print_tensor(file, c, &file->tensors[i], &spoiled);
        all += file->tensors[i].count;
    }
    if (status == LS_OK) printf("%d tensors, %s values", file->count, cli_count(all, count));
    if (status == LS_OK && spoiled) printf("; %s of them are no finite numbers", cli_count(spoiled, count));
    if (status == LS_OK) putchar('\n');
    ls_weights_file_close(&file);
    return status;
}

// --- two of them -----------------------------------------------------------------------------------------------------

typedef struct difference {
    double most, sum;
    int64_t differ, unlike;  // values with other bits; of them those where one side is no finite number
} difference;

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static difference compare(const float *a, const float *b, int64_t count) {
    difference d = {.most = 0};
    for (int64_t i = 0; i < count; i++) {
        if (bits_of(a[i]) == bits_of(b[i])) continue;
        double distance = fabs((double)a[i] - (double)b[i]);
        d.differ++;
        if (!isfinite(distance)) {
            d.unlike++;
            continue;
        }
        d.most = fmax(d.most, distance);
        d.sum += distance;
    }
    return d;
}

static void print_difference(columns c, const ls_stored_tensor *t, const difference *d) {
    char count[32];
    print_name(c, t);
    if (!d->differ) {
        printf(" %11s\n", "equal");
        return;
    }
    int64_t finite = t->count - d->unlike;
    printf(" %11.4g %11.4g %7.1f %%", d->most, finite ? d->sum / (double)finite : 0,
           100 * (double)d->differ / (double)t->count);
    if (d->unlike) printf("; %s no finite numbers", cli_count(d->unlike, count));
    putchar('\n');
}

static int same_shape(const ls_stored_tensor *a, const ls_stored_tensor *b) {
    return a->ndim == b->ndim && memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]) == 0;
}

// A tensor of which the other file has none, or one that it cannot be held against. Returns whether it is one.
static int print_unlike(columns c, const ls_stored_tensor *t, const ls_stored_tensor *other) {
    char shape[SHAPE + 1];
    if (other && same_shape(t, other)) return 0;
    print_name(c, t);
    if (other)
        printf("  is %s in the other\n", shape_text(other, shape));
    else
        printf("  is not in the other\n");
    return 1;
}

static ls_status compare_tensor(const ls_weights_file *a, const ls_weights_file *b, columns c,
                                const ls_stored_tensor *t, int *differ) {
    const ls_stored_tensor *other = ls_weights_file_find(b, t->name);
    float *x = NULL, *y = NULL;
    if (print_unlike(c, t, other)) {
        ++*differ;
        return LS_OK;
    }
    if (!is_readable(t) || !is_readable(other)) {
        print_other_type(c, t, is_readable(t) ? other->dtype : t->dtype);
        return LS_OK;
    }
    ls_status status = read(a, t, &x);
    if (status == LS_OK) status = read(b, other, &y);
    if (status == LS_OK) {
        difference d = compare(x, y, t->count);
        print_difference(c, t, &d);
        *differ += d.differ > 0;
    }
    free(x);
    free(y);
    return status;
}

// What only the second has.
static void print_foreign(const ls_weights_file *a, const ls_weights_file *b, columns c, int *differ) {
    for (int i = 0; i < b->count; i++) {
        if (ls_weights_file_find(a, b->tensors[i].name)) continue;
        ++*differ;
        print_name(c, &b->tensors[i]);
        printf("  is in the other alone\n");
    }
}

static ls_status compare_files(const char *one, const char *two) {
    ls_weights_file *a, *b;
    int differ = 0;
    LS_TRY(ls_weights_file_open(one, &a));
    ls_status status = ls_weights_file_open(two, &b);
    if (status != LS_OK) {
        ls_weights_file_close(&a);
        return status;
    }
    columns c = columns_of(a);
    printf("\n%s\n%s\n", one, two);
    printf("%-*s %*s %11s %11s %9s\n", c.name, "Tensor", c.shape, "Shape", "Maximum", "Mean", "Differ");
    for (int i = 0; i < a->count && status == LS_OK; i++) status = compare_tensor(a, b, c, &a->tensors[i], &differ);
    if (status == LS_OK) print_foreign(a, b, c, &differ);
    if (status == LS_OK && differ) printf("%d of %d tensors differ\n", differ, a->count);
    if (status == LS_OK && !differ) printf("All %d tensors are equal\n", a->count);
    ls_weights_file_close(&a);
    ls_weights_file_close(&b);
    return status;
}

// --- the command -----------------------------------------------------------------------------------------------------

static int is_tensors(const char *name) {
    size_t n = strlen(name), ending = strlen(".safetensors");
    return n > ending && strcmp(name + n - ending, ".safetensors") == 0 && !strchr(name, '/');
}

static ls_status path_in(const cli_saved *s, const char *name, char path[PATH]) {
    if (snprintf(path, PATH, "%s/%s", s->folder, name) < PATH) return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the path of %s is too long", s->folder);
}

// One file of the checkpoint, beside the same of the other where there is one.
static ls_status look_at(const cli_saved *a, const cli_saved *b, const char *name) {
    char one[PATH], two[PATH];
    LS_TRY(path_in(a, name, one));
    if (!b) return print_tensors(one);
    if (cli_saved_bytes(b, name) < 0) {
        printf("\n%s is not in %s\n", one, b->folder);
        return LS_OK;
    }
    LS_TRY(path_in(b, name, two));
    return compare_files(one, two);
}

// The weights, then with --all what is beside them; a file alone, as weights.
static ls_status look_at_all(const cli_saved *a, const cli_saved *b, const settings *set) {
    const char *name;
    LS_TRY(b ? compare_files(a->weights, b->weights) : print_tensors(a->weights));
    if (!set->all || !a->folder || (b && !b->folder)) return LS_OK;
    for (int i = 0; (name = ls_checkpoint_file(a->checkpoint, i)); i++)
        if (is_tensors(name) && strcmp(name, "weights.safetensors") != 0) LS_TRY(look_at(a, b, name));
    return LS_OK;
}

static ls_status inspect(const char *path, const char *other, const settings *set) {
    cli_saved a, b = {.folder = NULL};
    ls_status status = cli_saved_open(path, &a);
    if (status == LS_OK && other) status = cli_saved_open(other, &b);
    if (status == LS_OK && a.folder && !other) print_checkpoint(&a);
    if (status == LS_OK) status = look_at_all(&a, other ? &b : NULL, set);
    cli_saved_close(&a);
    cli_saved_close(&b);
    return status;
}

static ls_status run(cli *c, int argc, char **argv) {
    settings set = {.all = 0};
    ls_words words;
    const ls_option_set options[] = {{table, &set}, {NULL, NULL}};
    LS_TRY(ls_options_parse(options, argc, argv, 2, &words));
    if (words.help) {
        printf("Usage: lockstep inspect CHECKPOINT [OTHER] [--all]\n\n");
        ls_print_entry(
            stdout, "", 0, cli_help_width(),
            "Tells what a checkpoint holds: where training was, its recipe as a command line, and its tensors in "
            "figures. "
            "With OTHER, in what the two differ, tensor by tensor: the largest and the mean distance of two values, "
            "and how "
            "many are not the same. Each is a checkpoint, a folder of checkpoints, of which the newest counts, or a "
            ".safetensors file.");
        ls_options_help(stdout, options, cli_help_width());
        return LS_OK;
    }
    if (words.count == 0)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "which checkpoint? Usage: lockstep inspect CHECKPOINT [OTHER]: a folder, or a .safetensors file");
    c->stage = CLI_STAGE_TOGETHER;
    return inspect(words.word[0], words.count > 1 ? words.word[1] : NULL, &set);
}

const cli_command cli_command_inspect = {"inspect", "what a checkpoint holds, and how two of them differ", run};
