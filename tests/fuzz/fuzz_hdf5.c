// Fuzzes the reader of images and labels in HDF5 files: what the library makes of a damaged structure, and what is made of that here.
//
// With clang's libFuzzer (cmake -DLS_FUZZ=ON) that looks for inputs of its own. Built without, as it always is, main() below
// stands in for it: it spoils good files in a fixed sequence of ways, the same in every run.
//
//   fuzz_hdf5 [--iterations N [SEED]]   spoil and try
//   fuzz_hdf5 --seeds DIR               write good files as a corpus for libFuzzer
//   fuzz_hdf5 FILE...                   try these inputs, to see again what a fuzzer found
//
// The library of version 1.10 may end the program over structures that are damaged; here that ends a process of its own, which is told, and counted. What a
// sanitizer reports there is looked at: where the library comes first among the frames the fuzzer goes on, else it ends as for a mistake in its own process.
// libFuzzer sees nothing of that process's code, so it is run by hand.
#define _GNU_SOURCE
#include <dirent.h>
#include <hdf5.h>
#include <pthread.h>
#include <unistd.h>
#ifdef LS_SANITIZED
#include <sanitizer/common_interface_defs.h>
#endif

#include "../image_files.h"
#include "base/memory.h"
#include "data/dataset.h"

// What must hold whatever the input; ends the run where it does not.
#define MUST(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "fuzz_hdf5: line %d: not so: %s (last error: %s)\n", __LINE__, #condition,                 \
                    ls_error_message());                                                                               \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

static int opened, died;  // inputs that were datasets; that ended the library's process

static void count_death(void) {
    died += strstr(ls_error_message(), "crashes on this file") ||
            strstr(ls_error_message(), "does not come to an end") || strstr(ls_error_message(), "was killed");
}

// --- what sanitizers report in the library's process -----------------------------------------------------------------

// Whether the first frame of a report that is the library's, or ours, is ours; one without such frames is.
static int is_ours(const char *report) {
    int frames = 0;
    if (!strstr(report, "ERROR: ") && !strstr(report, "runtime error: "))
        return 0;  // a warning: memory that is not had
    for (const char *line = report; line; line = strchr(line + 1, '\n')) {
        const char *end = strchr(line + 1, '\n');
        char text[600];
        snprintf(text, sizeof text, "%.*s", end ? (int)(end - line) : 599, line);
        const char *frame = text + strspn(text, " \n");
        if (*frame != '#' && frames) return 1;  // the stacks behind the first say where the memory is from
        if (*frame != '#') continue;
        frames = 1;
        if (strstr(frame, "libhdf5") || strstr(frame, " in H5")) return 0;
        if (strstr(frame, "/src/") && strstr(frame, ".c:")) return 1;
    }
    return 1;
}

static void check_is_ours(void) {
    static const char *const ours[] = {
        "==1==ERROR: AddressSanitizer: heap-buffer-overflow\n    #0 0x1 in __interceptor_memcpy (/b/fuzz_hdf5+0x2)\n"
        "    #1 0x3 in read_values /w/src/data/formats/hdf5_file.c:184:9\n    #2 0x4 "
        "(/lib/libhdf5_serial.so.103+0x5)\n",
        "/w/src/data/formats/hdf5_file.c:12:3: runtime error: index 9 out of bounds for type 'int64_t [4]'\n"};
    static const char *const theirs[] = {
        "==1==WARNING: AddressSanitizer failed to allocate 0x51000000000058 bytes\n",
        "==1==ERROR: AddressSanitizer: SEGV\n    #0 0x1  (/lib/libc.so.6+0x2)\n    #1 0x3 in H5F__accum_read "
        "(/lib/libhdf5_serial.so.103+0x5)\n    #2 0x3 in read_values /w/src/data/formats/hdf5_file.c:184:9\n\n"};
    for (int i = 0; i < 2; i++) MUST(is_ours(ours[i]) && !is_ours(theirs[i]));
}

static char reports[] = "/tmp/lockstep-fuzz-hdf5-reports-XXXXXX";

// In a process that has just begun.
static void report_to_file(void) {
#ifdef LS_SANITIZED
    char name[sizeof reports + 16];
    snprintf(name, sizeof name, "%s/report", reports);
    __sanitizer_set_report_path(name);
#endif
}

static void take_reports(void) {
    static char text[1 << 16];
    DIR *folder = opendir(reports);
    struct dirent *entry;
    MUST(folder);
    while ((entry = readdir(folder))) {
        char name[sizeof reports + 300];
        if (entry->d_name[0] == '.') continue;
        snprintf(name, sizeof name, "%s/%s", reports, entry->d_name);
        FILE *file = fopen(name, "r");
        MUST(file);
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        unlink(name);
        if (!is_ours(text)) continue;
        fprintf(stderr, "fuzz_hdf5: not the library's, in its process:\n%s", text);
        abort();
    }
    closedir(folder);
}

