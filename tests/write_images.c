// The first test samples of a dataset as PNG files, for tests of what reads files: write_images SPEC FOLDER COUNT. A file's name has its
// number and its class: 00012-class7.png.
#include "data/dataset.h"
#include "data_set.h"
#include "image_files.h"

static int write_one(const char *folder, int64_t i, ls_shape shape, const uint8_t *pixels, int label) {
    char path[4096];
    int width = (int)shape.dim[1], height = (int)shape.dim[0], channels = (int)shape.dim[2];
    image_file f = image_png(width, height, 8, channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, 0, pixels,
                             (size_t)(width * channels));
    snprintf(path, sizeof path, "%s/%05d-class%d.png", folder, (int)i, label);
    FILE *out = fopen(path, "wb");
    int written = out && fwrite(f.bytes, 1, f.size, out) == f.size;
    if (out) written &= fclose(out) == 0;
    free(f.bytes);
    return written;
}

int main(int argc, char **argv) {
    ls_data_host *host;
    ls_dataset *d;
    if (argc != 4) return 2;
    if (ls_data_host_create_self(&host) != LS_OK || ls_data_open(host, argv[1], &d) != LS_OK) {
        fprintf(stderr, "write_images: %s\n", ls_error_message());
        return 1;
    }
    int64_t count = atoll(argv[3]), bytes = d->test->sample_bytes[0];
    int written = 1;
    for (int64_t i = 0; i < count && written; i++)
        written = write_one(argv[2], i, d->test->field[0].shape, set_of(d->test).images + i * bytes,
                            set_of(d->test).labels[i]);
    ls_data_close(&d);
    ls_data_host_destroy_self(&host);
    return !written;
}
