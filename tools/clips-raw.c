// Writes clips of the embedded dataset "moving-digits" to standard output, as floats of this machine's byte order, (count, 8, 32, 32): clips-raw
// train|test COUNT > FILE. For other systems that are to be trained on the same (bench/peers/clips_torch.py).
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/dataset.h"

enum { HALF = 4 * 32 * 32 };

int main(int argc, char **argv) {
    int test = argc > 1 && strcmp(argv[1], "test") == 0, count = argc > 2 ? atoi(argv[2]) : 0;
    if (count < 1 || (!test && strcmp(argv[1], "train") != 0)) {
        fprintf(stderr, "usage: clips-raw train|test COUNT > FILE\n");
        return 2;
    }
    static float clip[2][HALF];
    ls_data_host *host = NULL;
    ls_dataset *data = NULL;
    ls_status status = ls_data_host_create_self(&host);
    if (status == LS_OK) status = ls_data_open(host, "moving-digits", &data);
    for (int i = 0; i < count && status == LS_OK; i++) {
        status = ls_dataset_read(data, test, i, (void *[]){clip[0], clip[1]});
        if (status == LS_OK) fwrite(clip, sizeof clip, 1, stdout);
    }
    if (status != LS_OK) fprintf(stderr, "clips-raw: %s\n", ls_error_message());
    ls_data_close(&data);
    ls_data_host_destroy_self(&host);
    return status != LS_OK || fflush(stdout) != 0;
}
