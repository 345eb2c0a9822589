// HDF5 files as Keras's users have them (x_train, y_train, x_test and y_test in one; images pixel by pixel) and as Caffe reads them (data and label; images plane by
// plane, classes floating), by the library. Each data set is in one piece, so that it is read without the library.
#include <errno.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/hdf5_library.h"
#include "data/write_arrays.h"

// In the order of the sets.
static const char *const image_names[2] = {"x_train", "x_test"}, *const label_names[2] = {"y_train", "y_test"};

typedef struct database {
    char path[4096];
    ls_output output;
    ls_array_shape shape;
    int caffe, set;
    int64_t count[2], written;  // of the sets; of the one that is written
    hid_t file, images;
    int64_t *classes;       // (count[set])
    unsigned char *planes;  // an image; Caffe's
} database;

static ls_status failed(const database *d) {
    char why[128];
    ls__hdf5_why(why, sizeof why);
    return LS_FAIL(LS_STATUS_IO,
                   "cannot write %s: HDF5 says \"%s\"; name a place that can be written to, with room for it", d->path,
                   why);
}

// A data set in one piece, whose room is taken at once.
static hid_t create(const database *d, const char *name, hid_t type, int ndim, const hsize_t *dim) {
    hid_t space = H5Screate_simple(ndim, dim, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_layout(how, H5D_CONTIGUOUS);
    H5Pset_alloc_time(how, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(how, H5D_FILL_TIME_NEVER);
    hid_t set = H5Dcreate2(d->file, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    H5Pclose(how);
    H5Sclose(space);
    return set;
}

static ls_status begin_set(database *d, int set) {
    const ls_array_shape *s = &d->shape;
    hsize_t n = (hsize_t)d->count[set], h = (hsize_t)s->height, w = (hsize_t)s->width, c = (hsize_t)s->channels;
    hsize_t pixels[4] = {n, h, w, c}, planes[4] = {n, c, h, w};
    free(d->classes);
    free(d->planes);
    d->planes = NULL;
    LS_TRY(ls_calloc(d->count[set], sizeof *d->classes, &d->classes));
    LS_TRY(ls_calloc(s->height * s->width * s->channels, 1, &d->planes));
    d->set = set;
    d->written = 0;
    d->images = create(d, d->caffe ? "data" : image_names[set], H5T_STD_U8LE, d->caffe || c > 1 ? 4 : 3,
                       d->caffe ? planes : pixels);
    return d->images < 0 ? failed(d) : LS_OK;
}

static ls_status end_set(database *d) {
    hsize_t n = (hsize_t)d->written;
    hid_t labels =
        create(d, d->caffe ? "label" : label_names[d->set], d->caffe ? H5T_IEEE_F32LE : H5T_STD_I64LE, 1, &n);
    int wrong = labels < 0 || H5Dwrite(labels, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, d->classes) < 0;
    ls_status status = wrong ? failed(d) : LS_OK;
    if (labels >= 0 && H5Dclose(labels) < 0 && status == LS_OK) status = failed(d);
    if (H5Dclose(d->images) < 0 && status == LS_OK) status = failed(d);
    d->images = -1;
    d->set = -1;
    return status;
}

// Pixels to planes.
static const void *arrange(database *d, const ls_written *s) {
    int64_t pixels = s->height * s->width;
    if (!d->caffe || s->channels == 1) return s->image;
    for (int c = 0; c < s->channels; c++)
        for (int64_t i = 0; i < pixels; i++) d->planes[c * pixels + i] = s->image[i * s->channels + c];
    return d->planes;
}

static ls_status write_image(database *d, const ls_written *s) {
    hsize_t from[4] = {(hsize_t)d->written},
            count[4] = {1, (hsize_t)s->height, (hsize_t)s->width, (hsize_t)s->channels};
    hsize_t planes[4] = {1, (hsize_t)s->channels, (hsize_t)s->height, (hsize_t)s->width}, size = (hsize_t)s->size;
    hid_t there = H5Dget_space(d->images), here = H5Screate_simple(1, &size, NULL);
    int written = H5Sselect_hyperslab(there, H5S_SELECT_SET, from, NULL, d->caffe ? planes : count, NULL) >= 0 &&
                  H5Dwrite(d->images, H5T_NATIVE_UCHAR, here, there, H5P_DEFAULT, arrange(d, s)) >= 0;
    ls_status status = written ? LS_OK : failed(d);
    H5Sclose(here);
    H5Sclose(there);
    return status;
}

static ls_status put(database *d, const ls_written *s) {
    LS_TRY(ls_array_shape_take(&d->shape, s));
    if (d->set >= 0 && d->set != s->test) LS_TRY(end_set(d));
    if (d->set != s->test) LS_TRY(begin_set(d, s->test));
    LS_TRY(write_image(d, s));
    d->classes[d->written++] = s->class;
    return LS_OK;
}

static ls_status hdf5_put(void *file, const ls_written *s) {
    pthread_mutex_lock(&ls__hdf5_library);
    ls_status status = put(file, s);
    pthread_mutex_unlock(&ls__hdf5_library);
    return status;
}

static ls_status hdf5_open(const ls_writing *what, void **out) {
    database *d;
    LS_TRY(ls_calloc(1, sizeof *d, &d));
    snprintf(d->path, sizeof d->path, "%.4000s", what->path);
    d->count[0] = what->count;
    d->count[1] = what->test_count;
    d->caffe = what->caffe;
    d->set = -1;
    d->images = -1;
    ls_status status = ls_array_file_open(d->path, &d->output);
    if (status == LS_OK) {
        pthread_mutex_lock(&ls__hdf5_library);
        H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
        d->file = H5Fcreate(d->output.beside, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
        if (d->file < 0) status = failed(d);
        pthread_mutex_unlock(&ls__hdf5_library);
        if (status != LS_OK) ls_output_close(&d->output, d->path, 0);
    }
    if (status == LS_OK) {
        *out = d;
        return LS_OK;
    }
    free(d);
    return ls__fail_passed(status, __FILE__, __LINE__);
}

static ls_status hdf5_close(void *file, int keep) {
    database *d = file;
    pthread_mutex_lock(&ls__hdf5_library);
    ls_status status = keep && d->set >= 0 ? end_set(d) : LS_OK;
    if (d->images >= 0) H5Dclose(d->images);
    if (H5Fclose(d->file) < 0 && keep && status == LS_OK) status = failed(d);
    pthread_mutex_unlock(&ls__hdf5_library);
    keep = keep && status == LS_OK;
    if (ls_output_close(&d->output, d->path, keep) != 0 && keep) status = ls_array_file_failed(d->path);
    free(d->classes);
    free(d->planes);
    free(d);
    return status;
}

const ls_writer ls__writer_hdf5 = {
    .format = "hdf5", .pixels = 1, .arrays = 1, .layouts = 1, .open = hdf5_open, .put = hdf5_put, .close = hdf5_close};
