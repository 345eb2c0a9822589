#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/predict.h"

static ls_status add_named(predict_list *p, const char *folder, const char *between, const char *name) {
    if (p->count == p->room) {
        int room = p->room ? 2 * p->room : 64;
        predict_item *larger = realloc(p->items, (size_t)room * sizeof *larger);
        if (!larger) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for a list of %d files", room);
        p->items = larger;
        p->room = room;
    }
    predict_item *i = &p->items[p->count];
    *i = (predict_item){.path = NULL};
    if (asprintf(&i->path, "%s%s%s", folder ? folder : "", between, name) < 0)
        return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the name of a file");
    p->count++;
    return LS_OK;
}

static ls_status add(predict_list *p, const char *folder, const char *name) {
    size_t n = folder ? strlen(folder) : 0;
    return add_named(p, folder, n && folder[n - 1] != '/' ? "/" : "", name);
}

// Keeps the sentence of the latest failure, and says it.
void predict_note(predict_list *p, predict_item *i) {
    char sentence[1024];
    snprintf(sentence, sizeof sentence, "%s", ls_error_message());
    ls_text_clean(sentence);
    fflush(stdout);
    fprintf(stderr, "lockstep predict: %s\n", sentence);
    i->failure = strdup(sentence);
    p->failed++;
}

// Of the latest failure, in place of what it is of.
static ls_status add_failure(predict_list *p, const char *name) {
    LS_TRY(add(p, NULL, name));
    predict_note(p, &p->items[p->count - 1]);
    return LS_OK;
}

static int is_image(const struct dirent *e) {
    static const char *const endings[] = {".png", ".jpg", ".jpeg"};
    size_t n = strlen(e->d_name);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0] && e->d_name[0] != '.'; i++) {
        size_t length = strlen(endings[i]);
        if (n > length && strcasecmp(e->d_name + n - length, endings[i]) == 0) return 1;
    }
    return 0;
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

// A folder that nothing can be had of stays in the list with its failure.
static ls_status add_folder(predict_list *p, const char *folder) {
    struct dirent **entries;
    ls_status status = LS_OK;
    int n = scandir(folder, &entries, is_image, by_name);
    if (n <= 0) {
        if (n < 0) LS_FAIL(LS_STATUS_IO, "cannot read the folder %s: %s", folder, strerror(errno));
        if (n == 0) LS_FAIL(LS_STATUS_NOT_FOUND, "the folder %s has no PNG or JPEG images", folder);
        if (n == 0) free(entries);
        return add_failure(p, folder);
    }
    for (int i = 0; i < n; i++) {
        if (status == LS_OK) status = add(p, folder, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return status;
}

// Whether what is in front of a colon is the name of a format.
static int is_dataset(const char *word) {
    size_t length = strcspn(word, ":");
    const char *name;
    for (int i = 0; word[length] && (name = ls_dataset_format(i, NULL, NULL)); i++)
        if (strlen(name) == length && memcmp(name, word, length) == 0) return 1;
    return 0;
}

// All samples of a dataset, by the numbers that lists of exclusions have for them. One that cannot be opened stays in the list with its failure, unless
// nothing else was asked for.
static ls_status add_rows(predict_list *p, cli *c, const char *spec, const char *const *columns) {
    ls_dataset *d;
    if (p->rows_count == PREDICT_MOST_DATASETS)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "more than %d datasets are to be predicted: do so in several runs",
                       PREDICT_MOST_DATASETS);
    if (!c->context) LS_TRY(ls_context_create_alone(&c->context));
    ls_status status = ls_dataset_open_columns(c->context, spec, columns, &d);
    if (status != LS_OK && p->alone) return status;
    if (status != LS_OK) return add_failure(p, spec);
    p->rows[p->rows_count++] = (predict_dataset){spec, d};
    for (int test = 0; test < 2; test++) {
        int64_t count = test ? ls_dataset_test_count(d) : ls_dataset_train_count(d);
        for (int64_t i = 0; i < count; i++) {
            char name[32];
            snprintf(name, sizeof name, " %s:%lld", test ? "test" : "train", (long long)i);
            LS_TRY(add_named(p, spec, "", name));
            predict_item *last = &p->items[p->count - 1];
            last->rows = d;
            last->test = test;
            last->sample = i;
        }
    }
    return LS_OK;
}

// A file of numbers, which is no image whatever is in it: stays in the list with what to do.
static int is_table(const char *path) {
    static const char *const kinds[][3] = {
        {".csv", "csv", ",numbers=all, where they are numbers, or name the images that it lists, or their folder"},
        {".npz", "numpy", ""},
        {".npy", "numpy", ",labels=FILE.npy"},
        {".h5", "hdf5", ""},
        {".hdf5", "hdf5", ""}};
    size_t n = strlen(path);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        size_t length = strlen(kinds[k][0]);
        if (n <= length || strcasecmp(path + n - length, kinds[k][0]) != 0) continue;
        LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "%s is no image but has samples in it: name it as a dataset, %s:%s%s", path,
                kinds[k][1], path, kinds[k][2]);
        return 1;
    }
    return 0;
}

