#include "data/formats/hdf5_file.h"

#include <hdf5.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/aside.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/formats/hdf5_elsewhere.h"
#include "data/hdf5_library.h"
#include "data/image.h"

typedef enum question { FIND, OPEN, READ } question;

// What is asked of the other process; the answer is in `set`, or lies behind it.
typedef struct shared {
    question question;
    char name[2][128];
    int classes, found;
    ls__hdf5_set set[2];
    ls__hdf5_type type;
    int64_t from, count, values;
} shared;

struct ls__hdf5_file {
    char path[4096];
    int64_t bytes;
    ls_aside *aside;
    // Of the other process: what is open there.
    hid_t file, set;
    char open[128];
};

pthread_mutex_t ls__hdf5_library = PTHREAD_MUTEX_INITIALIZER;

// --- the library's words ---------------------------------------------------------------------------------------------

// Of a failed write it tells the time and all numbers, over two lines; what the system said is what helps.
static herr_t innermost(unsigned n, const H5E_error2_t *e, void *text) {
    if (n != 0) return 0;
    const char *numbers = strstr(e->desc, ": time = "), *system = strstr(e->desc, "error message = '");
    if (numbers && system) {
        system += strlen("error message = '");
        snprintf(text, 128, "%.*s: %.*s", (int)(numbers - e->desc), e->desc, (int)strcspn(system, "'"), system);
    } else {
        snprintf(text, 128, "%.*s", (int)strcspn(e->desc, "\n"), e->desc);
    }
    return 0;
}

void ls__hdf5_why(char *text, size_t size) {
    char why[128] = "no reason";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, why);
    snprintf(text, size, "%s", why);
}

// --- the other process: what is there --------------------------------------------------------------------------------

// Whether a data set is in this file, and not in another that a link leads to.
static int lies_in(hid_t file, hid_t set) {
    char mine[4096] = "", its[4096] = "?";
    return H5Fget_name(file, mine, sizeof mine) > 0 && H5Fget_name(set, its, sizeof its) > 0 && strcmp(mine, its) == 0;
}

// `classes`: whole numbers of any type are what is wanted.
static ls_status describe_open(const char *path, hid_t file, hid_t set, int classes, ls__hdf5_set *p) {
    hsize_t dim[H5S_MAX_RANK];
    hid_t space = H5Dget_space(set), type = H5Dget_type(set), how = H5Dget_create_plist(set);
    ls_status status = LS_OK;
    int ndim = H5Sget_simple_extent_ndims(space);
    H5T_class_t class = H5Tget_class(type);
    size_t width = H5Tget_size(type);
    int whole = class == H5T_INTEGER && (classes || (width == 1 && H5Tget_sign(type) == H5T_SGN_NONE));
    if (ndim < 1 || ndim > 4 || H5Sget_simple_extent_dims(space, dim, NULL) != ndim || (!whole && class != H5T_FLOAT)) {
        status = LS_FAIL(
            LS_STATUS_BAD_DATA,
            "%s: %s has %d dimensions, of which 1 to 4 are read, or values of another type: images are uint8 or "
            "floating, as is what is learned by targets=NAME; classes are whole numbers of any type, written as such "
            "or floating",
            path, p->name, ndim);
    } else {
        p->ndim = ndim;
        p->pixels = class == H5T_INTEGER;
        for (int d = 0; d < ndim; d++) p->dim[d] = dim[d] > INT32_MAX ? -1 : (int64_t)dim[d];
        haddr_t at = H5Dget_offset(set);
        int native = H5Tequal(type, H5T_NATIVE_UCHAR) > 0 || H5Tequal(type, H5T_NATIVE_FLOAT) > 0;
        int plain = H5Pget_layout(how) == H5D_CONTIGUOUS && H5Pget_external_count(how) == 0 && lies_in(file, set);
        p->at = plain && native && at != HADDR_UNDEF ? (int64_t)at : -1;
    }
    H5Pclose(how);
    H5Tclose(type);
    H5Sclose(space);
    return status;
}

// --- the other process: what is stored -------------------------------------------------------------------------------

// Of external files, or a view of other data sets: what is stored here says nothing of them.
static int lies_elsewhere(hid_t how) {
#if H5_VERSION_GE(1, 10, 0)
    if (H5Pget_layout(how) == H5D_VIRTUAL) return 1;
#endif
    return H5Pget_external_count(how) > 0;
}

