#define _GNU_SOURCE
#include "train/weights_hdf5.h"

#include <errno.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/aside.h"
#include "base/error.h"
#include "base/memory.h"
#include "data/formats/npz.h"
#include "data/hdf5_library.h"

enum {
    MOST_TENSORS = 100000,
    DEEPEST = 16,  // groups in one another
    NAME = 256,
    ARCHIVE_END = 1 << 16,
};

// --- what lies in the file -------------------------------------------------------------------------------------------

typedef struct found {
    char name[NAME];       // as a tensor
    char layer[NAME];      // what the file calls its layer; "": it does not say
    char place[4 * NAME];  // in the file
    int ndim;
    int64_t dim[LS_WEIGHTS_MAX_DIMS], count;
} found;

typedef struct reader {
    const char *path;
    int64_t file_bytes;
    hid_t file;
    found *tensors;
    int count, room;
} reader;

static ls_status damaged(const reader *r, const char *what) {
    return LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged, or no file of weights: %s", r->path, what);
}

static ls_status check_dataset(reader *r, hid_t set, found *t) {
    hid_t type = H5Dget_type(set), plist = H5Dget_create_plist(set);
    H5T_class_t class = H5Tget_class(type);
    int numbers = class == H5T_FLOAT || class == H5T_INTEGER;
    int elsewhere = H5Pget_layout(plist) == H5D_VIRTUAL || H5Pget_external_count(plist) > 0;
    hid_t space = elsewhere ? -1 : H5Dget_space(set);  // asked for a view's, the library opens what it is of
    hsize_t dims[H5S_MAX_RANK] = {0};
    t->ndim = H5Sget_simple_extent_ndims(space);
    int shaped =
        t->ndim >= 0 && t->ndim <= LS_WEIGHTS_MAX_DIMS && H5Sget_simple_extent_dims(space, dims, NULL) == t->ndim;
    // Packed values are at most about 1000 times as many; with none stored there is nothing to read.
    int64_t stored = (int64_t)H5Dget_storage_size(set), most = stored > r->file_bytes ? 0 : 1032 * stored;
    H5Tclose(type), H5Pclose(plist);
    if (space >= 0) H5Sclose(space);
    if (!numbers)
        return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: weights '%s' are neither floating nor whole numbers", r->path,
                       t->name);
    if (elsewhere) return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s: weights '%s' lie in another file", r->path, t->name);
    if (!shaped) return damaged(r, "it has a tensor without a shape, or of too many dimensions");
    t->count = 1;
    for (int i = 0; i < t->ndim; i++) {
        if (dims[i] > INT64_MAX || __builtin_mul_overflow(t->count, (int64_t)dims[i], &t->count))
            return damaged(r, "it is said to have more values than there can be");
        t->dim[i] = (int64_t)dims[i];
    }
    if (t->count > most) return damaged(r, "it is said to have more values than are stored");
    return LS_OK;
}

static ls_status add(reader *r, hid_t from, const char *place, const char *name, const char *layer) {
    if (r->count == MOST_TENSORS) return damaged(r, "it has more tensors than any network");
    for (int i = 0; i < r->count; i++)
        if (strcmp(r->tensors[i].name, name) == 0)
            return LS_FAIL(LS_STATUS_UNSUPPORTED, "%s has two tensors that would be called '%s'", r->path, name);
    if (r->count == r->room) {
        int room = r->room ? 2 * r->room : 64;
        found *grown = realloc(r->tensors, (size_t)room * sizeof *grown);
        if (!grown) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the names of weights");
        r->tensors = grown;
        r->room = room;
    }
    found *t = &r->tensors[r->count];
    *t = (found){.ndim = 0};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->layer, sizeof t->layer, "%s", layer);
    hid_t set = H5Dopen2(from, place, H5P_DEFAULT);
    if (set < 0) return damaged(r, "a tensor that it names is not there");
    ssize_t length = H5Iget_name(set, t->place, sizeof t->place);
    ls_status status =
        length > 0 && length < (ssize_t)sizeof t->place ? check_dataset(r, set, t) : damaged(r, "a name is too long");
    H5Dclose(set);
    if (status == LS_OK) r->count++;
    return status;
}

// --- Keras 2 ---------------------------------------------------------------------------------------------------------