static ls_status list_word(predict_list *p, cli *c, const char *word, const char *const *columns) {
    struct stat there;
    int missing = stat(word, &there) != 0;
    if (!missing && S_ISDIR(there.st_mode)) return add_folder(p, word);
    if (missing && is_dataset(word)) return add_rows(p, c, word, columns);
    return is_table(word) ? add_failure(p, word) : add(p, NULL, word);
}

ls_status predict_list_words(predict_list *p, cli *c, const char *const *words, int count, const char *const *columns) {
    p->alone = count == 1;
    for (int i = 0; i < count; i++) LS_TRY(list_word(p, c, words[i], columns));
    return LS_OK;
}

// --- datasets --------------------------------------------------------------------------------------------------------

const ls_field *predict_field(const ls_dataset *d, int *at) {
    const ls_field *field;
    for (*at = 0; (field = ls_dataset_field(d, *at)) && strcmp(field->name, "image") != 0; ++*at) continue;
    return field;
}

// Whether the network takes samples as a dataset has them.
static ls_status check_dataset(ls_shape shape, const predict_dataset *r) {
    int at;
    const ls_field *field = predict_field(r->dataset, &at);
    if (!field || (field->shape.ndim == 3 && field->shape.dim[0] == 0))
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: %s", r->spec,
                       field ? "its images are files: name these, or their folders" : "it has no images or numbers");
    int64_t channels = shape.ndim == 3 ? shape.dim[2] : 0;
    if (field->dtype == LS_DTYPE_U8) {
        if (field->shape.dim[2] == channels) return LS_OK;
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: its images have %lld channels, and the network takes %lld: name images as it was trained "
                       "on",
                       r->spec, (long long)field->shape.dim[2], (long long)channels);
    }
    if (field->dtype == LS_DTYPE_F32 && field->shape.ndim == shape.ndim && ls_shape_equal(field->shape, shape))
        return LS_OK;
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                   "%s: its samples have %lld numbers, and the network takes %lld: name the same columns (numbers=, "
                   "shape=) as for training",
                   r->spec, (long long)ls_shape_count(field->shape), (long long)ls_shape_count(shape));
}

// The latest failure is of a dataset as a whole, which then is one item in place of its samples.
static ls_status drop_rows(predict_list *p, const predict_dataset *r) {
    int kept = 0, told = 0;
    char *name = strdup(r->spec);
    if (!name) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the name of a dataset");
    for (int i = 0; i < p->count; i++) {
        predict_item one = p->items[i];
        if (one.rows == r->dataset) {
            free(one.path);
            if (told++) continue;
            one = (predict_item){.path = name};
            predict_note(p, &one);
        }
        p->items[kept++] = one;
    }
    p->count = kept;
    if (!told) free(name);
    return LS_OK;
}

ls_status predict_list_check(predict_list *p, ls_shape shape) {
    for (int i = 0; i < p->rows_count; i++) {
        ls_status status = check_dataset(shape, &p->rows[i]);
        if (status == LS_OK) continue;
        if (p->alone) return status;
        LS_TRY(drop_rows(p, &p->rows[i]));
    }
    return LS_OK;
}

void predict_list_free(predict_list *p) {
    while (p->rows_count > 0) ls_dataset_destroy(&p->rows[--p->rows_count].dataset);
    for (int i = 0; i < p->count; i++) {
        free(p->items[i].path);
        free(p->items[i].failure);
        free(p->items[i].guesses);
    }
    free(p->items);
}