static void look_at(const ls_source *s) {
    void *scratch;
    uint64_t sum = 0;
    // What the file says may be much larger than it is; who has the memory reads it, and fails there.
    if (s->scratch_bytes > 1 << 20) return;
    MUST(ls_memory_alloc(s->scratch_bytes, &scratch) == LS_OK);
    for (int64_t i = 0; i < s->count && i < 50; i++) {
        ls_sample sample;
        if (ls_source_read(s, i, scratch, &sample) != LS_OK) {
            MUST(strstr(ls_error_message(), "lockstep-fuzz-hdf5-"));
            if (i == 0) count_death();
            continue;
        }
        for (int f = 0; f < 2; f++)
            for (int64_t k = 0; k < s->sample_bytes[f]; k++) sum += ((const uint8_t *)sample.field[f])[k];
        if (s->field[1].classes) {
            int32_t class = *(const int32_t *)sample.field[1];
            MUST(class >= 0 && class < s->field[1].classes);
        }
    }
    MUST(sum < (uint64_t)1 << 40);
    ls_memory_free(scratch);
}

// The library opens no file of memory by a path under /proc.
static char path[] = "/tmp/lockstep-fuzz-hdf5-XXXXXX";
static void remove_files(void) {
    unlink(path);
    rmdir(reports);
}

static int begin(void) {
    int fd = mkstemp(path);
    MUST(mkdtemp(reports) && pthread_atfork(NULL, NULL, report_to_file) == 0);
    atexit(remove_files);
    check_is_ours();
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    ls_data_host *host;
    ls_dataset *d;
    char spec[64];
    if (size < 1 || size > 1 << 20) return 0;
    if (fd < 0) fd = begin();
    MUST(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data + 1, size - 1, 0) == (ssize_t)size - 1);
    snprintf(spec, sizeof spec, "hdf5:%s%s", path, data[0] & 1 ? ",targets=learned" : "");
    MUST(ls_data_host_create_self(&host) == LS_OK);
    if (ls_data_open(host, spec, &d) == LS_OK) {
        opened++;
        look_at(d->train);
        if (d->test) look_at(d->test);
        ls_data_close(&d);
    } else {
        MUST(strstr(ls_error_message(), "lockstep-fuzz-hdf5-"));  // the file's name
        count_death();
    }
    ls_data_host_destroy_self(&host);
    take_reports();
    return 0;
}

#ifndef LS_FUZZ_LIBFUZZER

#define FUZZ_ITERATIONS 150  // each starts processes, which take long under sanitizers
#include "driver.h"

enum { FORMS = 5, VIEW = 4, SETS = 3 };

// A good file, and where its values lie.
typedef struct form {
    image_file file;
    size_t at[SETS], size[SETS];
} form;

static void find_values(hid_t file, const char *name, int packed, size_t *at, size_t *size) {
    hid_t set = H5Dopen2(file, name, H5P_DEFAULT), space = H5Dget_space(set);
    haddr_t begin = packed ? HADDR_UNDEF : H5Dget_offset(set);
    hsize_t bytes = H5Dget_storage_size(set);
#if H5_VERSION_GE(1, 10, 5)
    if (packed) MUST(H5Dget_chunk_info(set, space, 0, NULL, NULL, &begin, &bytes) >= 0);
#endif
    *at = begin == HADDR_UNDEF ? 0 : (size_t)begin;
    *size = begin == HADDR_UNDEF ? 0 : (size_t)bytes;
    H5Sclose(space);
    H5Dclose(set);
}