// An attribute that is a list of texts, or one; the caller frees *texts, each `width` bytes with a 0 at its end.
static ls_status texts_of_attribute(const reader *r, hid_t of, const char *name, char **texts, int *count,
                                    size_t *width) {
    hid_t attribute = H5Aopen(of, name, H5P_DEFAULT), type = -1, space = -1, as = -1;
    ls_status status = damaged(r, "the names in it are no text");
    char **pointers = NULL;
    *texts = NULL;
    *count = 0;
    *width = NAME;
    if (attribute < 0) return status;
    type = H5Aget_type(attribute);
    space = H5Aget_space(attribute);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    size_t size = H5Tget_size(type);
    if (n < 0 || n > MOST_TENSORS) goto out;
    if (n > 0 && H5Tget_class(type) != H5T_STRING) goto empty;
    if (n > 0 && H5Tis_variable_str(type) > 0) {
        as = H5Tcopy(H5T_C_S1);
        H5Tset_size(as, H5T_VARIABLE);
        H5Tset_cset(as, H5Tget_cset(type));
        LS_TRY_GOTO(ls_calloc(n, sizeof *pointers, &pointers), out);
        LS_TRY_GOTO(ls_calloc(n, NAME, texts), out);
        if (H5Aread(attribute, as, pointers) < 0) LS_TRY_GOTO(damaged(r, "the names in it cannot be read"), out);
        for (hssize_t i = 0; i < n; i++) snprintf(*texts + i * NAME, NAME, "%s", pointers[i] ? pointers[i] : "");
        H5Dvlen_reclaim(as, space, H5P_DEFAULT, pointers);
    } else if (n > 0) {
        if (size == 0 || size > NAME - 1) LS_TRY_GOTO(damaged(r, "a name in it is too long"), out);
        as = H5Tcopy(H5T_C_S1);
        *width = size + 1;
        H5Tset_size(as, size + 1);
        H5Tset_cset(as, H5Tget_cset(type));
        LS_TRY_GOTO(ls_calloc(n, (int64_t)*width, texts), out);
        if (H5Aread(attribute, as, *texts) < 0) LS_TRY_GOTO(damaged(r, "the names in it cannot be read"), out);
    }
    *count = (int)n;
empty:  // an empty list is one of numbers
    status = LS_OK;
out:
    free(pointers);
    if (as >= 0) H5Tclose(as);
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    H5Aclose(attribute);
    return status;
}

// What Keras calls the weight of a layer: the last part of its name, without ":0"; and of a network inside the network the layer it is of.
static void name_of_weight(const char *layer, const char *weight, char out[NAME]) {
    char text[NAME], *parts[16] = {NULL};
    int count = 0, own = 0;
    snprintf(text, sizeof text, "%s", weight);
    char *colon = strrchr(text, ':');
    if (colon && strspn(colon + 1, "0123456789") == strlen(colon + 1)) *colon = 0;
    for (char *part = strtok(text, "/"); part && count < 16; part = strtok(NULL, "/")) {
        own |= strcmp(part, layer) == 0;
        parts[count++] = part;
    }
    const char *last = count ? parts[count - 1] : "", *of = own || count < 2 ? layer : parts[count - 2];
    snprintf(out, NAME, "%.120s/%.120s", of, last);
}

// Before Keras 3 the kernel of a depthwise convolution had a name of its own, which a separable one's still has.
static void rename_depthwise(char *name, const char *weights, int count, size_t width) {
    char *last = strrchr(name, '/') + 1;
    if (strcmp(last, "depthwise_kernel") != 0) return;
    for (int i = 0; i < count; i++)
        if (strstr(weights + (size_t)i * width, "pointwise_kernel")) return;
    memcpy(last, "kernel", sizeof "kernel");
}

static ls_status list_names(reader *r, hid_t layer, const char *name, const char *attribute) {
    char *weights, full[NAME];
    int count;
    size_t width;
    ls_status status = texts_of_attribute(r, layer, attribute, &weights, &count, &width);
    for (int i = 0; i < count && status == LS_OK; i++) {
        const char *weight = weights + (size_t)i * width;
        name_of_weight(name, weight, full);
        rename_depthwise(full, weights, count, width);
        char of[NAME];
        snprintf(of, sizeof of, "%.*s", (int)strcspn(full, "/"), full);
        status = add(r, layer, weight, full, of);
    }
    free(weights);
    return status;
}

// Hands over the attribute of that name, or the several that a long one is cut into: layer_names0, layer_names1, ...
typedef ls_status (*with_attribute)(reader *r, hid_t of, const char *name, const char *attribute);

