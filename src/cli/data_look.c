// Looking at the samples of a dataset, with several threads.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/data.h"

#define MOST_THREADS 256
#define KEPT         100000  // values of a set by which a median is found

// Of one sample, for the medians.
typedef struct measures {
    int64_t size, height, width;
} measures;

typedef struct looker {
    const ls_dataset *dataset;
    data_found *found;
    int decode;
    pthread_mutex_t mutex;
    int set;               // that is looked at
    int64_t wanted, next;  // samples of it; the next one
    measures *kept;        // (kept_count)
    int64_t kept_count;
} looker;

int64_t data_sample(int64_t n, int64_t looked, int64_t count) {
    return looked == count ? n : (int64_t)((double)n * (double)count / (double)looked);
}

// Seconds that the processor worked for this thread.
static double busy(void) {
    struct timespec t;
    return clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) == 0 ? (double)t.tv_sec + 1e-9 * (double)t.tv_nsec : 0;
}

// --- one sample ------------------------------------------------------------------------------------------------------

// Sentences of the first, by number, whoever comes first. Under the mutex.
static void note_broken(looker *l, int64_t sample) {
    data_found *f = l->found;
    int at = f->broken_told;
    while (at > 0 && f->broken[at - 1].set == l->set && f->broken[at - 1].sample > sample) at--;
    if (at == DATA_TOLD) return;
    if (f->broken_told < DATA_TOLD) f->broken_told++;
    memmove(f->broken + at + 1, f->broken + at, (size_t)(f->broken_told - at - 1) * sizeof *f->broken);
    f->broken[at] = (data_broken){.set = l->set, .sample = sample};
    snprintf(f->broken[at].sentence, sizeof f->broken[at].sentence, "%s", ls_error_message());
}

static void take_range(data_range *r, int64_t value, int first) {
    if (first || value < r->least) r->least = value;
    if (first || value > r->most) r->most = value;
}

// Under the mutex.
static void note(looker *l, int64_t n, const ls_sample_info *info) {
    data_set *s = &l->found->set[l->set];
    int first = s->looked - s->broken == 1;
    s->bytes += info->bytes;
    s->grey += info->channels == 1;
    take_range(&s->size, info->bytes, first);
    take_range(&s->height, info->height, first);
    take_range(&s->width, info->width, first);
    if (info->label >= 0 && info->label < l->found->classes) s->class_count[info->label]++;
    if (n % ((l->wanted + KEPT - 1) / KEPT) == 0)
        l->kept[l->kept_count++] = (measures){info->bytes, info->height, info->width};
}

static void *work(void *argument) {
    looker *l = argument;
    data_set *s = &l->found->set[l->set];
    pthread_mutex_lock(&l->mutex);
    while (l->next < l->wanted) {
        int64_t n = l->next++, sample = data_sample(n, l->wanted, s->count);
        ls_sample_info info;
        ls_image image = {.pixels = NULL};
        pthread_mutex_unlock(&l->mutex);
        double start = busy();
        ls_status status = ls_dataset_look(l->dataset, l->set == DATA_TEST, sample, &info, l->decode ? &image : NULL);
        double spent = busy() - start;
        ls_image_free(&image);
        pthread_mutex_lock(&l->mutex);
        l->found->busy += spent;
        s->looked++;
        if (status == LS_OK) {
            note(l, n, &info);
        } else {
            s->broken++;
            note_broken(l, info.number);
        }
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

// --- all of a set ----------------------------------------------------------------------------------------------------

static int by_size(const void *a, const void *b) {
    const measures *x = a, *y = b;
    return (x->size > y->size) - (x->size < y->size);
}
static int by_height(const void *a, const void *b) {
    const measures *x = a, *y = b;
    return (x->height > y->height) - (x->height < y->height);
}
static int by_width(const void *a, const void *b) {
    const measures *x = a, *y = b;
    return (x->width > y->width) - (x->width < y->width);
}

static void find_medians(looker *l) {
    data_set *s = &l->found->set[l->set];
    size_t n = (size_t)l->kept_count;
    if (n == 0) return;
    qsort(l->kept, n, sizeof *l->kept, by_size);
    s->size.median = l->kept[n / 2].size;
    qsort(l->kept, n, sizeof *l->kept, by_height);
    s->height.median = l->kept[n / 2].height;
    qsort(l->kept, n, sizeof *l->kept, by_width);
    s->width.median = l->kept[n / 2].width;
}

static ls_status look_at_set(looker *l, int set, int64_t count, int64_t samples) {
    pthread_t threads[MOST_THREADS];
    int started = 0, error = 0;
    l->set = set;
    l->wanted = samples > 0 && samples < count ? samples : count;
    l->next = l->kept_count = 0;
    l->found->set[set].count = count;
    while (started < l->found->threads && !error) {
        error = pthread_create(&threads[started], NULL, work, l);
        started += !error;
    }
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    if (!started)
        return LS_FAIL(LS_STATUS_LIBRARY,
                       "cannot start a thread: %s; allow this user more threads (ulimit -u) or addresses (ulimit -v)",
                       strerror(error));
    find_medians(l);
    return LS_OK;
}

static ls_status make_room(const ls_dataset *dataset, looker *l) {
    data_found *f = l->found;
    f->classes = ls_dataset_classes(dataset);
    LS_TRY(ls_calloc(DATA_TOLD, sizeof *f->broken, &f->broken));
    LS_TRY(ls_calloc(KEPT, sizeof *l->kept, &l->kept));
    for (int s = 0; s < DATA_SETS && f->classes; s++)
        LS_TRY(ls_calloc(f->classes, sizeof *f->set[s].class_count, &f->set[s].class_count));
    return LS_OK;
}

ls_status data_look(const ls_dataset *dataset, int64_t samples, int threads, int decode, data_found *out) {
    looker l = {.dataset = dataset, .found = out, .decode = decode};
    *out = (data_found){.threads = threads < MOST_THREADS ? threads : MOST_THREADS};
    double start = ls_clock();
    pthread_mutex_init(&l.mutex, NULL);
    ls_status status = make_room(dataset, &l);
    if (status == LS_OK) status = look_at_set(&l, DATA_TRAIN, ls_dataset_train_count(dataset), samples);
    if (status == LS_OK && ls_dataset_test_count(dataset))
        status = look_at_set(&l, DATA_TEST, ls_dataset_test_count(dataset), samples);
    pthread_mutex_destroy(&l.mutex);
    free(l.kept);
    out->seconds = ls_clock() - start;
    return status;
}

void data_found_free(data_found *f) {
    free(f->broken);
    for (int s = 0; s < DATA_SETS; s++) free(f->set[s].class_count);
    *f = (data_found){.broken = NULL};
}
