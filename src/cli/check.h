// lockstep check: what its files share. Each check fills one line: a status, what was found and, unless all is well, what to do.
// Every worker makes its own lines; worker 0 shows the worst of each and compares the workers' facts.
#ifndef LS_CLI_CHECK_H
#define LS_CLI_CHECK_H

#include "cli/cli.h"

typedef enum check_status { CHECK_OK, CHECK_WARN, CHECK_FAIL } check_status;

//    name          key in JSON      heading
#define CHECK_LIST(X)                                                                                                  \
    X(MPI, "mpi", "MPI")                                                                                               \
    X(LAUNCHER, "launcher", "Launcher")                                                                                \
    X(SLURM, "slurm", "Slurm")                                                                                         \
    X(KERNELS, "kernels", "Kernels")                                                                                   \
    X(BF16, "bf16", "bfloat16")                                                                                        \
    X(ACCELERATORS, "accelerators", "Accelerators")                                                                    \
    X(CORES, "cores", "Cores")                                                                                         \
    X(MEMORY, "memory", "Memory")                                                                                      \
    X(SHARED_MEMORY, "shared_memory", "Shared memory")                                                                 \
    X(BANDWIDTH, "memory_bandwidth", "Bandwidth")                                                                      \
    X(EXCHANGE, "exchange", "Exchange")                                                                                \
    X(DISK, "disk", "Disk")                                                                                            \
    X(OPEN_FILES, "open_files", "Open files")

enum {
#define CHECK_ENUM(name, key, heading) CHECK_##name,
    CHECK_LIST(CHECK_ENUM)
#undef CHECK_ENUM
        CHECK_COUNT
};

typedef struct check_line {
    int32_t status;  // a check_status
    char found[320], remedy[320];
} check_line;

// What workers are compared by, and what the table of workers shows. Numbers are 0 where the machine does not tell.
typedef struct check_facts {
    char host[64], cpu[96], kernels[96], mpi[96], version[32];
    char bound[64];                                            // the processors it computes on: "0-3"
    int32_t cores;                                             // of its own; 0: fewer cores than workers
    int32_t sharers;                                           // workers of its host
    int64_t memory;                                            // bytes of the host
    double clock;                                              // Hz, the processor's highest
    double bandwidth, bandwidth_per_core;                      // bytes per second
    double exchange;                                           // seconds per step
    double disk_write, disk_read, disk_random;                 // bytes per second, on one worker of each host
    int64_t memory_available, shm_total, shm_free, disk_free;  // bytes
} check_facts;

typedef struct check_worker {
    check_line line[CHECK_COUNT];
    check_facts facts;
} check_worker;  // goes between workers as bytes

typedef struct check {
    cli *cli;
    ls_context *context;   // the program's, or this process's alone where the job cannot be joined
    ls_context_info info;  // of it
    ls_topology *topology;
    check_worker mine;
} check;

// Fills a line; for CHECK_OK the remedy is NULL.
void check_say(check_line *line, check_status status, const char *remedy, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

// check_system.c: what this build and this machine are. Before the job is joined, by the process that speaks:
void check_launcher(check *c);
void check_slurm(check *c);
// Each worker. Not collective.
void check_mpi(check *c);
void check_kernels(check *c);
void check_accelerators(check *c);
void check_open_files(check *c);

// check_resources.c: cores, memory, disk. Not collective.
void check_cores(check *c);
void check_memory(check *c);
void check_shared_memory(check *c);
// check_leftovers.c: files of this user in /dev/shm that are of jobs and that no process has any more: how many, the first of their names, and their
// bytes. Not collective.
int check_leftovers(char *names, size_t size, int64_t *bytes);
// Before workers are started on this host. Errors: UNSUPPORTED (/dev/shm is too small for MPI itself).
ls_status check_shared_room(void);
void check_disk(check *c);  // by one worker of each host
// The host's last-level cache: its bytes, and how many processors share one of it. 0 where the system does not tell.
int64_t check_cache(int *sharers);
// What this host, or a control group this process is in, allows of memory; 0 where the system does not tell.
int64_t check_host_memory(void);

// check_speed.c: what has to be measured together. Collective.
ls_status check_bandwidth(check *c);
ls_status check_exchange(check *c);

// check_compare.c: in which the workers differ: at most `capacity` lines. Returns how many.
int check_compare(const check_worker *workers, int count, check_line *out, int capacity);

#endif