static ls_status for_attributes(reader *r, hid_t of, const char *name, const char *attribute, with_attribute do_with) {
    char numbered[64];
    if (H5Aexists(of, attribute) > 0) return do_with(r, of, name, attribute);
    for (int i = 0; i < MOST_TENSORS; i++) {
        snprintf(numbered, sizeof numbered, "%s%d", attribute, i);
        if (H5Aexists(of, numbered) <= 0) return LS_OK;
        LS_TRY(do_with(r, of, name, numbered));
    }
    return LS_OK;
}

static ls_status list_layers(reader *r, hid_t root, const char *unused, const char *attribute) {
    char *layers;
    int count;
    size_t width;
    ls_status status = texts_of_attribute(r, root, attribute, &layers, &count, &width);
    for (int i = 0; i < count && status == LS_OK; i++) {
        const char *name = layers + (size_t)i * width;
        hid_t layer = H5Gopen2(root, name, H5P_DEFAULT);
        if (layer < 0) {
            status = damaged(r, "a layer that it names is not there");
            break;
        }
        status = for_attributes(r, layer, name, "weight_names", list_names);
        H5Gclose(layer);
    }
    free(layers);
    return status;
}

static int is_keras_2(hid_t root) { return H5Aexists(root, "layer_names") > 0 || H5Aexists(root, "layer_names0") > 0; }

// --- Keras 3 ---------------------------------------------------------------------------------------------------------

// The name that a group of weights has, where it has one.
static ls_status name_of_vars(const reader *r, hid_t vars, char *layer, size_t size) {
    char *names = NULL;
    int count = 0;
    size_t width;
    if (H5Aexists(vars, "name") <= 0) return LS_OK;
    LS_TRY(texts_of_attribute(r, vars, "name", &names, &count, &width));
    if (count == 1) snprintf(layer, size, "%.200s", names);
    free(names);
    return LS_OK;
}

// The weights of a layer, in order, under its path: names are numbered as layers are made, in a whole session of Keras.
// Weights of the cell of a recurrent layer are the layer's, whose own group has its name.
static ls_status list_vars(reader *r, hid_t vars, const char *path) {
    static const char cell[] = "/cell";
    char layer[NAME] = "", outer[NAME], place[16], full[NAME];
    size_t length = strlen(path), tail = strlen(cell);
    int inner = length > tail && strcmp(path + length - tail, cell) == 0;
    if (inner) length -= tail;
    if (inner) {
        snprintf(outer, sizeof outer, "%.*s/vars", (int)length, path);
        hid_t group = H5Lexists(r->file, outer, H5P_DEFAULT) > 0 ? H5Gopen2(r->file, outer, H5P_DEFAULT) : -1;
        ls_status status = group < 0 ? LS_OK : name_of_vars(r, group, layer, sizeof layer);
        if (group >= 0) H5Gclose(group);
        LS_TRY(status);
    } else {
        LS_TRY(name_of_vars(r, vars, layer, sizeof layer));
    }
    for (int i = 0; i < MOST_TENSORS; i++) {
        snprintf(place, sizeof place, "%d", i);
        if (H5Lexists(vars, place, H5P_DEFAULT) <= 0) return LS_OK;
        if (snprintf(full, sizeof full, "%.*s/%d", (int)length, path, i) >= NAME)
            return damaged(r, "a name in it is too long");
        LS_TRY(add(r, vars, place, full, layer));
    }
    return LS_OK;
}

static ls_status walk(reader *r, hid_t group, const char *path, int depth);

// What is not the network's: the optimizer's state, metrics, generators of random numbers.
static int is_foreign(const char *name) {
    static const char *const others[] = {"optimizer",      "optimizer_weights", "metrics",     "_metrics",
                                         "seed_generator", "_loss_tracker",     "loss_tracker"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strcmp(name, others[i]) == 0) return 1;
    return 0;
}

static ls_status walk_child(reader *r, hid_t group, hsize_t i, const char *path, int depth) {
    char name[NAME], child[NAME];
    H5L_info_t link;
    ssize_t length = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, name, sizeof name, H5P_DEFAULT);
    if (length <= 0 || length >= NAME) return damaged(r, "a name in it is too long, or cannot be read");
    if (H5Lget_info(group, name, &link, H5P_DEFAULT) < 0 || link.type != H5L_TYPE_HARD)
        return damaged(r, "it has links to other places");
    if (is_foreign(name)) return LS_OK;
    H5O_info_t what;
    if (H5Oget_info_by_name(group, name, &what, H5P_DEFAULT) < 0) return damaged(r, "a part of it cannot be read");
    if (what.type != H5O_TYPE_GROUP) return LS_OK;
    hid_t next = H5Gopen2(group, name, H5P_DEFAULT);
    if (next < 0) return damaged(r, "a part of it cannot be read");
    int written = snprintf(child, sizeof child, "%s%s%s", path, *path ? "/" : "", name);
    ls_status status = written >= NAME             ? damaged(r, "a name in it is too long")
                       : strcmp(name, "vars") == 0 ? list_vars(r, next, path)
                                                   : walk(r, next, child, depth + 1);
    H5Gclose(next);
    return status;
}

