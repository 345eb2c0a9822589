// What the storage gives that a dataset's files lie on: in order, at random, and files opened, each second. Files are asked to leave the system's cache before, which
// those that were just written do not; and nothing is measured of data that lie in memory.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/philox.h"
#include "cli/data.h"

enum { FILES = 4096, KEPT = 256, MOST_THREADS = 64, PIECE = 1 << 20 };
#define SECONDS     1.0                   // of each measurement, and of what is opened before it
#define MOST_AT_ONE ((int64_t)256 << 20)  // bytes of a file that are read in order

typedef struct place {
    const char *path;  // the dataset's
    int64_t bytes;     // of the file
    int fd;            // of a container, which stays open as it does in training; -1: opened for each sample
    int64_t first;     // of its pieces, among those of all files
} place;

typedef struct measuring {
    place *file;  // (count), no two of one name
    int64_t count, sample_bytes, pieces;
    int bits;  // of numbers of pieces, an even number of them
    double start;
    _Atomic int64_t next, read, samples;
    _Atomic int failed;
} measuring;

// Out of the cache, where the pages are as they are on the disk.
static void forget(int fd) { posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); }

static int open_place(const place *p) { return open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); }

// Bytes at a place; -1: it cannot be read.
static int64_t read_piece(int fd, int64_t at, int64_t size, char *buffer) {
    int64_t done = 0;
    while (done < size) {
        int64_t want = size - done < PIECE ? size - done : PIECE;
        ssize_t n = pread(fd, buffer, (size_t)want, at + done);
        if (n < 0) return -1;
        if (n == 0) break;
        done += n;
    }
    return done;
}

// One file after the other, each from its beginning, for so long.
static double in_order(measuring *m, char *buffer) {
    int64_t read = 0;
    double start = ls_clock(), seconds = 0;
    for (int64_t i = 0; i < m->count && seconds < SECONDS; i++) {
        int fd = open_place(&m->file[i]);
        int64_t most = m->file[i].bytes < MOST_AT_ONE ? m->file[i].bytes : MOST_AT_ONE;
        for (int64_t at = 0; fd >= 0 && at < most && seconds < SECONDS; at += PIECE) {
            int64_t n = read_piece(fd, at, most - at < PIECE ? most - at : PIECE, buffer);
            if (n <= 0) break;
            read += n;
            seconds = ls_clock() - start;
        }
        if (fd >= 0) close(fd);
        seconds = ls_clock() - start;
    }
    return seconds > 0 ? (double)read / seconds : 0;
}

// Number n of all below 2^bits in an order that looks like chance, each once: four rounds of a Feistel network.
static int64_t scatter(int64_t n, int bits) {
    uint32_t mask = (uint32_t)((1u << bits / 2) - 1), left = (uint32_t)(n >> bits / 2) & mask,
             right = (uint32_t)n & mask;
    for (uint32_t round = 0; round < 4; round++) {
        uint32_t next = left ^ (ls_philox(1, right, round, 0, 0).v[0] & mask);
        left = right;
        right = next;
    }
    return (int64_t)left << bits / 2 | right;
}

// The same of all below `count`, which is at most 2^bits: what is not below goes on until it is.
static int64_t shuffled(int64_t n, int64_t count, int bits) {
    do n = scatter(n, bits);
    while (n >= count);
    return n;
}

// An even number of bits that numbers below `count` have room in.
static int bits_of(int64_t count) {
    int bits = 2;
    while (bits < 62 && (int64_t)1 << bits < count) bits += 2;
    return bits;
}

static int64_t piece_bytes(const measuring *m, const place *p) {
    return p->bytes < 2 * m->sample_bytes ? p->bytes : m->sample_bytes;
}

// Pieces that are one sample each, numbered through all files.
static void number_pieces(measuring *m) {
    m->pieces = 0;
    for (int64_t i = 0; i < m->count; i++) {
        m->file[i].first = m->pieces;
        m->pieces += m->file[i].bytes / piece_bytes(m, &m->file[i]);
    }
    m->bits = bits_of(m->pieces);
}

static const place *file_of(const measuring *m, int64_t piece) {
    int64_t low = 0, past = m->count;
    while (past - low > 1) {
        int64_t middle = low + (past - low) / 2;
        if (m->file[middle].first <= piece)
            low = middle;
        else
            past = middle;
    }
    return &m->file[low];
}

// Samples as training reads them: a file of one, or a piece of a large one, anywhere; none twice, as the second time it would come from the cache.
static void *at_random(void *argument) {
    measuring *m = argument;
    char *buffer = malloc(PIECE);
    while (buffer && ls_clock() - m->start < SECONDS && !atomic_load(&m->failed)) {
        int64_t n = atomic_fetch_add(&m->next, 1);
        if (n >= m->pieces) break;
        int64_t piece = shuffled(n, m->pieces, m->bits);
        const place *p = file_of(m, piece);
        int64_t size = piece_bytes(m, p), at = (piece - p->first) * size;
        int fd = p->fd >= 0 ? p->fd : open_place(p);
        int64_t got = fd >= 0 ? read_piece(fd, at, size, buffer) : -1;
        if (fd >= 0 && fd != p->fd) close(fd);
        if (got < 0) {
            atomic_store(&m->failed, 1);
        } else {
            atomic_fetch_add(&m->read, got);
            atomic_fetch_add(&m->samples, 1);
        }
    }
    free(buffer);
    return NULL;
}

