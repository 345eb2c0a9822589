#include "data/augment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/philox.h"

// In the order in which --help shows them.
static const struct {
    unsigned bit;
    const char *name, *help;
} list[] = {
    {0, "none", "the images as they are"},
    {LS_AUGMENT_FLIP, "flip", "mirror half of them, left to right"},
    {LS_AUGMENT_CROP, "crop",
     "move them by up to an eighth of their side, black coming in: at 32 pixels, pad by 4 and crop"},
    {LS_AUGMENT_RESIZED_CROP, "resized-crop",
     "cut out 8 to 100 % of the area, between 3:4 and 4:3 in shape, and resize that to the whole"},
    {LS_AUGMENT_CUTOUT, "cutout", "after normalization, set a square of half the side to 0"},
    {LS_AUGMENT_TRANSLATE, "translate",
     "move them by up to a sixteenth of their side, reflected at the edge: at 32 pixels, by 2"},
    {LS_AUGMENT_ALTERNATE_FLIP, "alternate-flip",
     "mirror half of them in the first epoch, the others in the next, and so on in turn"},
};

#define COUNT ((int)(sizeof list / sizeof list[0]))

const char *ls_augment_choice(int index, const char **help) {
    if (index >= COUNT) return NULL;
    *help = list[index].help;
    return list[index].name;
}

static ls_status unknown(const char *word, int length) {
    char names[256] = "";
    for (int i = 0; i < COUNT; i++) {
        size_t used = strlen(names);
        const char *before = i == 0 ? "" : i == COUNT - 1 ? " and " : ", ";
        snprintf(names + used, sizeof names - used, "%s%s", before, list[i].name);
    }
    if (length == 0)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the list of augmentations has an empty place; separate names by single commas: there are %s",
                       names);
    return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "unknown augmentation '%.*s': there are %s", length < 64 ? length : 64,
                   word, names);
}

// Two that are not named together, and why.
static ls_status check_pairs(unsigned augment) {
    static const struct {
        unsigned both;
        const char *names, *what;
    } pairs[] = {
        {LS_AUGMENT_CROP | LS_AUGMENT_RESIZED_CROP, "crop and resized-crop", "choose what of an image is seen"},
        {LS_AUGMENT_TRANSLATE | LS_AUGMENT_RESIZED_CROP, "translate and resized-crop",
         "choose what of an image is seen"},
        {LS_AUGMENT_CROP | LS_AUGMENT_TRANSLATE, "crop and translate", "move images"},
        {LS_AUGMENT_FLIP | LS_AUGMENT_ALTERNATE_FLIP, "flip and alternate-flip", "choose which images are mirrored"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if ((augment & pairs[i].both) == pairs[i].both)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the augmentations %s both %s: name one of them", pairs[i].names,
                           pairs[i].what);
    return LS_OK;
}

ls_status ls_augment_parse(const char *text, unsigned *out) {
    *out = 0;
    if (strcmp(text, "none") == 0) return LS_OK;
    for (const char *word = text;; word++) {
        int length = (int)strcspn(word, ","), i = 0;
        while (i < COUNT && !((int)strlen(list[i].name) == length && memcmp(list[i].name, word, (size_t)length) == 0))
            i++;
        if (i == COUNT) return unknown(word, length);
        if (list[i].bit == 0)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "the augmentations '%.200s' name none beside others: leave it out", text);
        if (*out & list[i].bit)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the augmentation %s is named twice; once is enough",
                           list[i].name);
        *out |= list[i].bit;
        word += length;
        if (!*word) break;
    }
    return check_pairs(*out);
}

ls_status ls_augment_check(unsigned augment, ls_shape image) {
    int64_t height = image.dim[0], width = image.dim[1], side = height < width ? height : width;
    if (augment & LS_AUGMENT_CROP && side < 8)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the augmentation crop moves images by an eighth of their side, and these have %lldx%lld pixels: "
            "leave it out, or resize them to at least 8x8",
            (long long)height, (long long)width);
    if (augment & LS_AUGMENT_TRANSLATE && side < 16)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the augmentation translate moves images by a sixteenth of their side, and these have %lldx%lld pixels: "
            "leave it out, or resize them to at least 16x16",
            (long long)height, (long long)width);
    if (augment & LS_AUGMENT_VIEW && side < 2)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "images are looked at moved by a pixel, and these have %lldx%lld: leave that out",
                       (long long)height, (long long)width);
    if (augment & LS_AUGMENT_CUTOUT && side < 4)
        return LS_FAIL(
            LS_STATUS_INVALID_ARGUMENT,
            "the augmentation cutout blanks a square of half the side, and these images have %lldx%lld pixels: "
            "leave it out, or resize them to at least 4x4",
            (long long)height, (long long)width);
    return LS_OK;
}

// ---- drawing -------------------------------------------------------------------------------------------------------

// Whose draws, and of which augmentation: the bit stands where dropout has its layer.
typedef struct drawer {
    uint64_t seed, sample;
    uint32_t epoch;
} drawer;

