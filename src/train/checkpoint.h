// Checkpoints from inside.
//   checkpoint.c        when they are taken, and which are kept
//   checkpoint_take.c   a snapshot of all workers' state, and the thread that writes it
//   checkpoint_state.c  where training is, as JSON
//   checkpoint_find.c   reading a folder: which is the newest good one
//   checkpoint_load.c   bringing a trainer there
#ifndef LS_TRAIN_CHECKPOINT_H
#define LS_TRAIN_CHECKPOINT_H

#include <jansson.h>
#include <lockstep/checkpoint.h>
#include <pthread.h>

#include "train/trainer_impl.h"

#define LS_CHECKPOINT_VERSION  1
#define LS_CHECKPOINT_STATE    "state.json"
#define LS_CHECKPOINT_MANIFEST "manifest.json"
#define LS_CHECKPOINT_NAME     64

// The vectors of a training: "weights", what its optimizer calls its state, and with topk "residual-0" and so on, of each micro-batch of a step.
int ls__checkpoint_vectors(const ls_trainer *trainer);  // how many
void ls__checkpoint_vector(const ls_trainer *trainer, int index, char name[LS_CHECKPOINT_NAME]);
// Those of them that are residuals: the micro-batches of a step, or 0.
int64_t ls__checkpoint_residuals(const ls_trainer *trainer);
// "weights.safetensors"
void ls__checkpoint_file(const char *vector, char name[LS_CHECKPOINT_NAME]);

// --- checkpoint_state.c ----------------------------------------------------------------------------------------------

// Where training is now: between two steps, or epochs. `sum`, (width): of the running epoch so far; recipe: a JSON object, or NULL. Not
// collective. The caller frees *out. Errors: INVALID_ARGUMENT (recipe is no JSON object), OUT_OF_MEMORY.
ls_status ls__state_write(const ls_trainer *trainer, const double *sum, const char *recipe, char **out);
// Brings the trainer's position and history there; its weights are not touched. Not collective. Errors: INVALID_ARGUMENT (it is of another
// training), BAD_DATA.
ls_status ls__state_apply(ls_trainer *trainer, const char *path, const json_t *state);

// --- checkpoint_find.c -----------------------------------------------------------------------------------------------

struct ls_checkpoint {
    char *path, *damaged;
    json_t *state, *manifest;
    char *text, *recipe;  // the state, and of it the recipe, as texts
};

// In a folder of checkpoints: each that has a manifest, newest first. The caller frees *out. Not collective. Errors: IO, OUT_OF_MEMORY.
typedef struct ls_checkpoint_entry {
    char name[LS_CHECKPOINT_NAME];
    int64_t all_steps;
    int epoch;     // that it goes on in
    int64_t step;  // of it that are done
    double score;  // ls_epoch_score of the epoch before; NAN: there is none
} ls_checkpoint_entry;
ls_status ls__checkpoints_list(const char *folder, ls_checkpoint_entry **out, int *count);

// --- checkpoint_take.c -----------------------------------------------------------------------------------------------

// A checkpoint on its way to the disk: worker 0's thread works on it from start to done.
typedef struct ls_checkpoint_job {
    char name[LS_CHECKPOINT_NAME];
    char *path, *beside;  // folder/name, folder/.name.part
    char *state;          // JSON
    int epoch;
    int64_t step;
    double score;  // ls_epoch_score of the epoch before; NAN
    double begun, pause;
    // what came of it
    int64_t bytes;
    double seconds;
    ls_status status;
    char sentence[1024];
} ls_checkpoint_job;

typedef struct ls_checkpointer {
    ls_checkpoint_config config;
    char *folder, *keep_epochs, *recipe;  // what config points to
    int vectors;
    int64_t length;       // floats of a vector
    ls_shared *snapshot;  // (vectors, length), of the first host's workers
    ls_params *params;    // worker 0: the places, with kernels that only its thread runs
    double taken;         // ls_clock() of the latest
    int64_t looked;       // steps that there were when it was looked last whether one is due
    int fresh;            // 1: nothing was done since the latest
    ls_checkpoint_job job;
    int busy;  // 1: the job is not done with, as far as the main thread has seen
    pthread_t thread;
    _Atomic int done;  // by the thread
    ls_status failed;  // of the latest that could not be written
    char failure[1024];
    ls_checkpoint_costs costs;
    ls_checkpoint_entry *entries;  // worker 0: what is in the folder, oldest first
    int entry_count;
} ls_checkpointer;

// Copies all state that is asked for to the snapshot; on return it is there. Collective.
ls_status ls__snapshot_take(ls_trainer *trainer);
// Worker 0: starts to write it, with the job's name, path and state. Errors: OUT_OF_MEMORY.
ls_status ls__snapshot_write(ls_trainer *trainer);
// Worker 0: waits for the thread.
void ls__snapshot_join(ls_trainer *trainer);
// Removes a folder of a checkpoint's files, as far as they are.
void ls__checkpoint_clear(const char *path);
// Removes a checkpoint, or what is left of one, in such a way that nobody ever finds half of it.
void ls__checkpoint_remove(const char *folder, const char *name);

#endif