// Sizes are believed no further than what is stored goes along with them: all of it in one piece, or packed, for which gzip needs a thousandth at least.
static ls_status check_stored(const char *path, hid_t set, const ls__hdf5_set *p) {
    hid_t type = H5Dget_type(set), how = H5Dget_create_plist(set);
    int elsewhere = lies_elsewhere(how), packed = H5Pget_layout(how) == H5D_CHUNKED;
    double each = (double)H5Tget_size(type), stored = elsewhere ? 0 : (double)H5Dget_storage_size(set);
    char its[PATH_MAX];  // the file that it lies in, which a link may have led to
    struct stat there;
    int fine = H5Fget_name(set, its, sizeof its) > 0 && stat(its, &there) == 0;
    H5Pclose(how);
    H5Tclose(type);
    for (int d = 1; d < p->ndim; d++) each *= (double)p->dim[d];
    if (!fine) return ls__hdf5_failed(path, p->name);
    int less =
        !elsewhere && (stored > (double)there.st_size || each * (double)p->dim[0] > stored * (packed ? 1100 : 1));
    if (!less && each <= (double)LS_IMAGE_MAX_FILE) return LS_OK;
    return LS_FAIL(
        LS_STATUS_BAD_DATA,
        "%s: %s is said to have %lld samples of %.0f bytes, of which %.0f bytes are stored, and each may have "
        "%lld MB: it is damaged, or was never written to the end; make it again",
        path, p->name, (long long)p->dim[0], each, stored, (long long)(LS_IMAGE_MAX_FILE >> 20));
}

static ls_status describe(const char *path, hid_t file, const char *name, int classes, ls__hdf5_set *p) {
    const ls__hdf5_place at = {path, name, path, file};
    hid_t set;
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%.120s", name);
    LS_TRY(ls__hdf5_open_set(&at, &set));
    ls_status status = ls__hdf5_check_elsewhere(&at, set);
    if (status == LS_OK) status = describe_open(path, file, set, classes, p);
    for (int d = 0; d < p->ndim && status == LS_OK; d++)
        if (p->dim[d] < 1)
            status = LS_FAIL(LS_STATUS_BAD_DATA, "%s: %s has no values, or more than 2^31 in a dimension", path, name);
    if (status == LS_OK) status = check_stored(path, set, p);
    H5Dclose(set);
    p->there = status == LS_OK;
    return status;
}

static ls_status find(const ls__hdf5_file *f, shared *s) {
    int there = 1;
    s->found = 0;
    for (int i = 0; i < 2 && there; i++)
        LS_TRY(ls__hdf5_exists(&(ls__hdf5_place){f->path, s->name[i], f->path, f->file}, s->name[i], &there));
    if (!there) return LS_OK;
    LS_TRY(describe(f->path, f->file, s->name[0], 0, &s->set[0]));
    LS_TRY(describe(f->path, f->file, s->name[1], s->classes, &s->set[1]));
    s->found = 1;
    return LS_OK;
}

// --- the other process: values ---------------------------------------------------------------------------------------

// The data set of the last time mostly is that of this one.
static ls_status open_again(ls__hdf5_file *f, const char *name) {
    if (f->set >= 0 && strcmp(f->open, name) == 0) return LS_OK;
    if (f->set >= 0) H5Dclose(f->set);
    snprintf(f->open, sizeof f->open, "%s", name);
    return ls__hdf5_open_set(&(ls__hdf5_place){f->path, name, f->path, f->file}, &f->set);
}

static ls_status read_values(ls__hdf5_file *f, shared *s) {
    const hid_t types[] = {H5T_NATIVE_UCHAR, H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE};
    hsize_t from[H5S_MAX_RANK] = {0}, count[H5S_MAX_RANK];
    LS_TRY(open_again(f, s->name[0]));
    hid_t there = H5Dget_space(f->set), here = -1;
    int ndim = H5Sget_simple_extent_ndims(there);
    int fine = ndim >= 1 && ndim <= 4 && H5Sget_simple_extent_dims(there, count, NULL) == ndim;
    from[0] = (hsize_t)s->from;
    count[0] = (hsize_t)s->count;
    hsize_t values = (hsize_t)s->values;
    fine = fine && H5Sselect_hyperslab(there, H5S_SELECT_SET, from, NULL, count, NULL) >= 0 &&
           H5Sget_select_npoints(there) == (hssize_t)values;
    here = fine ? H5Screate_simple(1, &values, NULL) : -1;
    fine = here >= 0 && H5Dread(f->set, types[s->type], here, there, H5P_DEFAULT, s + 1) >= 0;
    ls_status status = fine ? LS_OK : ls__hdf5_failed(f->path, s->name[0]);
    if (here >= 0) H5Sclose(here);
    if (there >= 0) H5Sclose(there);
    return status;
}

