// Writes a contact sheet of the embedded dataset "shapes" to standard output, as a PPM picture, one class in each row:
// shapes-sheet [FIRST [COLUMNS [ZOOM]]] > sheet.ppm
#include <stdio.h>
#include <stdlib.h>

#include "data/dataset.h"

enum { SIDE = 32, CELL = SIDE + 2 };

// The number of the `nth` sample from `first` on with this label.
static int64_t find(const ls_source *set, int64_t first, int label, int nth) {
    const uint8_t *labels = ls_source_array(set, 1);
    int64_t i = first;
    while (i < set->count && (labels[i] != label || nth-- > 0)) i++;
    return i;
}

// One cell after the other into the sheet; frames between the samples are white.
static void paste(const ls_source *set, int64_t sample, uint8_t *sheet, int64_t width, int64_t x0, int64_t y0) {
    const uint8_t *images = ls_source_array(set, 0);
    if (sample >= set->count) return;
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < 3 * SIDE; x++)
            sheet[((y0 + y) * width + x0) * 3 + x] = images[(sample * SIDE + y) * SIDE * 3 + x];
}

int main(int argc, char **argv) {
    int first = argc > 1 ? atoi(argv[1]) : 0, columns = argc > 2 ? atoi(argv[2]) : 20;
    int zoom = argc > 3 ? atoi(argv[3]) : 2;
    if (first < 0 || columns < 1 || columns > 1000 || zoom < 1 || zoom > 16) {
        fprintf(stderr, "usage: shapes-sheet [FIRST [COLUMNS [ZOOM]]] > sheet.ppm\n");
        return 2;
    }
    ls_data_host *host = NULL;
    ls_dataset *shapes = NULL;
    ls_status status = ls_data_host_create_self(&host);
    if (status == LS_OK) status = ls_data_open(host, "shapes", &shapes);
    if (status == LS_OK) {
        int64_t width = (int64_t)columns * CELL, height = (int64_t)ls_dataset_classes(shapes) * CELL;
        uint8_t *sheet = malloc((size_t)(width * height * 3));
        if (!sheet) return 1;
        for (int64_t i = 0; i < width * height * 3; i++) sheet[i] = 255;
        for (int label = 0; label < ls_dataset_classes(shapes); label++)
            for (int i = 0; i < columns; i++)
                paste(shapes->train, find(shapes->train, first, label, i), sheet, width, i * CELL + 1,
                      label * CELL + 1);
        printf("P6\n%lld %lld\n255\n", (long long)width * zoom, (long long)height * zoom);
        for (int64_t y = 0; y < height * zoom; y++)
            for (int64_t x = 0; x < width * zoom; x++) fwrite(sheet + (y / zoom * width + x / zoom) * 3, 1, 3, stdout);
        free(sheet);
    } else {
        fprintf(stderr, "shapes-sheet: %s\n", ls_error_message());
    }
    ls_data_close(&shapes);
    ls_data_host_destroy_self(&host);
    return status != LS_OK || fflush(stdout) != 0;
}