static ls_status walk(reader *r, hid_t group, const char *path, int depth) {
    H5G_info_t info;
    if (depth > DEEPEST) return damaged(r, "its groups lie too deep in one another");
    if (H5Gget_info(group, &info) < 0) return damaged(r, "a part of it cannot be read");
    if (info.nlinks > MOST_TENSORS) return damaged(r, "it has more parts than any network");
    for (hsize_t i = 0; i < info.nlinks; i++) LS_TRY(walk_child(r, group, i, path, depth));
    return LS_OK;
}

static ls_status list_tensors(reader *r) {
    hid_t root = H5Gopen2(r->file, "/", H5P_DEFAULT), model;
    if (root < 0) return damaged(r, "it has no beginning");
    ls_status status;
    if (H5Lexists(root, "model_weights", H5P_DEFAULT) > 0 &&
        (model = H5Gopen2(root, "model_weights", H5P_DEFAULT)) >= 0) {
        status = for_attributes(r, model, NULL, "layer_names", list_layers);
        H5Gclose(model);
    } else if (is_keras_2(root)) {
        status = for_attributes(r, root, NULL, "layer_names", list_layers);
    } else {
        status = walk(r, root, "", 0);
    }
    H5Gclose(root);
    if (status == LS_OK && r->count == 0) status = damaged(r, "there are no weights in it, as Keras keeps them");
    return status;
}

// --- into a safetensors file -----------------------------------------------------------------------------------------

static ls_status copy_values(reader *r, FILE *out) {
    for (int i = 0; i < r->count; i++) {
        const found *t = &r->tensors[i];
        float *values = malloc((size_t)t->count * sizeof *values + 1);
        if (!values) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the weights '%s'", t->name);
        hid_t set = H5Dopen2(r->file, t->place, H5P_DEFAULT);
        int fine = set >= 0 && H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
        size_t written = fine ? fwrite(values, sizeof *values, (size_t)t->count, out) : 0;
        if (set >= 0) H5Dclose(set);
        free(values);
        if (!fine) return damaged(r, "the values of a tensor cannot be read");
        if (written != (size_t)t->count) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the weights");
    }
    return LS_OK;
}

static ls_status convert_open(reader *r, int to) {
    ls_stored_tensor *stored = NULL;
    FILE *out = fdopen(to, "wb");
    if (!out) return LS_FAIL(LS_STATUS_IO, "cannot write weights to memory: %s", strerror(errno));
    ls_status status = list_tensors(r);
    if (status == LS_OK) status = ls_calloc(r->count, sizeof *stored, &stored);
    for (int i = 0; i < r->count && status == LS_OK; i++) {
        stored[i] = (ls_stored_tensor){.name = r->tensors[i].name,
                                       .layer = *r->tensors[i].layer ? r->tensors[i].layer : NULL,
                                       .ndim = r->tensors[i].ndim};
        memcpy(stored[i].dim, r->tensors[i].dim, sizeof stored[i].dim);
    }
    if (status == LS_OK) status = ls_weights_header_write(out, r->path, NULL, stored, r->count);
    if (status == LS_OK) status = copy_values(r, out);
    if (fclose(out) != 0 && status == LS_OK) status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for the weights");
    return status;
}

// Where the weights lie in Keras's archive.
static ls_status find_in_archive(const char *path, int fd, int64_t total, int64_t *at, int64_t *bytes) {
    ls__zip_member *members = NULL;
    uint8_t *end = NULL, local[30];
    int count = 0, size = (int)(total < ARCHIVE_END ? total : ARCHIVE_END), found_at = -1;
    ls_status status = ls_calloc(1024, sizeof *members, &members);
    if (status == LS_OK) status = ls_calloc(size, 1, &end);
    if (status == LS_OK && pread(fd, end, (size_t)size, total - size) != size)
        status = LS_FAIL(LS_STATUS_IO, "cannot read %s", path);
    if (status == LS_OK) status = ls__zip_directory(path, end, size, total, members, 1024, &count);
    for (int i = 0; i < count && i < 1024; i++)
        if (strcmp(members[i].name, "model.weights.h5") == 0) found_at = i;
    if (status == LS_OK && (found_at < 0 || members[found_at].deflated))
        status = LS_FAIL(
            LS_STATUS_UNSUPPORTED,
            "%s is a zip archive, but not one of Keras's (.keras): there is no model.weights.h5 in it, or it is packed",
            path);
    if (status == LS_OK) {
        const ls__zip_member *m = &members[found_at];
        int there = pread(fd, local, sizeof local, m->at) == sizeof local;
        *at = m->at + 30 + (there ? local[26] + 256 * local[27] + local[28] + 256 * local[29] : 0);
        *bytes = m->bytes;
        if (!there || m->at < 0 || m->bytes <= 0 || m->bytes > total - *at)
            status = LS_FAIL(LS_STATUS_BAD_DATA, "%s is damaged: the weights in it are longer than it", path);
    }
    free(members);
    free(end);
    return status;
}

