// A small set in the manner of the NIH's chest X-rays, for tests and recipes: write_xrays FOLDER COUNT [SIDE]. FOLDER/images has COUNT grey PNG files,
// FOLDER/labels.csv a line for each ("Image Index,Finding Labels,Follow-up #"), FOLDER/test.csv the last fifth of them, FOLDER/train.csv the others and FOLDER/names.txt the
// 14 labels. Each label is a spot of its own form at a place of its own, which strays, on a cloudy ground; rare ones are there in one of twenty images, frequent ones in one
// of four. Everything is drawn from the number of the image.
#include <errno.h>
#include <sys/stat.h>

#include "base/philox.h"
#include "image_files.h"

enum { LABELS = 14, MOST_SIDE = 1024 };

static const char *const names[LABELS] = {"Atelectasis", "Cardiomegaly", "Effusion",           "Infiltration",  "Mass",
                                          "Nodule",      "Pneumonia",    "Pneumothorax",       "Consolidation", "Edema",
                                          "Emphysema",   "Fibrosis",     "Pleural_Thickening", "Hernia"};

static uint32_t word(int image, int what, int k) {
    return ls_philox(7, (uint32_t)image, (uint32_t)what, (uint32_t)k, 0).v[0];
}
static double unit(int image, int what, int k) { return word(image, what, k) * 0x1p-32; }

static int is_there(int image, int label) { return unit(image, 1, label) < 0.25 - 0.015 * label; }

// Brightness of a label's form at a distance from its middle, in parts of the side: discs, rings and bars of both directions.
static double form(int label, double y, double x) {
    double r = y * y + x * x, size = 0.004 + 0.001 * (label % 3);
    switch (label % 4) {
    case 0: return r < size ? 1 : 0;
    case 1: return r < 3 * size && r > size ? 0.8 : 0;
    case 2: return y * y < size / 6 && x * x < 5 * size ? 0.9 : 0;
    default: return x * x < size / 6 && y * y < 5 * size ? 0.9 : 0;
    }
}

static uint8_t pixel(int image, int side, int row, int column) {
    double y = (row + 0.5) / side, x = (column + 0.5) / side, light = 60 + 60 * y + 40 * x * (1 - x);
    light += 110 * unit(image, 4, row * side + column);
    for (int l = 0; l < LABELS; l++) {
        if (!is_there(image, l)) continue;
        double top = 0.12 + 0.25 * (l / 4) + 0.08 * (unit(image, 2, l) - 0.5);
        double left = 0.14 + 0.24 * (l % 4) + 0.08 * (unit(image, 3, l) - 0.5);
        light += 30 * form(l, y - top, x - left);
    }
    return (uint8_t)(light > 255 ? 255 : light);
}

static int write_image(const char *folder, int image, int side) {
    static uint8_t pixels[MOST_SIDE * MOST_SIDE];
    char path[4096];
    for (int y = 0; y < side; y++)
        for (int x = 0; x < side; x++) pixels[y * side + x] = pixel(image, side, y, x);
    snprintf(path, sizeof path, "%s/images/%05d.png", folder, image);
    return image_save(image_png(side, side, 8, PNG_COLOR_TYPE_GRAY, 0, pixels, (size_t)side), path);
}

static int write_table(const char *folder, const char *name, int first, int past) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    if (!f) return 0;
    fputs("Image Index,Finding Labels,Follow-up #\n", f);
    for (int i = first; i < past; i++) {
        int count = 0;
        fprintf(f, "images/%05d.png,", i);
        for (int l = 0; l < LABELS; l++)
            if (is_there(i, l)) fprintf(f, "%s%s", count++ ? "|" : "", names[l]);
        fprintf(f, "%s,%d\n", count ? "" : "No Finding", i % 5);
    }
    return fclose(f) == 0;
}

static int write_names(const char *folder) {
    char path[4096];
    snprintf(path, sizeof path, "%s/names.txt", folder);
    FILE *f = fopen(path, "w");
    if (!f) return 0;
    for (int l = 0; l < LABELS; l++) fprintf(f, "%s\n", names[l]);
    return fclose(f) == 0;
}

int main(int argc, char **argv) {
    char path[4096];
    if (argc != 3 && argc != 4) return 2;
    int count = atoi(argv[2]), side = argc == 4 ? atoi(argv[3]) : 32, good = side > 0 && side <= MOST_SIDE;
    snprintf(path, sizeof path, "%s/images", argv[1]);
    if ((mkdir(argv[1], 0777) != 0 && errno != EEXIST) || (mkdir(path, 0777) != 0 && errno != EEXIST)) good = 0;
    for (int i = 0; i < count && good; i++) good = write_image(argv[1], i, side);
    good =
        good && write_table(argv[1], "labels.csv", 0, count) && write_table(argv[1], "train.csv", 0, count - count / 5);
    if (good && write_table(argv[1], "test.csv", count - count / 5, count) && write_names(argv[1])) return 0;
    fprintf(stderr, "write_xrays: cannot write to %s\n", argv[1]);
    return 1;
}
