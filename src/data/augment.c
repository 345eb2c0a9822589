#include "data/augment.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/philox.h"

#define NO_AMOUNT     SIZE_MAX
#define AMOUNT(field) offsetof(ls_augment_amounts, field)

// In the order in which --help shows them.
static const struct {
    unsigned bit;
    const char *name, *help;
    size_t amount;          // where it is; NO_AMOUNT: it has none
    double usual, largest;  // where none is said; the largest that may be
} list[] = {
    {0, "none", "the images as they are", NO_AMOUNT, 0, 0},
    {LS_AUGMENT_FLIP, "flip", "mirror half of them, left to right", NO_AMOUNT, 0, 0},
    {LS_AUGMENT_CROP, "crop",
     "move them by up to an eighth of their side, black coming in: at 32 pixels, pad by 4 and crop", NO_AMOUNT, 0, 0},
    {LS_AUGMENT_RESIZED_CROP, "resized-crop",
     "cut out 8 to 100 % of the area, between 3:4 and 4:3 in shape, and resize that to the whole", NO_AMOUNT, 0, 0},
    {LS_AUGMENT_RANDOM_CROP, "random-crop", "with --resize: cut the image out anywhere, not in the middle", NO_AMOUNT,
     0, 0},
    {LS_AUGMENT_ROTATE, "rotate", "rotate=15: turn them by up to 15 degrees (10) in either direction, black coming in",
     AMOUNT(rotate), 10, 180},
    {LS_AUGMENT_BRIGHTNESS, "brightness", "brightness=0.4: times 0.6 to 1.4 (0.4)", AMOUNT(brightness), 0.4, 10},
    {LS_AUGMENT_CONTRAST, "contrast", "contrast=0.4: as much, around their mean brightness (0.4)", AMOUNT(contrast),
     0.4, 10},
    {LS_AUGMENT_SATURATION, "saturation", "saturation=0.4: as much, of colours (0.4)", AMOUNT(saturation), 0.4, 10},
    {LS_AUGMENT_HUE, "hue", "hue=0.1: colours move by up to a tenth of their circle (0.1)", AMOUNT(hue), 0.1, 0.5},
    {LS_AUGMENT_LIGHTING, "lighting", "lighting=0.1: noise along the colours of ImageNet, as AlexNet has it (0.1)",
     AMOUNT(lighting), 0.1, 10},
    {LS_AUGMENT_CUTOUT, "cutout", "after normalization, set a square of half the side to 0", NO_AMOUNT, 0, 0},
    {LS_AUGMENT_TRANSLATE, "translate",
     "move them by up to a sixteenth of their side, reflected at the edge: at 32 pixels, by 2", NO_AMOUNT, 0, 0},
    {LS_AUGMENT_ALTERNATE_FLIP, "alternate-flip",
     "mirror half of them in the first epoch, the others in the next, and so on in turn", NO_AMOUNT, 0, 0},
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

// `text` begins behind the name, and goes on to a comma or the end.
static ls_status read_amount(int i, const char *text, ls_augment_amounts *amounts) {
    int length = (int)strcspn(text, ",");
    double value = list[i].usual;
    if (list[i].amount == NO_AMOUNT && length == 0) return LS_OK;
    if (list[i].amount == NO_AMOUNT)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the augmentation %s takes no amount: leave '%.*s' out",
                       list[i].name, length < 64 ? length : 64, text);
    if (length > 0) {
        char *end;
        value = strtod(text + 1, &end);
        if (length == 1 || end != text + length || !(value > 0 && value <= list[i].largest))
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "the augmentation %s takes an amount above 0 and up to %g, not '%.*s'", list[i].name,
                           list[i].largest, length < 64 ? length - 1 : 63, text + 1);
    }
    memcpy((char *)amounts + list[i].amount, &value, sizeof value);
    return LS_OK;
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
        {LS_AUGMENT_CROP | LS_AUGMENT_RANDOM_CROP, "crop and random-crop", "choose what of an image is seen"},
        {LS_AUGMENT_RESIZED_CROP | LS_AUGMENT_RANDOM_CROP, "resized-crop and random-crop",
         "choose what of an image is seen"},
        {LS_AUGMENT_TRANSLATE | LS_AUGMENT_RANDOM_CROP, "translate and random-crop", "choose what of an image is seen"},
        {LS_AUGMENT_CROP | LS_AUGMENT_TRANSLATE, "crop and translate", "move images"},
        {LS_AUGMENT_FLIP | LS_AUGMENT_ALTERNATE_FLIP, "flip and alternate-flip", "choose which images are mirrored"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if ((augment & pairs[i].both) == pairs[i].both)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the augmentations %s both %s: name one of them", pairs[i].names,
                           pairs[i].what);
    return LS_OK;
}

