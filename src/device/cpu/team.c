#include "device/cpu/team.h"

#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

int ls__team_index(void) { return omp_get_thread_num(); }

void ls__team_allow(int threads) { omp_set_num_threads(threads); }

void ls__team_set(void) {
    ls__team_allow(1);
    omp_set_dynamic(0);
    if (omp_get_max_active_levels() <= omp_get_active_level()) omp_set_max_active_levels(omp_get_active_level() + 1);
}

static void *wait_for_all(void *user) {
    pthread_mutex_lock(user);
    pthread_mutex_unlock(user);
    return NULL;
}

// Whether the system would start so many threads at once. The OpenMP runtime ends the process where it does not.
static ls_status try_threads(int count) {
    pthread_t *threads;
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int started = 0, why = 0;
    LS_TRY(ls_calloc(count, sizeof *threads, &threads));
    pthread_mutex_lock(&gate);
    while (started < count && (why = pthread_create(&threads[started], NULL, wait_for_all, &gate)) == 0) started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++) pthread_join(threads[i], NULL);
    free(threads);
    if (started == count) return LS_OK;
    return LS_FAIL(
        LS_STATUS_OUT_OF_MEMORY,
        "%d threads for a replica: the system starts no more than %d here (%s): ask for fewer, or raise the limit of "
        "processes or of memory (ulimit -u, ulimit -v)",
        count + 1, started + 1, strerror(why));
}

static int team_size(int threads) {
    int size = 0;
#pragma omp parallel num_threads(threads)
    {
#pragma omp single
        size = omp_get_num_threads();
    }
    return size;
}

ls_status ls__team_check(int threads) {
    static const char *const names[] = {"OMP_THREAD_LIMIT", "KMP_ALL_THREADS", "KMP_DEVICE_THREAD_LIMIT", "OMP_DYNAMIC",
                                        "OMP_MAX_ACTIVE_LEVELS"};
    if (threads > LS_TEAM_MOST)
        return LS_FAIL(LS_STATUS_INVALID_ARGUMENT, "a replica of %d threads is asked for; there are at most %d",
                       threads, LS_TEAM_MOST);
    ls__team_set();
    if (threads == 1) return LS_OK;
    if (omp_get_thread_limit() >= threads) LS_TRY(try_threads(threads - 1));
    int size = team_size(threads);
    if (size == threads) return LS_OK;
    char set[256] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (getenv(names[i]))
            ls_text_add(set, sizeof set, &used, "%s%s=%s", used ? ", " : "", names[i], getenv(names[i]));
    return LS_FAIL(
        LS_STATUS_UNSUPPORTED,
        "%d threads for a replica: OpenMP gives it %d thread%s only%s%s%s: change that in the environment, or ask for "
        "fewer threads and more replicas",
        threads, size, size == 1 ? "" : "s", used ? " (" : "", set, used ? ")" : "");
}
