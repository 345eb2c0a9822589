// Copies between two layouts by device "cpu": our own loops make what the library's copies read back, and threads share them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/bf16.h"
#include "device/cpu/cpu.h"
#include "ops_check.h"

static const ls_layout *layout_of(ls_device *d, ls_shape shape, ls_dtype dtype, int is_weights, dnnl_format_tag_t tag) {
    const ls_layout *layout;
    assert_int_equal(ls__cpu_layout_tag((ls_cpu *)d, shape, dtype, is_weights, tag, &layout), LS_OK);
    return layout;
}

static const ls_layout *plain_weights(ls_shape shape, ls_dtype dtype) {
    const ls_layout *layout;
    assert_int_equal(cpu->ops->layout_plain(cpu, shape, dtype, 1, &layout), LS_OK);
    return layout;
}

static ls_buffer *new_buffer(ls_device *d, int64_t bytes) {
    ls_buffer *b;
    assert_int_equal(ls_buffer_create(d, bytes + 1, &b), LS_OK);
    memset(b->memory, 0xFF, (size_t)bytes);
    return b;
}

// The copy, which is the caller's; by_loops: whether it has to be made by our own.
static ls_buffer *copied(ls_device *d, const ls_layout *from, const ls_layout *to, ls_buffer *x, int by_loops) {
    ls_kernel *k;
    ls_queue *queue;
    ls_buffer *y = new_buffer(d, to->bytes);
    assert_int_equal(d->ops->reorder_create(d, from, to, &k), LS_OK);
    assert_int_equal(strcmp(k->name, "reorder:pairs") == 0, by_loops);
    ls_buffer *scratch = new_buffer(d, k->scratch_bytes);
    ls_span args[LS_ARG_COUNT] = {[LS_ARG_X] = {x, 0}, [LS_ARG_Y] = {y, 0}, [LS_ARG_SCRATCH] = {scratch, 0}};
    assert_int_equal(ls_queue_create(d, &queue), LS_OK);
    assert_int_equal(ls_kernel_run(k, queue, args), LS_OK);
    ls_queue_destroy(&queue);
    ls_buffer_destroy(&scratch);
    ls_kernel_destroy(&k);
    return y;
}

// Numbers that differ, of all sizes, infinities, and what is no number in its lower half alone.
static ls_buffer *new_weights(int64_t count) {
    static const uint32_t special[] = {0x7F800000u, 0xFF800000u, 0x7F800001u, 0xFFFFFFFFu, 0x80000000u, 0x7F7FFFFFu};
    ls_buffer *x = new_buffer(cpu, count * 4);
    uint32_t *bits = x->memory;
    for (int64_t i = 0; i < count; i++) bits[i] = draw() % 41 == 0 ? special[draw() % 6] : draw();
    return x;
}

// Into a layout of pairs by us, and from there back by the library.
static void check_pairs(ls_shape shape, const ls_layout *to, int by_loops) {
    const ls_layout *plain = plain_weights(shape, LS_DTYPE_F32),
                    *blocked = layout_of(cpu, shape, LS_DTYPE_F32, 1, dnnl_OIhw16i16o);
    int64_t count = ls_shape_count(shape);
    ls_buffer *x = new_weights(count), *in_blocks = copied(cpu, plain, blocked, x, 0);
    ls_buffer *y[] = {copied(cpu, plain, to, x, by_loops), copied(cpu, blocked, to, in_blocks, by_loops)};
    assert_memory_equal(y[0]->memory, y[1]->memory, (size_t)to->bytes);
    ls_buffer *back = copied(cpu, to, plain_weights(shape, LS_DTYPE_BF16), y[0], 0);
    for (int64_t i = 0; i < count; i++) {
        float v = ((const float *)x->memory)[i];
        if (v < 0x1p-126f && v > -0x1p-126f) v = __builtin_copysignf(0, v);
        assert_int_equal(((const ls_bf16 *)back->memory)[i], ls_float_to_bf16(v));
    }
    ls_buffer_destroy(&x);
    ls_buffer_destroy(&in_blocks);
    ls_buffer_destroy(&back);
    for (int i = 0; i < 2; i++) ls_buffer_destroy(&y[i]);
}