ls_status ls_augment_parse(const char *text, unsigned *out, ls_augment_amounts *amounts) {
    *out = 0;
    *amounts = (ls_augment_amounts){0};
    if (strcmp(text, "none") == 0) return LS_OK;
    for (const char *word = text;; word++) {
        int length = (int)strcspn(word, ",="), i = 0;
        while (i < COUNT && !((int)strlen(list[i].name) == length && memcmp(list[i].name, word, (size_t)length) == 0))
            i++;
        if (i == COUNT) return unknown(word, (int)strcspn(word, ","));
        if (list[i].bit == 0)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                           "the augmentations '%.200s' name none beside others: leave it out", text);
        if (*out & list[i].bit)
            return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "the augmentation %s is named twice; once is enough",
                           list[i].name);
        *out |= list[i].bit;
        LS_TRY(read_amount(i, word + length, amounts));
        word += strcspn(word, ",");
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
    int64_t channels = image.dim[2];
    if (augment & LS_AUGMENT_LIGHTING && channels != 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "the augmentation lighting is of red, green and blue, and these images have %lld channel%s: "
                       "leave it out",
                       (long long)channels, channels == 1 ? "" : "s");
    if (augment & LS_AUGMENT_COLOURS && channels != 1 && channels != 3)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT,
                       "augmentations of colours are of images in grey or colour, and these have %lld channels: leave "
                       "them out",
                       (long long)channels);
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