static void add(hid_t file, const char *name, hid_t stored, int packed, int ndim, const hsize_t *dim) {
    static const uint8_t values[4 * 3 * 4 * 4] = {1, 0, 1, 1, 0, 1};
    hid_t space = H5Screate_simple(ndim, dim, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    if (packed) {
        H5Pset_chunk(how, ndim, dim);
        H5Pset_deflate(how, 5);
    }
    hid_t set = H5Dcreate2(file, name, stored, space, H5P_DEFAULT, how, H5P_DEFAULT);
    MUST(set >= 0 && H5Dwrite(set, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0);
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
}

// What "stored" of the same file has.
static void add_view(hid_t file, const char *name, int ndim, const hsize_t *dim) {
#if H5_VERSION_GE(1, 10, 0)
    hid_t space = H5Screate_simple(ndim, dim, NULL), how = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t from[H5S_MAX_RANK] = {0};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, dim, NULL);
    MUST(H5Pset_virtual(how, space, ".", "stored", space) >= 0);
    hid_t set = H5Dcreate2(file, name, H5T_STD_U8LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    MUST(set >= 0);
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
#else
    add(file, name, H5T_STD_U8LE, 0, ndim, dim);
#endif
}

// In one piece or packed, pixels or floating, classes, rows of labels, and what is learned in their place, a view; made in memory.
static form make(int kind) {
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_core(access, 1 << 16, 0);
    hid_t file = H5Fcreate("seed", H5F_ACC_TRUNC, H5P_DEFAULT, access);
    MUST(file >= 0);
    add(file, kind == VIEW ? "stored" : "x_train", kind & 1 ? H5T_IEEE_F32LE : H5T_STD_U8LE, kind > 1, 4,
        (hsize_t[]){4, 6, 2, 3});
    if (kind == VIEW) add_view(file, "x_train", 4, (hsize_t[]){4, 6, 2, 3});
    add(file, "y_train", kind & 1 ? H5T_STD_I64BE : H5T_STD_U8LE, kind & 1, kind > 1 ? 2 : 1, (hsize_t[]){4, 3});
    // Numbers, which are in memory, or images, which are read while training.
    add(file, "learned", kind & 1 ? H5T_IEEE_F32LE : H5T_IEEE_F64LE, kind > 1, kind & 1 ? 4 : 2,
        (hsize_t[]){4, kind & 1 ? 3 : 2, 4, 3});
    H5Fflush(file, H5F_SCOPE_GLOBAL);
    ssize_t size = H5Fget_file_image(file, NULL, 0);
    form f = {.file = {malloc((size_t)size), (size_t)size, (size_t)size}};
    MUST(H5Fget_file_image(file, f.file.bytes, f.file.size) == size);
    find_values(file, kind == VIEW ? "stored" : "x_train", kind > 1, &f.at[0], &f.size[0]);
    find_values(file, "y_train", kind & 1, &f.at[1], &f.size[1]);
    find_values(file, "learned", kind > 1, &f.at[2], &f.size[2]);
    MUST(f.size[0] + f.size[1] + f.size[2] > 0);
    H5Fclose(file);
    H5Pclose(access);
    return f;
}

// A bit, a byte, an address or a size, or a piece from elsewhere.
static void spoil(image_file *f, size_t from, size_t size) {
    static const uint64_t sizes[] = {
        0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, (uint64_t)1 << 40, INT64_MAX, UINT64_MAX};
    size_t at = from + draw((uint32_t)size), other = draw((uint32_t)f->size), n = 1 + draw(32);
    uint64_t value = sizes[draw(sizeof sizes / sizeof sizes[0])];
    switch (draw(6)) {
    case 0: f->bytes[at] = (uint8_t)draw(256); break;
    case 1: n = (size_t)1 << draw(4); break;
    case 2:
        value = draw((uint32_t)f->size);
        n = 8;
        break;
    case 3:
        if (at + n > f->size || other + n > f->size) return;
        memmove(f->bytes + at, f->bytes + other, n);
        return;
    default: f->bytes[at] ^= (uint8_t)(1u << draw(8)); return;
    }
    if (n <= 8 && at + n <= f->size) memcpy(f->bytes + at, &value, n);
}

// What the library keeps for itself, which it reads first, in half of the inputs; else the values, and the file's length.
static void try_one(void) {
    static form good[FORMS];
    image_file f = {NULL, 0, 0};
    form *g = &good[draw(FORMS)];
    int is_new = !g->file.bytes;
    if (is_new) *g = make((int)(g - good));
    uint8_t first = (uint8_t)draw(2);
    image_add(&f, &first, 1);
    image_add(&f, g->file.bytes, is_new || draw(4) ? g->file.size : draw((uint32_t)g->file.size));
    if (is_new) {  // what is not spoiled is read: else nothing would be tried here
        int before = opened;
        LLVMFuzzerTestOneInput(f.bytes, f.size);
        MUST(opened == before + 1);
    }
    int structure = draw(2) == 0 && f.size > 1;
    for (uint32_t i = draw(4); i; i--) {
        int set = (int)draw(SETS);
        size_t at = g->size[set] ? 1 + g->at[set] + draw((uint32_t)g->size[set]) : f.size;
        uint8_t bit = (uint8_t)(1u << draw(8));
        if (structure)
            spoil(&f, 1, f.size - 1);
        else if (at < f.size)
            f.bytes[at] ^= bit;
    }
    LLVMFuzzerTestOneInput(f.bytes, f.size);
    free(f.bytes);
}

static int write_seeds(const char *folder) {
    for (int i = 0; i < 2 * FORMS; i++) {
        char name[512];
        image_file f = make(i / 2).file, whole = {NULL, 0, 0};
        uint8_t first = (uint8_t)(i % 2);
        snprintf(name, sizeof name, "%s/seed-%d", folder, i);
        image_add(&whole, &first, 1);
        image_add(&whole, f.bytes, f.size);
        free(f.bytes);
        if (image_save(whole, name)) continue;
        fprintf(stderr, "fuzz_hdf5: cannot write %s\n", name);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv) {
    static const fuzzer f = {"fuzz_hdf5", try_one, write_seeds};
    int status = fuzz_main(&f, argc, argv);
    printf("fuzz_hdf5: %d were read, and %d ended the library's process\n", opened, died);
    return status;
}

#endif
