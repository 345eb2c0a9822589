// Images in folders, for tests of what reads them: write_folders FOLDER COUNT [SIDE]. FOLDER/train has three classes of COUNT images each, FOLDER/val
// two images of each: photographs' forms (JPEG of red, green and blue, grey, CMYK, progressive, turned; PNG), of many sizes around SIDE.
#include <errno.h>
#include <sys/stat.h>

#include "image_files.h"

static const char *const classes[] = {"birch", "ash", "cedar"};  // not in order

static uint8_t pixel(int class, int number, int y, int x, int c) {
    int stripe = class == 0 ? x : class == 1 ? y : x + y;
    return (uint8_t)((stripe / (2 + number % 3) % 2 ? 170 : 60) + (c * 31 + number * 17 + x * 3) % 40);
}

static image_file draw_one(int class, int number, int side) {
    int width = side + 5 * (number % 7), height = side + 9 * (number % 4), form = number % 6,
        channels = form == 3 ? 4 : 3;
    uint8_t *pixels = malloc((size_t)(width * height * channels));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            for (int c = 0; c < channels; c++)
                pixels[(y * width + x) * channels + c] =
                    form == 3 ? (uint8_t)(255 - pixel(class, number, y, x, c) / (c == 3 ? 200 : 1))
                              : pixel(class, number, y, x, form == 2 ? 0 : c);
    image_file f = form == 0   ? image_png(width, height, 8, PNG_COLOR_TYPE_RGB, 0, pixels, (size_t)(3 * width))
                   : form == 2 ? image_jpeg(width / 3 * 3, height, 1, 0, pixels)
                               : image_jpeg(width, height, channels, form == 4, pixels);
    if (form == 5) image_orient(&f, 1 + number % 8, number % 2);
    free(pixels);
    return f;
}

static int write_set(const char *folder, const char *set, int first, int count, int side) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, set);
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return 0;
    for (int class = 0; class < 3; class ++) {
        snprintf(path, sizeof path, "%s/%s/%s", folder, set, classes[class]);
        if (mkdir(path, 0777) != 0 && errno != EEXIST) return 0;
        for (int i = first; i < first + count + class; i++) {
            snprintf(path, sizeof path, "%s/%s/%s/%03d.%s", folder, set, classes[class], i, i % 6 == 0 ? "PNG" : "jpg");
            if (!image_save(draw_one(class, i, side), path)) return 0;
        }
    }
    return 1;
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 4) return 2;
    int count = atoi(argv[2]), side = argc == 4 ? atoi(argv[3]) : 24;
    if (mkdir(argv[1], 0777) != 0 && errno != EEXIST) return 1;
    if (write_set(argv[1], "train", 0, count, side) && write_set(argv[1], "val", count, 2, side)) return 0;
    fprintf(stderr, "write_folders: cannot write to %s\n", argv[1]);
    return 1;
}
