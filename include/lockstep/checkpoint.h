// Checkpoints: all that training goes on from, in a folder that is whole or is not there.
//
//     #include <lockstep/checkpoint.h>
//
//     // The weights of a training that nobody interrupted, however often it was ended and by however many workers it is gone on with.
//     ls_status train(ls_context *workers, ls_trainer *trainer) {
//         ls_checkpoint_config config;
//         ls_checkpoint_config_init(&config);
//         config.folder = "ckpt";
//         config.every_seconds = 300;
//         ls_checkpoint *newest = 0;
//         ls_status status = LS_OK;
//         if (ls_context_rank(workers) == 0) status = ls_checkpoint_find(config.folder, &newest);
//         if (status == LS_STATUS_NOT_FOUND) status = LS_OK;  // there is none yet
//         int found = newest != 0;
//         status = ls_context_agree(workers, status);
//         if (status == LS_OK) status = ls_context_broadcast(workers, &found, sizeof found, 0);
//         if (status == LS_OK && found) status = ls_trainer_resume(trainer, newest);
//         ls_checkpoint_close(&newest);
//         if (status == LS_OK) status = ls_trainer_checkpoints(trainer, &config);
//         if (status == LS_OK) status = ls_trainer_fit(trainer, 0);
//         return status;
//     }
//
// A folder of checkpoints has folders like epoch-0003, at the end of an epoch, and step-000001234, after that step of the whole
// training. In each of these (docs/checkpoints.md): weights.safetensors, the parameters under Keras's names and in Keras's shapes; a file
// like it for each vector of the optimizer's state; state.json, where training is, its log and its recipe; and manifest.json,
// length and SHA-256 of the others. One is written beside its place, to a name that begins with a dot, brought to the disk, and renamed.
#ifndef LOCKSTEP_CHECKPOINT_H
#define LOCKSTEP_CHECKPOINT_H

#include <lockstep/train.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// --- writing ---------------------------------------------------------------------------------------------------------

// A checkpoint that has been written, or could not be.
typedef struct ls_checkpoint_report {
    const char *path;  // its folder
    int epoch;         // that it goes on in
    int64_t step;      // steps of that epoch that are done
    int64_t bytes;     // of all its files
    double pause;      // seconds for which training stood still
    double seconds;    // from that on until it was on the disk
    ls_status status;  // IO, DIVERGED (a value in it is no finite number), OUT_OF_MEMORY
    const char *sentence;
} ls_checkpoint_report;

// When checkpoints are taken, and which are kept. ls_checkpoint_config_init sets every field to its default.
typedef struct ls_checkpoint_config {
    const char *folder;       // made where it is not there
    int64_t every_steps;      // after every so many steps of the whole training; 0 (the default): not by steps
    double every_seconds;     // so long after the one before; 0 (the default): not by time
    int every_epochs;         // after every so many epochs; 0: not by epochs; default 1
    int keep;                 // the newest so many; default 2
    const char *keep_epochs;  // and those after these epochs, "30,60,85"; NULL: none
    int keep_best;            // and the one after the epoch with the best ls_epoch_score, where training validates
    const char *recipe;       // a JSON object, which ls_checkpoint_recipe gives back; NULL: none
    // Called on worker 0, in its main thread, between two steps, for each that was written or could not be. Training goes on
    // without one that could not; the one before stays. NULL: nothing.
    void (*written)(void *user, const ls_checkpoint_report *report);
    void *user;
} ls_checkpoint_config;

void ls_checkpoint_config_init(ls_checkpoint_config *config);

// From now on the trainer takes checkpoints: as it is told to, after the last epoch, and where training is stopped in an epoch. What is
// there of a snapshot is copied between two steps, and a thread of worker 0 writes it while training goes on; one that is due
// meanwhile by time is taken later, one that is due by steps waits for that. Copies the texts of config; those of the caller may go. Collective. Errors: INVALID_ARGUMENT (which field),
// IO (the folder cannot be made or written to; it has checkpoints of another training already: resume, or name another),
// OUT_OF_MEMORY.
ls_status ls_trainer_checkpoints(ls_trainer *trainer, const ls_checkpoint_config *config);
// One now, whatever the configuration says, and until it is on the disk. Between two steps, or epochs. Collective. Errors: IO,
// DIVERGED, INVALID_ARGUMENT (ls_trainer_checkpoints was not called).
ls_status ls_trainer_checkpoint_now(ls_trainer *trainer);
// Waits until the latest is on the disk; the end of ls_trainer_fit does so too. Its status, the same on every worker. Collective.
ls_status ls_trainer_checkpoint_wait(ls_trainer *trainer);

// What checkpoints have cost so far, on worker 0.
typedef struct ls_checkpoint_costs {
    int written, failed;
    double pause;   // seconds for which training stood still for all of them
    int64_t bytes;  // of the latest
} ls_checkpoint_costs;
ls_checkpoint_costs ls_trainer_checkpoint_costs(const ls_trainer *trainer);  // not collective

// --- reading ---------------------------------------------------------------------------------------------------------

typedef struct ls_checkpoint ls_checkpoint;

// Opens the checkpoint `path`, or the newest good one in the folder of checkpoints `path`: every file is there with the length and
// the hash that the manifest says. Not collective. The caller closes it. Errors: NOT_FOUND (there is none), BAD_DATA (it is damaged, or all
// in the folder are: which file, and how), IO, UNSUPPORTED (of a newer version), OUT_OF_MEMORY.
ls_status ls_checkpoint_find(const char *path, ls_checkpoint **out);
void ls_checkpoint_close(ls_checkpoint **checkpoint);

// Owned by the checkpoint, valid until it is closed.
const char *ls_checkpoint_path(const ls_checkpoint *checkpoint);  // its folder
const char *ls_checkpoint_damaged(
    const ls_checkpoint *checkpoint);  // a sentence about a newer one that is damaged; "": none is
const char *ls_checkpoint_recipe(
    const ls_checkpoint *checkpoint);  // the JSON object it was written with; "{}": there is none
const char *ls_checkpoint_numerics(
    const ls_checkpoint *checkpoint);                         // what computed it: "cpu: oneDNN 2.6.3, avx512_core_bf16"
int ls_checkpoint_epoch(const ls_checkpoint *checkpoint);     // that it goes on in, from 1
int64_t ls_checkpoint_step(const ls_checkpoint *checkpoint);  // steps of that epoch that are done
int64_t ls_checkpoint_all_steps(const ls_checkpoint *checkpoint);  // steps of the whole training that are done

const char *ls_checkpoint_state(const ls_checkpoint *checkpoint);  // state.json, as one line
const char *ls_checkpoint_file(const ls_checkpoint *checkpoint,
                               int index);  // the name of its index-th file; NULL past the last
// What its manifest says of a file, as "weights.safetensors": its length, -1 where there is none, and its SHA-256, "" where there is none.
int64_t ls_checkpoint_file_bytes(const ls_checkpoint *checkpoint, const char *file);
const char *ls_checkpoint_file_digest(const ls_checkpoint *checkpoint, const char *file);

// Brings a trainer of the same network and optimizer, whatever its workers, replicas and strategy are, to where the checkpoint is: weights, the
// optimizer's state, epoch, step, and the results so far. Worker 0's checkpoint counts; the others may pass NULL. Before
// the first epoch is begun. Collective. Errors: INVALID_ARGUMENT (it is of another network, optimizer, dataset, or in the middle of an
// epoch of another shape: which), BAD_DATA, IO, OUT_OF_MEMORY; after the latter three the trainer is not to be used.
ls_status ls_trainer_resume(ls_trainer *trainer, const ls_checkpoint *checkpoint);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