// Numbers of file systems whose files are on servers: the kernel's linux/magic.h (NFS, SMB, AFS, Ceph), and those that their own sources have.
static int is_remote(const char *path) {
    static const uint32_t list[] = {
        0x0bd00bd0 /* Lustre */, 0x47504653 /* GPFS */,  0x19830326 /* BeeGFS */, 0x6969 /* NFS */,
        0xff534d42 /* SMB */,    0xfe534d42 /* SMB 2 */, 0x5346414f /* AFS */,    0x00c36400 /* Ceph */};
    struct statfs there;
    if (statfs(path, &there) != 0) return 0;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if ((uint32_t)there.f_type == list[i]) return 1;
    return 0;
}

// Inodes are in the system's cache: they were looked at when samples were listed or read, and no call that needs no rights takes them out.
static double opened_a_second(const measuring *m) {
    int64_t opened = 0;
    double start = ls_clock(), seconds = 0;
    for (int64_t i = 0; i < m->count && seconds < SECONDS; i++) {
        int fd = open_place(&m->file[i]);
        if (fd >= 0) close(fd);
        opened += fd >= 0;
        seconds = ls_clock() - start;
    }
    return seconds > 0 ? (double)opened / seconds : 0;
}

// Those that there is no time for are not measured.
static void drop_all(measuring *m) {
    double start = ls_clock();
    int64_t dropped = 0;
    for (; dropped < m->count && (dropped == 0 || ls_clock() - start < SECONDS); dropped++) {
        int fd = open_place(&m->file[dropped]);
        if (fd < 0) continue;
        forget(fd);
        close(fd);
    }
    m->count = dropped;
}

static int by_path(const void *a, const void *b) { return strcmp(((const place *)a)->path, ((const place *)b)->path); }

// Files of samples, evenly spread, as many as there is time to find: in a mixed order, so that those are, too.
static ls_status find_files(const ls_dataset *dataset, measuring *m) {
    int64_t count = ls_dataset_train_count(dataset), wanted = count < FILES ? count : FILES, kept = 0;
    int bits = bits_of(wanted);
    double start = ls_clock();
    LS_TRY(ls_calloc(wanted, sizeof *m->file, &m->file));
    for (int64_t n = 0; n < wanted && (n == 0 || ls_clock() - start < SECONDS); n++) {
        ls_sample_info info;
        struct stat there;
        if (ls_dataset_look(dataset, 0, data_sample(shuffled(n, wanted, bits), wanted, count), &info, NULL) != LS_OK ||
            !info.file)
            continue;
        if (stat(info.file, &there) == 0 && S_ISREG(there.st_mode) && there.st_size > 0)
            m->file[m->count++] = (place){info.file, there.st_size, -1, 0};
    }
    if (m->count) qsort(m->file, (size_t)m->count, sizeof *m->file, by_path);
    for (int64_t i = 0; i < m->count; i++)
        if (!kept || strcmp(m->file[kept - 1].path, m->file[i].path) != 0) m->file[kept++] = m->file[i];
    m->count = kept;
    return LS_OK;
}

// Containers are opened before, as many as there is time for, and closed after.
static void keep_open(measuring *m, int open) {
    double start = ls_clock();
    for (int64_t i = 0; i < m->count && m->count <= KEPT; i++) {
        place *p = &m->file[i];
        if (open && ls_clock() - start < SECONDS && p->bytes >= 2 * m->sample_bytes) p->fd = open_place(p);
        if (!open && p->fd >= 0) close(p->fd);
    }
}

ls_status data_storage(const ls_dataset *dataset, double sample_bytes, int threads, data_rates *out) {
    measuring m = {.sample_bytes = sample_bytes >= 1 ? (int64_t)sample_bytes : 1};
    pthread_t thread[MOST_THREADS];
    int started = 0;
    char *buffer;
    *out = (data_rates){.files = 0};
    LS_TRY(ls_calloc(PIECE, 1, &buffer));
    ls_status status = find_files(dataset, &m);
    out->threads = threads < MOST_THREADS ? threads : MOST_THREADS;
    if (status == LS_OK && m.count) {
        drop_all(&m);
        out->files = m.count;
        out->in_order = in_order(&m, buffer);
        drop_all(&m);
        keep_open(&m, 1);
        number_pieces(&m);
        m.start = ls_clock();
        while (started < out->threads && pthread_create(&thread[started], NULL, at_random, &m) == 0) started++;
        for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
        double seconds = ls_clock() - m.start;
        keep_open(&m, 0);
        out->at_random = (double)atomic_load(&m.read) / seconds;
        out->samples = (double)atomic_load(&m.samples) / seconds;
        out->opened = opened_a_second(&m);
        out->remote = is_remote(m.file[0].path);
    }
    free(m.file);
    free(buffer);
    return status;
}
