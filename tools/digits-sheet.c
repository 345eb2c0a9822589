// Writes a contact sheet of the embedded dataset "digits", or "letters", to standard output, as a PGM picture, dark ink on white:
// digits-sheet [FIRST [COLUMNS [ROWS [ZOOM [DATASET]]]]] > sheet.pgm
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"

enum { SIDE = 28, CELL = SIDE + 2 };

// The value of the sheet at (x, y): frames between the samples are light grey.
static int pixel_at(const ls_source *set, int64_t first, int columns, int x, int y) {
    int64_t sample = first + (int64_t)(y / CELL) * columns + x / CELL;
    int inside_x = x % CELL - 1, inside_y = y % CELL - 1;
    if (inside_x < 0 || inside_x >= SIDE || inside_y < 0 || inside_y >= SIDE || sample >= set->count) return 200;
    const uint8_t *images = ls_source_array(set, 0);
    return 255 - images[(sample * SIDE + inside_y) * SIDE + inside_x];
}

int main(int argc, char **argv) {
    int first = argc > 1 ? atoi(argv[1]) : 0, columns = argc > 2 ? atoi(argv[2]) : 20;
    int rows = argc > 3 ? atoi(argv[3]) : 10, zoom = argc > 4 ? atoi(argv[4]) : 2;
    const char *name = argc > 5 ? argv[5] : "digits";
    if ((strcmp(name, "digits") != 0 && strcmp(name, "letters") != 0) || first < 0 || columns < 1 || columns > 1000 ||
        rows < 1 || rows > 1000 || zoom < 1 || zoom > 16) {
        fprintf(stderr, "usage: digits-sheet [FIRST [COLUMNS [ROWS [ZOOM [DATASET]]]]] > sheet.pgm\n");
        return 2;
    }
    ls_data_host *host = NULL;
    ls_dataset *digits = NULL;
    ls_status status = ls_data_host_create_self(&host);
    if (status == LS_OK) status = ls_data_open(host, name, &digits);
    if (status == LS_OK) {
        printf("P5\n%d %d\n255\n", columns * CELL * zoom, rows * CELL * zoom);
        for (int y = 0; y < rows * CELL * zoom; y++)
            for (int x = 0; x < columns * CELL * zoom; x++)
                putchar(pixel_at(digits->train, first, columns, x / zoom, y / zoom));
    } else {
        fprintf(stderr, "digits-sheet: %s\n", ls_error_message());
    }
    ls_data_close(&digits);
    ls_data_host_destroy_self(&host);
    return status != LS_OK || fflush(stdout) != 0;
}