static ls_status read_whole(const char *path, int fd, int64_t at, int64_t bytes, void *out) {
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (char *)out + done, (size_t)(bytes - done), at + done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, n ? strerror(errno) : "it became shorter");
        done += n;
    }
    return LS_OK;
}

// The file as HDF5: itself, or the part of an archive, in memory.
static ls_status open_file(reader *r, int fd) {
    unsigned char head[8] = {0};
    int64_t at = 0;
    LS_TRY(read_whole(r->path, fd, 0, r->file_bytes < 8 ? r->file_bytes : 8, head));
    if (memcmp(head, "PK\3\4", 4) == 0) LS_TRY(find_in_archive(r->path, fd, r->file_bytes, &at, &r->file_bytes));
    void *image = malloc((size_t)r->file_bytes + 1);
    if (!image) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for %s", r->path);
    ls_status status = read_whole(r->path, fd, at, r->file_bytes, image);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    if (status == LS_OK &&
        (H5Pset_fapl_core(access, 1 << 20, 0) < 0 || H5Pset_file_image(access, image, (size_t)r->file_bytes) < 0))
        status = LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "out of memory for %s", r->path);
    free(image);
    if (status == LS_OK) {
        r->file = H5Fopen("weights", H5F_ACC_RDONLY, access);
        if (r->file < 0) status = damaged(r, "it is cut off, or not what its first bytes say");
    }
    H5Pclose(access);
    return status;
}

// --- a process of its own --------------------------------------------------------------------------------------------

typedef struct job {
    const char *path;
    int fd, to;
    int64_t bytes;
} job;

static ls_status answer(void *user, void *unused) {
    const job *j = user;
    (void)unused;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5Lunregister(H5L_TYPE_EXTERNAL);  // weights lie in one file, and a link to a pipe would be waited for
    reader r = {.path = j->path, .file_bytes = j->bytes, .file = -1};
    LS_TRY(open_file(&r, j->fd));
    return convert_open(&r, j->to);
}

static ls_status convert(const char *path, int fd, int64_t bytes, int to) {
    job j = {.path = path, .fd = fd, .to = to, .bytes = bytes};
    ls_aside *aside;
    const ls_aside_options options = {.fn = answer,
                                      .user = &j,
                                      .path = path,
                                      .library = "the HDF5 library",
                                      .bytes = 1,
                                      .seconds = LS__HDF5_SECONDS,
                                      .patience = LS__HDF5_PATIENCE,
                                      .memory = LS__HDF5_MEMORY + 3 * bytes,  // what the library does with the file
                                      .keep = {fd, to},
                                      .keep_count = 2};
    pthread_mutex_lock(&ls__hdf5_library);
    ls_status status = ls_aside_create(&options, &aside);
    pthread_mutex_unlock(&ls__hdf5_library);
    LS_TRY(status);
    status = ls_aside_ask(aside);
    ls_aside_destroy(&aside);
    return status;
}

int ls__hdf5_begins(const unsigned char head[8]) {
    return memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0 || memcmp(head, "PK\3\4", 4) == 0;
}

ls_status ls__hdf5_open(const char *path, int fd, ls_weights_file **out) {
    struct stat there;
    if (fstat(fd, &there) != 0) return LS_FAIL(LS_STATUS_IO, "cannot read %s: %s", path, strerror(errno));
    int to = memfd_create("weights", MFD_CLOEXEC);
    if (to < 0) return LS_FAIL(LS_STATUS_OUT_OF_MEMORY, "no memory for the weights of %s: %s", path, strerror(errno));
    ls_status status = convert(path, fd, there.st_size, to);
    if (status == LS_OK) status = ls__weights_file_take(path, to, out);
    if (status != LS_OK) close(to);
    return status;
}