static void weights_become_pairs(void **state) {
    static const dnnl_format_tag_t tags[] = {dnnl_OIhw8i16o2i, dnnl_OIhw16i16o2i, dnnl_OIhw8o16i2o, dnnl_OIhw16o16i2o,
                                             dnnl_IOhw8o16i2o};
    static const struct {
        int64_t taps[2], channels, filters;
    } sizes[] = {{{1, 1}, 16, 16}, {{3, 3}, 64, 32}, {{3, 2}, 32, 96}, {{1, 1}, 128, 64}, {{2, 1}, 48, 16}};
    if (cpu->ops->supports(cpu, LS_DTYPE_BF16) != LS_OK) {
        print_message("skipped: this processor does not compute in bf16\n");
        skip();
    }
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t t = 0; t < sizeof tags / sizeof tags[0]; t++) {
            ls_shape shape = LS_SHAPE(sizes[s].taps[0], sizes[s].taps[1], sizes[s].channels, sizes[s].filters);
            int whole = (tags[t] != dnnl_OIhw16i16o2i || sizes[s].channels % 32 == 0) &&
                        (tags[t] != dnnl_OIhw16o16i2o || sizes[s].filters % 32 == 0);
            check_pairs(shape, layout_of(cpu, shape, LS_DTYPE_BF16, 1, tags[t]), whole);
        }
    ls_shape odd = LS_SHAPE(3, 3, 24, 16);
    check_pairs(odd, layout_of(cpu, odd, LS_DTYPE_BF16, 1, dnnl_OIhw8i16o2i), 0);
}

// 5 samples for 3 threads, in whole blocks of channels and not.
static void images_are_shared(void **state) {
    enum { N = 5, PLANE = 24 * 24 };
    for (int channels = 33; channels <= 48; channels += 15) {
        ls_shape shape = LS_SHAPE(N, 24, 24, channels);
        ls_device *const devices[] = {cpu, more};
        const ls_layout *from, *to;
        ls_buffer *x = NULL, *y[2];
        for (int i = 0; i < 2; i++) {
            from = layout_of(devices[i], shape, LS_DTYPE_BF16, 0, dnnl_nhwc);
            to = layout_of(devices[i], shape, LS_DTYPE_BF16, 0, dnnl_nChw16c);
            if (i == 0) {
                x = new_buffer(cpu, from->bytes);
                for (int64_t e = 0; e < from->bytes / 2; e++)
                    ((ls_bf16 *)x->memory)[e] = ls_float_to_bf16((float)(e % 1021));
            }
            y[i] = copied(devices[i], from, to, x, 0);
        }
        assert_memory_equal(y[0]->memory, y[1]->memory, (size_t)to->bytes);
        const ls_bf16 *plain = (const ls_bf16 *)x->memory, *blocked = (const ls_bf16 *)y[1]->memory;
        int64_t blocks = (channels + 15) / 16;
        for (int64_t n = 0; n < N; n++)
            for (int64_t p = 0; p < PLANE; p++)
                for (int64_t c = 0; c < channels; c++)
                    assert_int_equal(blocked[((n * blocks + c / 16) * PLANE + p) * 16 + c % 16],
                                     plain[(n * PLANE + p) * channels + c]);
        ls_buffer_destroy(&x);
        for (int i = 0; i < 2; i++) ls_buffer_destroy(&y[i]);
    }
}

// --- pieces of work --------------------------------------------------------------------------------------------------

enum { PIECES = 100, BAD = 57 };

typedef struct pieces {
    _Atomic int times[PIECES];
    int bad;
} pieces;

static ls_status piece(void *user, ls_queue *queue, int index) {
    pieces *p = user;
    (void)queue;
    p->times[index]++;
    return index == p->bad ? LS_STATUS_NOT_FOUND : LS_OK;
}

// By one thread, which stops at a failure, and by three, which may be further then.
static void each_piece_is_done_once(void **state) {
    ls_device *const devices[] = {cpu, more, ref};
    more->ops->thread_begin(more, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        ls_queue *queue;
        assert_int_equal(ls_queue_create(devices[i], &queue), LS_OK);
        queue->threads = ls__vector_threads(devices[i]);
        pieces good = {.bad = -1}, bad = {.bad = BAD}, none = {.bad = -1};
        assert_int_equal(ls_each(queue, PIECES, piece, &good), LS_OK);
        for (int p = 0; p < PIECES; p++) assert_int_equal(good.times[p], 1);
        assert_int_equal(ls_each(queue, PIECES, piece, &bad), LS_STATUS_NOT_FOUND);
        for (int p = 0; p <= BAD; p++) assert_int_equal(bad.times[p], 1);
        assert_int_equal(ls_each(queue, 0, piece, &none), LS_OK);
        ls_queue_destroy(&queue);
    }
    cpu->ops->thread_begin(cpu, NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_become_pairs),
        cmocka_unit_test(images_are_shared),
        cmocka_unit_test(each_piece_is_done_once),
    };
    return cmocka_run_group_tests(tests, ops_setup, ops_teardown);
}