static ls_philox4 words(const drawer *d, unsigned augment, uint32_t block) {
    return ls_philox(d->seed, block, (uint32_t)d->sample, (uint32_t)(d->sample >> 32),
                     ls_random_stream(LS_RANDOM_AUGMENT, d->epoch, augment));
}

// 0 .. n-1, each with the same chance (up to n / 2^32).
static int64_t below(uint32_t word, int64_t n) { return (int64_t)((uint64_t)word * (uint64_t)n >> 32); }

// The exponential function for |x| < 0.3, to double precision. The library's differs in the last bit between versions and
// processors, and a box must not.
static double small_exp(double x) {
    double sum = 1;
    for (int n = 16; n >= 1; n--) sum = 1 + sum * x / n;
    return sum;
}

#define LOG_4_3 0.28768207245178092744  // ln(4/3)

static ls_rectangle middle(int64_t height, int64_t width, int64_t h, int64_t w) {
    return (ls_rectangle){(height - h) / 2, (width - w) / 2, h, w};
}

// As torchvision does it: ten tries for a box of random area and shape that fits, else the largest in the middle whose shape
// is allowed.
static ls_rectangle draw_box(const drawer *d, int64_t height, int64_t width) {
    for (uint32_t attempt = 0; attempt < 10; attempt++) {
        ls_philox4 r = words(d, LS_AUGMENT_RESIZED_CROP, attempt);
        double area = (double)(height * width) * (0.08 + 0.92 * (double)ls_uniform(r.v[0]));
        double shape = small_exp(LOG_4_3 * (2 * (double)ls_uniform(r.v[1]) - 1));
        int64_t w = (int64_t)(sqrt(area * shape) + 0.5), h = (int64_t)(sqrt(area / shape) + 0.5);
        if (w < 1 || h < 1 || w > width || h > height) continue;
        return (ls_rectangle){below(r.v[2], height - h + 1), below(r.v[3], width - w + 1), h, w};
    }
    if (4 * width < 3 * height) return middle(height, width, (4 * width + 1) / 3, width);
    if (3 * width > 4 * height) return middle(height, width, height, (4 * height + 1) / 3);
    return (ls_rectangle){0, 0, height, width};
}

// Up to `part` of the side.
static void draw_shift(const drawer *d, unsigned augment, int part, int64_t height, int64_t width,
                       ls_augment_draw *out) {
    ls_philox4 r = words(d, augment, 0);
    out->shift_y = below(r.v[0], 2 * (height / part) + 1) - height / part;
    out->shift_x = below(r.v[1], 2 * (width / part) + 1) - width / part;
}

// Which half is mirrored first is drawn once, for the first epoch; from there the halves take turns.
static int draw_turn(const drawer *d) {
    drawer first = {d->seed, d->sample, 1};
    return (int)((words(&first, LS_AUGMENT_ALTERNATE_FLIP, 0).v[0] >> 31 ^ (d->epoch + 1)) & 1);
}

static void take_view(uint32_t view, ls_augment_draw *out) {
    out->shift_y = out->shift_x = view < 2 ? 0 : view < 4 ? -1 : 1;
    out->mirror = (int)(view & 1);
    out->reflect = 1;
}

static int64_t clamp(int64_t x, int64_t most) { return x < 0 ? 0 : x > most ? most : x; }

static ls_rectangle draw_hole(const drawer *d, int64_t height, int64_t width) {
    ls_philox4 r = words(d, LS_AUGMENT_CUTOUT, 0);
    int64_t half = (height < width ? height : width) / 4, y = below(r.v[0], height), x = below(r.v[1], width);
    int64_t top = clamp(y - half, height), left = clamp(x - half, width);
    return (ls_rectangle){top, left, clamp(y + half, height) - top, clamp(x + half, width) - left};
}

ls_augment_draw ls_augment_sample(unsigned augment, uint64_t seed, uint32_t epoch, uint64_t sample, ls_shape source,
                                  ls_shape image) {
    drawer d = {seed, sample, epoch};
    int64_t height = image.dim[0], width = image.dim[1];
    ls_augment_draw out = {.box = {0, 0, source.dim[0], source.dim[1]}};
    if (augment & LS_AUGMENT_RESIZED_CROP) out.box = draw_box(&d, source.dim[0], source.dim[1]);
    if (augment & LS_AUGMENT_CROP) draw_shift(&d, LS_AUGMENT_CROP, 8, height, width, &out);
    if (augment & LS_AUGMENT_TRANSLATE) draw_shift(&d, LS_AUGMENT_TRANSLATE, 16, height, width, &out);
    out.reflect = (augment & LS_AUGMENT_TRANSLATE) != 0;
    if (augment & LS_AUGMENT_FLIP) out.mirror = words(&d, LS_AUGMENT_FLIP, 0).v[0] >> 31;
    if (augment & LS_AUGMENT_ALTERNATE_FLIP) out.mirror = draw_turn(&d);
    if (augment & LS_AUGMENT_VIEW) take_view(epoch, &out);
    if (augment & LS_AUGMENT_CUTOUT) out.hole = draw_hole(&d, height, width);
    return out;
}
