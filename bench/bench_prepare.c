// How long it takes to prepare an image: nothing, crop and flip, resizing to N x N, everything; in fp32 and bf16.
//
// usage: bench_prepare [SOURCE [N]]   (default: 32 128, three channels)
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "data/augment.h"
#include "data/prepare.h"

enum { IMAGES = 256, ROUNDS = 7 };

static double best_seconds(const ls_recipe *recipe, ls_shape source, ls_dtype dtype, const uint8_t *images, void *out) {
    ls_preparer *p;
    if (ls_preparer_create(recipe, source, dtype, &p) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_message());
        exit(1);
    }
    double best = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double start = ls_clock();
        for (int i = 0; i < IMAGES; i++)
            ls_preparer_run(p, images + i * ls_shape_count(source), (uint32_t)round, (uint64_t)i, out);
        double seconds = (ls_clock() - start) / IMAGES;
        if (seconds < best) best = seconds;
    }
    ls_preparer_destroy(&p);
    return best;
}

int main(int argc, char **argv) {
    int64_t size = argc > 1 ? atoi(argv[1]) : 32, n = argc > 2 ? atoi(argv[2]) : 128;
    ls_shape source = LS_SHAPE(size, size, 3);
    static const float offset[3] = {125, 123, 114}, divisor[3] = {63, 62, 67};
    const ls_recipe recipes[] = {
        {0},
        {.offset = offset, .divisor = divisor},
        {.augment = LS_AUGMENT_CROP | LS_AUGMENT_FLIP, .offset = offset, .divisor = divisor},
        {.height = n, .width = n},
        {.height = n, .width = n, .augment = LS_AUGMENT_CROP | LS_AUGMENT_FLIP, .offset = offset, .divisor = divisor},
        {.height = n, .width = n, .augment = LS_AUGMENT_RESIZED_CROP | LS_AUGMENT_FLIP | LS_AUGMENT_CUTOUT},
    };
    static const char *const names[] = {
        "pixel / 255", "normalized", "crop, flip", "resized", "resized, crop, flip", "resized-crop, flip, cutout",
    };
    uint8_t *images = malloc((size_t)(IMAGES * ls_shape_count(source)));
    void *out = malloc((size_t)(4 * (n > size ? n * n : size * size) * 3));
    if (!images || !out) return 1;
    for (int64_t i = 0; i < IMAGES * ls_shape_count(source); i++) images[i] = (uint8_t)(i * 2654435761u >> 13);
    printf("%-28s %12s %12s   microseconds an image, %lldx%lldx3 to %lldx%lldx3\n", "", "fp32", "bf16", (long long)size,
           (long long)size, (long long)n, (long long)n);
    for (size_t i = 0; i < sizeof recipes / sizeof recipes[0]; i++)
        printf("%-28s %12.2f %12.2f\n", names[i], 1e6 * best_seconds(&recipes[i], source, LS_DTYPE_F32, images, out),
               1e6 * best_seconds(&recipes[i], source, LS_DTYPE_BF16, images, out));
    free(images);
    free(out);
    return 0;
}