static ls_status answer(void *user, void *memory) {
    ls__hdf5_file *f = user;
    shared *s = memory;
    if (f->file < 0) f->file = ls__hdf5_open_file(f->path);
    if (f->file < 0) return ls__hdf5_failed(f->path, "it");
    if (s->question == FIND) return find(f, s);
    return s->question == OPEN ? open_again(f, s->name[0]) : read_values(f, s);
}

// --- this process ----------------------------------------------------------------------------------------------------

ls_status ls__hdf5_file_create(const char *path, int64_t bytes, ls__hdf5_file **out) {
    ls__hdf5_file *f;
    *out = NULL;
    LS_TRY(ls_calloc(1, sizeof *f, &f));
    snprintf(f->path, sizeof f->path, "%s", path);
    f->bytes = bytes;
    f->file = f->set = -1;
    const ls_aside_options options = {.fn = answer,
                                      .user = f,
                                      .path = path,
                                      .library = "the HDF5 library",
                                      .bytes = (int64_t)sizeof(shared) + bytes,
                                      .seconds = LS__HDF5_SECONDS,
                                      .patience = LS__HDF5_PATIENCE,
                                      .memory = LS__HDF5_MEMORY};
    pthread_mutex_lock(&ls__hdf5_library);
    ls_status status = ls_aside_create(&options, &f->aside);
    pthread_mutex_unlock(&ls__hdf5_library);
    if (status != LS_OK) {
        free(f);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    *out = f;
    return LS_OK;
}

void ls__hdf5_file_destroy(ls__hdf5_file **file) {
    if (!*file) return;
    ls_aside_destroy(&(*file)->aside);
    free(*file);
    *file = NULL;
}

// A process over whose memory a damaged file has gone may tell anything.
static int in_bounds(const ls__hdf5_set *p, const char *name) {
    double each = p->pixels ? 1 : 4;
    if (strncmp(p->name, name, 120) != 0 || p->ndim < 1 || p->ndim > 4 || p->at < -1) return 0;
    for (int d = 0; d < p->ndim; d++) {
        if (p->dim[d] < 1 || p->dim[d] > INT32_MAX) return 0;
        if (d) each *= (double)p->dim[d];
    }
    return each <= 8 * (double)LS_IMAGE_MAX_FILE;
}

ls_status ls__hdf5_file_find(ls__hdf5_file *f, const char *images, const char *learned, int classes,
                             ls__hdf5_set out[2], int *found) {
    shared *s = ls_aside_memory(f->aside);
    const char *const names[2] = {images, learned};
    *found = 0;
    s->question = FIND;
    s->classes = classes;
    for (int i = 0; i < 2; i++) snprintf(s->name[i], sizeof s->name[i], "%.120s", names[i]);
    LS_TRY(ls_aside_ask(f->aside));
    *found = s->found == 1;
    for (int i = 0; i < 2 && *found; i++) {
        out[i] = s->set[i];
        out[i].name[sizeof out[i].name - 1] = 0;
        out[i].there = 1;
        out[i].pixels = out[i].pixels != 0;
        if (in_bounds(&out[i], names[i])) continue;
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s is damaged: what HDF5's library reads of %.120s is no data set; copy or make it again",
                       f->path, names[i]);
    }
    return LS_OK;
}

ls_status ls__hdf5_file_open(ls__hdf5_file *f, const ls__hdf5_set *set) {
    shared *s = ls_aside_memory(f->aside);
    s->question = OPEN;
    snprintf(s->name[0], sizeof s->name[0], "%.120s", set->name);
    return ls_aside_ask(f->aside);
}

ls_status ls__hdf5_file_read(ls__hdf5_file *f, const ls__hdf5_set *set, ls__hdf5_type type, int64_t from, int64_t count,
                             const void **values) {
    static const int64_t sizes[] = {1, 4, 8};
    shared *s = ls_aside_memory(f->aside);
    int64_t n = count;
    for (int d = 1; d < set->ndim; d++) n *= set->dim[d];
    if (n * sizes[type] > f->bytes)
        return LS_FAIL(LS_STATUS_INTERNAL, "%s: %lld values are more than there is room for", f->path, (long long)n);
    s->question = READ;
    s->type = type;
    s->from = from;
    s->count = count;
    s->values = n;
    snprintf(s->name[0], sizeof s->name[0], "%.120s", set->name);
    LS_TRY(ls_aside_ask(f->aside));
    *values = s + 1;
    return LS_OK;
}
