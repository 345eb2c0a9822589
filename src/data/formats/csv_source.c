// Lines of a table as samples: a line is a record, read, cached and looked after as an image's bytes are (data/source_records.c), and taken apart when it is wanted.
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/formats/csv_numbers.h"

typedef struct lines_source {
    ls_source base;
    ls_source *bytes;  // of the lines as they are in the file, and of what is learned of them
    const ls_record *record;
    const ls__csv_columns *columns;
    int64_t width;
} lines_source;

void ls__csv_numbers(const ls__csv_columns *c, const ls__csv_row *row, int pixels, float *out, int *wrong) {
    *wrong = -1;
    for (int i = 0; i <= c->last; i++) {
        int at = c->of[i];
        if (at < 0) continue;
        if (ls__csv_number(row->cell[i], &out[at]) &&
            (!pixels || (out[at] >= 0 && out[at] <= 255 && out[at] == floorf(out[at]))))
            continue;
        *wrong = i;
        return;
    }
}

// A thread's scratch: the numbers as they are read, those of pixels, the line taken apart, the line.
static int64_t pixels_at(const lines_source *s) { return ls_round_up(4 * s->width, LS_ALIGN); }
static int64_t row_at(const lines_source *s) { return pixels_at(s) + ls_round_up(s->width, LS_ALIGN); }
static int64_t line_at(const lines_source *s) {
    return row_at(s) + ls_round_up((int64_t)sizeof(ls__csv_row), LS_ALIGN);
}

static ls_status lines_read(const ls_source *source, int64_t i, void *scratch, ls_sample *out) {
    const lines_source *s = (const lines_source *)source;
    const ls__csv_columns *columns = &s->columns[s->record[i].file];
    float *numbers = scratch;
    uint8_t *pixels = (uint8_t *)scratch + pixels_at(s);
    ls__csv_row *row = (ls__csv_row *)(void *)((char *)scratch + row_at(s));
    char *below = (char *)scratch + line_at(s);
    ls_sample line;
    int wrong = 0, as_pixels = source->field[0].dtype == LS_DTYPE_U8;
    LS_TRY(s->bytes->ops->read(s->bytes, i, below, &line));
    const ls_picture *p = line.field[0];
    char *text = below + (p->bytes - (const uint8_t *)below);
    ls__csv_file file = {.path = p->name, .separator = columns->separator};
    text[p->size] = 0;
    // It was looked at when it was listed, and its file has the size and the time that it had.
    if (ls__csv_take_apart(&file, text, row) == LS_OK && row->count > columns->last)
        ls__csv_numbers(columns, row, as_pixels, numbers, &wrong);
    if (wrong >= 0)
        return LS_FAIL(LS_STATUS_BAD_DATA,
                       "%s was changed: the line at byte %lld is not what it was when this run began; begin again",
                       p->name, (long long)s->record[i].at);
    for (int64_t k = 0; k < s->width && as_pixels; k++) pixels[k] = (uint8_t)numbers[k];
    out->field[0] = as_pixels ? (const void *)pixels : numbers;
    if (source->field_count > 1) out->field[1] = line.field[1];
    return LS_OK;
}

static void lines_destroy(ls_source *source) { ls_source_destroy(&((lines_source *)source)->bytes); }

static const ls_source *below(const ls_source *source) { return ((const lines_source *)source)->bytes; }

static int64_t lines_class(const ls_source *source, int64_t i) {
    return source->field_count > 1 && source->field[1].classes ? below(source)->ops->class(below(source), i) : -1;
}
static int64_t lines_stored(const ls_source *source) { return below(source)->ops->stored(below(source)); }
static void lines_ahead(const ls_source *source, int64_t i) { below(source)->ops->ahead(below(source), i); }
static int64_t lines_cache_size(const ls_source *source, int64_t limit) {
    return below(source)->ops->cache_size(below(source), limit);
}
static void lines_cache_attach(ls_source *source, int64_t limit, void *memory, int fill) {
    ls_source *bytes = ((lines_source *)source)->bytes;
    bytes->ops->cache_attach(bytes, limit, memory, fill);
}

static const ls_source_ops lines_ops = {.read = lines_read,
                                        .destroy = lines_destroy,
                                        .class = lines_class,
                                        .stored = lines_stored,
                                        .ahead = lines_ahead,
                                        .cache_size = lines_cache_size,
                                        .cache_attach = lines_cache_attach};

ls_status ls__source_create_lines(const char *name, const ls_records *records, int set, const ls__csv_columns *columns,
                                  const ls_field *fields, int field_count, ls_source **out) {
    lines_source *s;
    *out = NULL;
    LS_TRY(ls_source_create(&lines_ops, sizeof *s, name, fields, field_count, records->count[set], &s));
    *out = &s->base;
    ls_status status = ls_source_create_records(name, records, set, 1, &s->bytes);
    if (status != LS_OK) {
        ls_source_destroy(out);
        return ls__fail_passed(status, __FILE__, __LINE__);
    }
    s->record = records->record[set];
    s->columns = columns;
    s->width = ls_shape_count(fields[0].shape);
    s->base.scratch_bytes = line_at(s) + ls_round_up(s->bytes->scratch_bytes + 1, LS_ALIGN);
    return LS_OK;
}
