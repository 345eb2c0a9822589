#include "data/datum.h"

#include <stddef.h>

#include "base/error.h"

enum { CHANNELS = 1, HEIGHT, WIDTH, DATA, LABEL, FLOATS, ENCODED };  // fields

static const char *check(const ls_datum *d, int floats) {
    if (d->data_at < 0) return floats ? "its values are floating numbers, and pixels are read" : "it has no image";
    if (d->data_size > INT32_MAX) return "its image is larger than any";
    if (d->encoded) return NULL;
    if ((d->channels != 1 && d->channels != 3) || d->height < 1 || d->width < 1 || d->height > 65535 ||
        d->width > 65535)
        return "its image is not of 1 or 3 channels and 1 to 65535 rows and columns";
    return d->channels * d->height * d->width == d->data_size ? NULL : "its image has another size than it says";
}

ls_status ls_datum_parse(ls_pb m, ls_datum *out) {
    int64_t *numbers[] = {
        [CHANNELS] = &out->channels, [HEIGHT] = &out->height, [WIDTH] = &out->width, [LABEL] = &out->label};
    int64_t begin = m.at;
    int floats = 0;
    ls_pb_field f;
    *out = (ls_datum){.data_at = -1};
    for (;;) {
        LS_TRY(ls_pb_next(&m, &f));
        if (!f.number) break;
        if (f.type == LS_PB_VARINT && f.number <= LABEL && numbers[f.number]) *numbers[f.number] = (int32_t)f.value;
        if (f.type == LS_PB_VARINT && f.number == ENCODED) out->encoded = f.value != 0;
        if (f.type == LS_PB_BYTES && f.number == DATA)
            out->data_at = f.bytes.at - begin, out->data_size = f.bytes.end - f.bytes.at;
        floats |= f.number == FLOATS;
    }
    const char *wrong = check(out, floats);
    return wrong ? m.from->damaged(m.from->self, begin, wrong) : LS_OK;
}