// Which half is mirrored first is drawn once, for the first epoch; from there the halves take turns. Its bit is beyond what a stream
// has room for, so it draws where no single bit is.
static int draw_turn(const drawer *d) {
    enum { OF_TURNS = 3 };
    drawer first = {d->seed, d->sample, 1};
    return (int)((words(&first, OF_TURNS, 0).v[0] >> 31 ^ (d->epoch + 1)) & 1);
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

void ls_augment_window(unsigned augment, uint64_t seed, uint32_t epoch, uint64_t sample, ls_shape full, ls_shape image,
                       int64_t *y, int64_t *x) {
    drawer d = {seed, sample, epoch};
    int64_t down = full.dim[0] - image.dim[0], right = full.dim[1] - image.dim[1];
    if (augment & LS_AUGMENT_RANDOM_CROP) {
        ls_philox4 r = words(&d, LS_AUGMENT_RANDOM_CROP, 0);
        *y = below(r.v[0], down + 1);
        *x = below(r.v[1], right + 1);
        return;
    }
    // Half of it, and where that is between two whole numbers the even one: Python's round().
    *y = down / 2 + (down % 4 == 3);
    *x = right / 2 + (right % 4 == 3);
}

// ---- colours and angles ---------------------------------------------------------------------------------------------
//
// Again without what the C library rounds in its own way.

#define PI  3.14159265358979323846
#define LN2 0.69314718055994530942

// For |x| up to pi, to 1e-14.
static void sine_and_cosine(double x, double *sine, double *cosine) {
    double s = 1, c = 1, square = x * x;
    for (int n = 16; n >= 1; n--) {
        c = 1 - square / ((2 * n - 1) * (2 * n)) * c;
        s = 1 - square / ((2 * n) * (2 * n + 1)) * s;
    }
    *sine = x * s;
    *cosine = c;
}

// The natural logarithm of 0 < x <= 1: x = 2^e m, and ln m = 2 atanh((m - 1) / (m + 1)).
static double logarithm(double x) {
    int exponent;
    double m = frexp(x, &exponent), t = (m - 1) / (m + 1), square = t * t, sum = 0;
    for (int n = 31; n >= 1; n -= 2) sum = sum * square + 1.0 / n;
    return exponent * LN2 + 2 * t * sum;
}

// Two standard normal numbers, by Marsaglia's polar method.
static void normal_pair(const drawer *d, unsigned augment, uint32_t first, double out[2]) {
    for (uint32_t attempt = 0;; attempt++) {
        ls_philox4 r = words(d, augment, first + attempt);
        double u = 2 * (r.v[0] + 0.5) * 0x1p-32 - 1, v = 2 * (r.v[1] + 0.5) * 0x1p-32 - 1, s = u * u + v * v;
        if (s >= 1 || s == 0) continue;
        double radius = sqrt(-2 * logarithm(s) / s);
        out[0] = u * radius;
        out[1] = v * radius;
        return;
    }
}

// Eigenvectors and eigenvalues of the colours of ImageNet's pixels, 0 to 255, as MXNet's LightingAug has them.
static void draw_lighting(const drawer *d, double amount, float out[3]) {
    static const double value[3] = {55.46, 4.794, 1.148};
    static const double vector[3][3] = {
        {-0.5675, 0.7192, 0.4009}, {-0.5808, -0.0045, -0.8140}, {-0.5836, -0.6948, 0.4203}};
    double drawn[4];
    normal_pair(d, LS_AUGMENT_LIGHTING, 0, drawn);
    normal_pair(d, LS_AUGMENT_LIGHTING, 1u << 16, drawn + 2);
    for (int c = 0; c < 3; c++) {
        double sum = 0;
        for (int i = 0; i < 3; i++) sum += vector[c][i] * amount * drawn[i] * value[i];
        out[c] = (float)sum;
    }
}

static float draw_factor(const drawer *d, unsigned augment, double amount) {
    double least = amount < 1 ? 1 - amount : 0;
    return (float)(least + (1 + amount - least) * (double)ls_uniform(words(d, augment, 0).v[0]));
}

static void draw_order(const drawer *d, int order[4]) {
    ls_philox4 r = words(d, LS_AUGMENT_COLOURS, 0);
    for (int i = 0; i < 4; i++) order[i] = i;
    for (int i = 3; i > 0; i--) {
        int64_t k = below(r.v[i], i + 1);
        int kept = order[i];
        order[i] = order[k];
        order[k] = kept;
    }
}

ls_augment_look ls_augment_sample_look(unsigned augment, const ls_augment_amounts *a, uint64_t seed, uint32_t epoch,
                                       uint64_t sample) {
    drawer d = {seed, sample, epoch};
    ls_augment_look out = {.augment = augment & LS_AUGMENT_STAGED, .cosine = 1};
    draw_order(&d, out.order);
    if (augment & LS_AUGMENT_BRIGHTNESS) out.brightness = draw_factor(&d, LS_AUGMENT_BRIGHTNESS, a->brightness);
    if (augment & LS_AUGMENT_CONTRAST) out.contrast = draw_factor(&d, LS_AUGMENT_CONTRAST, a->contrast);
    if (augment & LS_AUGMENT_SATURATION) out.saturation = draw_factor(&d, LS_AUGMENT_SATURATION, a->saturation);
    if (augment & LS_AUGMENT_HUE)
        out.hue = (float)(a->hue * (2 * (double)ls_uniform(words(&d, LS_AUGMENT_HUE, 0).v[0]) - 1));
    if (augment & LS_AUGMENT_LIGHTING) draw_lighting(&d, a->lighting, out.lighting);
    if (augment & LS_AUGMENT_ROTATE) {
        double turn = 2 * (double)ls_uniform(words(&d, LS_AUGMENT_ROTATE, 0).v[0]) - 1, sine, cosine;
        sine_and_cosine(turn * a->rotate * (PI / 180), &sine, &cosine);
        out.sine = (float)sine;
        out.cosine = (float)cosine;
    }
    return out;
}
