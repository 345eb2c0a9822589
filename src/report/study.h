// A scaling study: a folder with one record per run, and what is made of them. Reads run files only; knows nothing of how a
// run is started.
//
//     STUDY/study.json          what was asked for: models, worker counts, mode, repeats, epochs, the train options (format version)
//     STUDY/runs/NAME.json      one run's record (docs/records.md); NAME is MODEL-MODE-nNODES-wWORKERS-rREPEAT
//     STUDY/runs/NAME.log       what the run printed
//     STUDY/runs/NAME.failed    one sentence: why there is no record (crashed, timed out, refused)
//     STUDY/results.csv, results.md, index.html, charts/*.svg|png|gp|dat
#ifndef LS_REPORT_STUDY_H
#define LS_REPORT_STUDY_H

#include <lockstep/status.h>

#include <stdint.h>

#define LS_STUDY_FORMAT 1

// What a row lost against its base, by cause, as shares of its epoch's time: they add up to 1 - efficiency. All NAN: the records are of
// a version that did not measure it.
typedef struct ls_study_loss {
    double compute;      // forward and backward take longer: memory bandwidth or cores are shared
    double exchange;     // of gradients and weights, not hidden behind computing
    double wait;         // for the slowest replica of the host
    double input;        // for micro-batches
    double serial;       // the update, setting up, progress: what does not shrink with more workers
    double unexplained;  // in none of the phases
} ls_study_loss;

// One configuration of a study: its repeats put together. Times in seconds; medians over repeats, with least and most.
typedef struct ls_study_row {
    char model[64], mode[16], precision[8], strategy[32], data[64];  // mode: "strong" or "weak"
    int nodes, workers_per_node, workers, replicas_per_worker, threads_per_replica;
    int64_t parameters, global_batch, micro_batch;
    int repeats, failed;  // runs with and without a record
    int stopped;       // of those with a record: ended by their time limit, counted for their whole epochs' times only
    char reason[256];  // of the first failed one, or the first stopped one
    double read_seconds, step_seconds, total_seconds;
    double epoch_seconds, epoch_seconds_least,
        epoch_seconds_most;  // without each run's first epoch, where it has several
    double first_epoch_seconds;
    double images_per_second, test_loss, test_accuracy;  // NAN where no run was evaluated
    double load, forward, backward, exchange, update;    // per step, mean over replicas, of the epoch whose time counts
    double wait, serial;  // the same; NAN: the records do not tell, and exchange has the waiting in it
    int64_t steps;        // of an epoch
    ls_study_loss loss;
    double speedup,
        efficiency;  // against the fewest workers of the same model, mode, recipe, replicas and threads; 0: none
    int64_t peak_rss_bytes, planned_bytes;  // the latter 0 in records that do not tell
    char optimizer[32];                     // the recipe, of the first run
    int epochs;
    int64_t seed;
    char recipe[96];     // in what it differs from rows that look like it: "lr 0.01"; ""
    int oversubscribed;  // the records say that there were fewer cores than threads
    char digest[65];     // of the first run that was not stopped
    int digest_differs;  // strong scaling: another run of the same model ended with other weights
} ls_study_row;

typedef struct ls_study {
    char *title;         // for headings
    ls_study_row *rows;  // sorted by model, mode, nodes, workers
    int row_count;
    char host[256], versions[512];  // of the first record with the most workers
    char cpu[128],
        machine[512];    // of the study it is from: "2 cores, 25.3 GB of memory, network: eth0, 10000 Mbit/s"; or ""
    char programs[544];  // two that made runs, where not all were made by the same; else ""
    char *commands;      // what to type to do it again, one command a line; of single records theirs. NULL: unknown
} ls_study;

// Reads study folders and single run records together. Errors: NOT_FOUND, IO, BAD_DATA (a file that is no record, a study of
// another format version; says which file and what to do).
ls_status ls_study_load(const char *const *paths, int count, ls_study **out);
void ls_study_free(ls_study **study);

// results.csv and results.md in `folder`. Errors: IO (names the file).
ls_status ls_study_write_tables(const ls_study *study, const char *folder);
// The same tables as text for a terminal, to be freed with free().
ls_status ls_study_table_text(const ls_study *study, char **text);
// The charts in block characters, `width` columns wide, or in ASCII alone; to be freed with free(). Errors: OUT_OF_MEMORY.
ls_status ls_study_charts_text(const ls_study *study, int width, int utf8, char **text);
// Charts with gnuplot into folder/charts, each with its script and data beside it. Without gnuplot: UNSUPPORTED with a hint, the
// scripts and data are written all the same.
ls_status ls_study_write_charts(const ls_study *study, const char *folder);
// folder/index.html: one self-contained page, charts inlined where there are any.
ls_status ls_study_write_page(const ls_study *study, const char *folder);

#endif
