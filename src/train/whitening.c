// The initializer patch_whitening: filters that make neighbouring pixels of the training set's images uncorrelated.
//
// Of all patches as large as the kernel in the first images of the training set, as they are after normalization and without augmentation,
// the mean of their outer products has eigenvectors v with values l; filters are v / sqrt(l + 5e-4), from the largest value to the smallest,
// and then the negatives of these: twice as many as a patch has values. Images are taken until there are 5000, or some 10^9
// multiplications. Samples, their order and that of the sums are fixed, so every worker finds the same bits.
// Sources: Page, "How to train your ResNet 8: back to the latent space", 2019; Jordan, "94% on CIFAR-10 in 3.29 seconds on a single GPU",
// 2024, section 3.2, whose numbers these are.
#include <math.h>
#include <stdlib.h>

#include "base/eigen.h"
#include "base/error.h"
#include "base/memory.h"
#include "train/trainer_impl.h"

#define IMAGES     5000
#define WORK       1e9
#define REGULARIZE 5e-4

// The layer that has the parameter.
static const ls_node *layer_of(const ls_graph *graph, int param) {
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].param_count; k++)
            if (graph->nodes[i].params[k] == param) return &graph->nodes[i];
    return NULL;
}

static ls_status check(const ls_trainer *t, int param, const ls_node *layer) {
    ls_shape shape = t->graph->store->params[param].shape;
    const char *name = t->graph->store->params[param].name;
    if (t->inputs.image < 0 || !t->inputs.feed[t->inputs.image].image || layer->input_count < 1 ||
        layer->inputs[0] != t->graph->inputs[t->inputs.image])
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: the initializer patch_whitening is for a layer that reads the dataset's images, pixels of "
                       "u8, themselves: choose another one here",
                       name);
    if (shape.ndim != 4 || shape.dim[2] != t->images.shape.dim[2] ||
        shape.dim[3] != 2 * shape.dim[0] * shape.dim[1] * shape.dim[2])
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "%s: the initializer patch_whitening makes twice as many filters as a patch of the images has "
                       "values: give the layer %lld filters, or another initializer",
                       name, (long long)(2 * shape.dim[0] * shape.dim[1] * t->images.shape.dim[2]));
    return LS_OK;
}

// Adds the outer product of a patch with itself, its upper triangle.
static void add_patch(const float *patch, int n, double *sum) {
    for (int i = 0; i < n; i++)
        for (int k = i; k < n; k++) sum[i * n + k] += (double)patch[i] * (double)patch[k];
}

// All patches of an image (H, W, C).
static void add_patches(const float *image, ls_shape image_shape, ls_shape kernel, float *patch, double *sum) {
    int64_t width = image_shape.dim[1], row = kernel.dim[1] * kernel.dim[2];
    int n = (int)(kernel.dim[0] * row);
    for (int64_t y = 0; y + kernel.dim[0] <= image_shape.dim[0]; y++)
        for (int64_t x = 0; x + kernel.dim[1] <= width; x++) {
            for (int64_t i = 0; i < n; i++) patch[i] = image[((y + i / row) * width + x) * kernel.dim[2] + i % row];
            add_patch(patch, n, sum);
        }
}

typedef struct room {
    float *image, *patch;
    double *sum, *values, *vectors;  // (n, n), (n), (n, n)
    void *scratch;
    ls_feeder *feeder;
} room;

static void free_room(room *r) {
    free(r->image);
    free(r->patch);
    free(r->sum);
    free(r->values);
    free(r->vectors);
    ls_memory_free(r->scratch);
    ls_feeder_destroy(&r->feeder);
}

static ls_status make_room(const ls_trainer *t, int64_t n, room *r) {
    ls_feed feed = t->inputs.feed[t->inputs.image];
    feed.dtype = LS_DTYPE_F32;
    feed.recipe = t->images.recipe;
    feed.recipe.augment = 0;
    feed.recipe.noise = 0;
    LS_TRY(ls_calloc(ls_shape_count(t->images.shape), sizeof *r->image, &r->image));
    LS_TRY(ls_calloc(n, sizeof *r->patch, &r->patch));
    LS_TRY(ls_calloc(n * n, sizeof *r->sum, &r->sum));
    LS_TRY(ls_calloc(n, sizeof *r->values, &r->values));
    LS_TRY(ls_calloc(n * n, sizeof *r->vectors, &r->vectors));
    int64_t scratch = t->train_split.source->scratch_bytes;
    if (scratch > 0) LS_TRY(ls_memory_alloc(scratch, &r->scratch));
    return ls_feeder_create(&feed, 1, t->train_split.source, &r->feeder);
}

static ls_status measure(const ls_trainer *t, ls_shape kernel, room *r) {
    ls_shape image = t->images.shape;
    int64_t n = kernel.dim[0] * kernel.dim[1] * kernel.dim[2], count = t->train_split.count;
    int64_t patches = (image.dim[0] - kernel.dim[0] + 1) * (image.dim[1] - kernel.dim[1] + 1);
    double most = WORK / ((double)patches * (double)(n * n)) + 1;
    void *to[1] = {r->image};
    if (count > IMAGES) count = IMAGES;
    if ((double)count > most) count = (int64_t)most;
    int64_t used = 0;
    for (int64_t sample = 0; sample < count; sample++) {
        ls_status status = ls_feeder_run(r->feeder, r->scratch, 0, sample, to, 0);
        int broken = status == LS_STATUS_BAD_DATA || status == LS_STATUS_UNSUPPORTED;
        if (broken && t->choices.replace_broken) continue;
        LS_TRY(status);
        add_patches(r->image, image, kernel, r->patch, r->sum);
        used++;
    }
    if (used == 0 || patches < 1)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "filters that make pixels uncorrelated are measured from images as large as they are or larger, "
                       "and there is none: choose another initializer or larger images");
    double share = 1 / ((double)patches * (double)used);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = i; k < n; k++) r->sum[k * n + i] = r->sum[i * n + k] *= share;
    ls_eigen_symmetric((int)n, r->sum, r->values, r->vectors);
    return LS_OK;
}

ls_status ls__whitening_draw(const ls_trainer *t, int param, float *out) {
    ls_shape kernel = t->graph->store->params[param].shape;
    const ls_node *layer = layer_of(t->graph, param);
    room r = {0};
    ls_status status;
    if (!layer) return LS_OK;  // of another graph, which shares the store
    LS_TRY(check(t, param, layer));
    int64_t n = kernel.dim[0] * kernel.dim[1] * kernel.dim[2], filters = 2 * n;
    LS_TRY_GOTO(make_room(t, n, &r), done);
    LS_TRY_GOTO(measure(t, kernel, &r), done);
    for (int64_t f = 0; f < n; f++) {
        double value = r.values[f] > 0 ? r.values[f] : 0, scale = 1 / sqrt(value + REGULARIZE);
        for (int64_t i = 0; i < n; i++) {
            float x = (float)(r.vectors[f * n + i] * scale);
            out[i * filters + f] = x;
            out[i * filters + n + f] = -x;
        }
    }
done:
    free_room(&r);
    return status;
}
