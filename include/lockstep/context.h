// A context: who the workers of the job are, and how they agree.
#ifndef LOCKSTEP_CONTEXT_H
#define LOCKSTEP_CONTEXT_H

#include <lockstep/status.h>
#include <lockstep/version.h>

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ls_context ls_context;

// Joins the job: every worker an MPI launcher started, or this process alone when none did (no MPI is started then).
// Errors: UNSUPPORTED (a launcher this build's MPI does not understand), LIBRARY.
// Of an MPI that this starts the program itself makes no calls while trainers live, not between two steps either: exchange goes on there. A program that
// does trains with ls_train_config.early_forward = 0.
ls_status ls_context_create(ls_context **out);
// This process alone, whatever launcher has started it: for what one worker can find out. No MPI is started. Not collective.
// Errors: OUT_OF_MEMORY.
ls_status ls_context_create_alone(ls_context **out);
// The processes of an MPI communicator of the caller's: `mpi_comm` is the address of an MPI_Comm. MPI must have been started, with
// MPI_THREAD_FUNNELED at least (with MPI_THREAD_SERIALIZED exchange goes on behind backward, with MPI_THREAD_MULTIPLE behind the next forward, too), and is not ended here: destroy the context first. Messages go over a duplicate. Collective on it.
// Errors: INVALID_ARGUMENT (MPI was not started, or the communicator is MPI_COMM_NULL), UNSUPPORTED (the thread level; a library built
// without MPI), LIBRARY.
ls_status ls_context_create_with_comm(const void *mpi_comm, ls_context **out);

// A job without a launcher: each worker is started by hand or by whatever starts processes at a site, with the list of all and its own number
// in it, as TensorFlow's ClusterSpec has it. Workers talk over TCP.
//
// Everybody proves the key of the job to everybody, before anything else is read, and every frame carries a code that only who knows the
// key can make. What is sent is not encrypted: who can listen on the network can read weights and samples.
typedef struct ls_cluster {
    const char *
        hosts;  // "a:33562,b:33561": where each worker listens, worker 0 first; [::1]:33562 is IPv6. NULL: TF_CONFIG says it
    int task;  // which of them this process is, from 0; -1: TF_CONFIG says it
    const char *
        key_file;  // at least 16 bytes that all workers have alike, in a file that nobody else may read; NULL: LOCKSTEP_KEY
    double join_seconds;  // for which the others are waited for to come; 0: 300; < 0: for ever
    double link_seconds;  // after which a host that acknowledges nothing counts as gone; 0: 60
    // Told while others are waited for: who came and was sent away, and why. NULL: nobody.
    void (*note)(void *user, const char *sentence);
    void *user;
} ls_cluster;
void ls_cluster_init(ls_cluster *cluster);  // hosts NULL, task -1, the rest 0
// Joins such a job. Workers whose entries name the same host and that reach each other's memory share it, as under MPI. Collective: returns when
// all have come. Errors: INVALID_ARGUMENT (no list, a bad one, a task that is not in it, no key, a short one, a key file that others may read), NOT_FOUND
// (the file; a host's name; who has not come in time), IO (the address is taken, or not this machine's), MISMATCH (another key, another list, a
// task number twice), LIBRARY (somebody who had come has left), OUT_OF_MEMORY.
ls_status ls_context_create_cluster(const ls_cluster *cluster, ls_context **out);
// Leaves the job. Collective.
void ls_context_destroy(ls_context **context);
int ls_context_rank(const ls_context *context);  // 0 .. size-1; worker 0 is the one that speaks
int ls_context_size(const ls_context *context);
// Ends the whole job at once, for a failure only one worker has seen. Not collective. Does not return in an MPI job.
void ls_context_abort(ls_context *context, int exit_status);

typedef struct ls_context_info {
    int rank, size;              // this worker among all
    int host, hosts;             // its host among the hosts
    int local_rank, local_size;  // this worker among those of its host
    const char *communication;   // "Open MPI 4.1.4 ...", for people; owned by the context
} ls_context_info;
ls_context_info ls_context_describe(const ls_context *context);

// What programs that decide together need; all are collective, and only the main thread calls them.
//
// Nobody goes on alone: LS_OK when every worker passes LS_OK; else, on every worker, the status and sentence of the lowest rank that
// failed, with its host.
ls_status ls_context_agree(ls_context *context, ls_status mine);
// Every worker passes a line "key=value; ..." and all must be equal: MISMATCH names the first difference. `what` is for the sentence.
ls_status ls_context_check_equal(ls_context *context, const char *what, const char *line);
// `bytes` bytes of worker `root` for all.
ls_status ls_context_broadcast(ls_context *context, void *data, int64_t bytes, int root);
// `bytes` bytes of each worker, in rank order, for all: all is (size, bytes).
ls_status ls_context_gather(ls_context *context, const void *mine, void *all, int64_t bytes);
ls_status ls_context_barrier(ls_context *context);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
