#include "data/fingerprint.h"

#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "data/image.h"

// The bytes are hashed in chunks of a fixed size, which the workers share out, and the chunks' hashes in their order:
// the number does not depend on how many workers there are.
#define CHUNK (1 << 20)

#define MIX_A 0x9E3779B97F4A7C15u  // odd, with bits all over: the golden ratio
#define MIX_B 0xD1B54A32D192ED03u

static uint64_t load_le64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = __builtin_bswap64(v);
#endif
    return v;
}

// One-to-one in h for every word, so one changed word in a chunk always shows.
static uint64_t mix(uint64_t h, uint64_t word) {
    h = (h ^ word) * MIX_A;
    return (h ^ h >> 29) * MIX_B;
}

// Four lanes side by side, since one chain of multiplications waits for itself.
static uint64_t hash_bytes(const uint8_t *p, int64_t bytes) {
    uint64_t lane[4] = {1, 2, 3, 4}, h = mix(MIX_B, (uint64_t)bytes);
    int64_t i = 0;
    for (; i + 32 <= bytes; i += 32)
        for (int k = 0; k < 4; k++) lane[k] = mix(lane[k], load_le64(p + i + 8 * k));
    for (; i < bytes; i++) h = mix(h, p[i]);
    for (int k = 0; k < 4; k++) h = mix(h, lane[k]);
    return h ^ h >> 32;
}

uint64_t ls__hash(const void *bytes, int64_t size) { return hash_bytes(bytes, size); }
uint64_t ls__hash_mix(uint64_t hash, uint64_t number) { return mix(hash, number); }

// ---- parts ---------------------------------------------------------------------------------------------------------

// Of a source that does not lie in memory, these samples are hashed: reading all could take hours.
enum { PROBES = 3 };
static int64_t probe(const ls_source *s, int k) { return (s->count - 1) * k / (PROBES - 1); }

static int64_t chunks(int64_t bytes) { return (bytes + CHUNK - 1) / CHUNK; }

// Of a source in memory without some of its samples all values count; the numbers of those are in the dataset's version.
static const ls_source *hashed(const ls_source *s) {
    return s && s->inner && ls_source_array(s->inner, 0) ? s->inner : s;
}

static int64_t source_parts(const ls_source *s) {
    int64_t parts = 0;
    if (!s) return 0;
    if (!ls_source_array(s, 0)) return PROBES;
    for (int f = 0; f < s->field_count; f++) parts += chunks(s->count * s->sample_bytes[f]);
    return parts;
}

int64_t ls__fingerprint_parts(const ls_dataset *d) {
    return source_parts(hashed(d->train)) + source_parts(hashed(d->test));
}

// Both take the number of the source's first part among all.
static void hash_arrays(const ls_source *s, int64_t index, int rank, int size, uint64_t *hashes) {
    for (int f = 0; f < s->field_count; f++) {
        const uint8_t *values = ls_source_array(s, f);
        int64_t bytes = s->count * s->sample_bytes[f];
        for (int64_t at = 0; at < bytes; at += CHUNK, index++)
            if (index % size == rank) hashes[index] = hash_bytes(values + at, bytes - at < CHUNK ? bytes - at : CHUNK);
    }
}

// Of a picture both the file and its pixels, as decoders differ too. One that cannot be decoded is told of when it is wanted.
static uint64_t hash_picture(const ls_picture *picture, int channels, ls_image_buffer *buffer) {
    uint64_t h = hash_bytes(picture->bytes, picture->bytes ? picture->size : 0);
    ls_image image;
    if (ls_image_file_decode(picture, (ls_image_wish){.channels = channels, .shrink = 1}, buffer, &image) != LS_OK)
        return h;
    h = mix(mix(h, (uint64_t)image.height), (uint64_t)image.width);
    return mix(h, hash_bytes(image.pixels, image.height * image.width * image.channels));
}

static uint64_t hash_field(const ls_source *s, int f, const void *value, ls_image_buffer *buffer) {
    if (!ls_field_is_picture(&s->field[f])) return hash_bytes(value, s->sample_bytes[f]);
    return hash_picture(value, (int)s->field[f].shape.dim[2], buffer);
}

static ls_status hash_probes(const ls_source *s, int64_t index, int rank, int size, uint64_t *hashes) {
    void *scratch = NULL;
    ls_status status = LS_OK;
    ls_sample sample;
    ls_image_buffer buffer = {{NULL}, {0}};
    if (s->scratch_bytes) LS_TRY(ls_memory_alloc(s->scratch_bytes, &scratch));
    for (int k = 0; k < PROBES; k++, index++) {
        if (index % size != rank) continue;
        LS_TRY_GOTO(ls_source_read(s, probe(s, k), scratch, &sample), done);
        uint64_t h = mix(MIX_B, (uint64_t)probe(s, k));
        for (int f = 0; f < s->field_count; f++) h = mix(h, hash_field(s, f, sample.field[f], &buffer));
        hashes[index] = h;
    }
done:
    ls_image_buffer_free(&buffer);
    ls_memory_free(scratch);
    return status;
}

ls_status ls__fingerprint_hash(const ls_dataset *d, int rank, int size, uint64_t *hashes) {
    const ls_source *sources[] = {hashed(d->train), hashed(d->test)};
    int64_t index = 0;
    for (int k = 0; k < 2 && sources[k]; index += source_parts(sources[k++])) {
        if (ls_source_array(sources[k], 0))
            hash_arrays(sources[k], index, rank, size, hashes);
        else
            LS_TRY(hash_probes(sources[k], index, rank, size, hashes));
    }
    return LS_OK;
}

// ---- all of it -----------------------------------------------------------------------------------------------------

// Images and labels as bytes were all there was when the first numbers were given out; what they are is said by less.
static int is_usual(const ls_field *f, int index) {
    return f->dtype == LS_DTYPE_U8 && (index == 0 ? strcmp(f->name, "image") == 0 && f->classes == 0
                                                  : index == 1 && strcmp(f->name, "label") == 0 && f->shape.ndim == 0);
}

static uint64_t mix_shape(uint64_t h, ls_shape shape) {
    h = mix(h, (uint64_t)shape.ndim);
    for (int i = 0; i < shape.ndim; i++) h = mix(h, (uint64_t)shape.dim[i]);
    return h;
}

uint64_t ls__fingerprint_combine(const ls_dataset *d, const uint64_t *hashes, int64_t parts) {
    const ls_source *s = d->train;
    uint64_t h = mix_shape(mix(MIX_A, (uint64_t)ls_dataset_classes(d)), s->field[0].shape);
    h = mix(mix(h, (uint64_t)s->count), (uint64_t)ls_dataset_test_count(d));
    for (int f = 0; f < s->field_count; f++) {
        const ls_field *field = &s->field[f];
        if (is_usual(field, f)) continue;
        h = mix(h, hash_bytes((const uint8_t *)field->name, (int64_t)strlen(field->name)));
        h = mix_shape(mix(mix(h, (uint64_t)field->dtype), (uint64_t)field->classes), field->shape);
    }
    if (d->version) h = mix(h, d->version);
    for (int64_t i = 0; i < parts; i++) h = mix(h, hashes[i]);
    return h ^ h >> 32;
}
