// A scaling study: a folder with one record per run, and what is made of them. Reads run files only; knows nothing of how a
// run is started.
//
//     STUDY/study.json          what was asked for: models, layouts, mode, repeats, epochs, the train options (format version)
//     STUDY/runs/NAME.json      one run's record (docs/records.md); NAME is MODEL-MODE-nNODES-wWORKERS-rREPEAT, with -vN before
//                               -rREPEAT where options are compared
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

// What a row's time is divided by, and so what its speedup and efficiency mean. Found in the numbers of the records, not in what a
// study was called: speedup is only between rows that do the same work.
typedef enum ls_comparison {
    LS_COMPARED_NOT,     // no other row did the same work with more or fewer workers
    LS_COMPARED_STRONG,  // the same batch, samples and recipe: the same steps, and the same weights in the end
    LS_COMPARED_BATCH,  // the same samples an epoch, and a batch that grows with the workers: fewer steps, other weights
    LS_COMPARED_WEAK,   // batch and samples grow with the workers: as many steps, other weights
    LS_COMPARISONS
} ls_comparison;
const char *ls_comparison_name(ls_comparison comparison);  // "strong", "batch per worker", "weak"; "" for none

// Where a step's time goes.
//   enum name   text        field of ls_study_row
#define LS_STUDY_PHASE_LIST(X)                                                                                         \
    X(LOAD, "load", load)                                                                                              \
    X(FORWARD, "forward", forward)                                                                                     \
    X(BACKWARD, "backward", backward)                                                                                  \
    X(EXCHANGE, "exchange", exchange)                                                                                  \
    X(WAIT, "wait", wait)                                                                                              \
    X(UPDATE, "update", update)                                                                                        \
    X(SERIAL, "serial", serial)
typedef enum ls_study_phase_kind {
#define LS_STUDY_PHASE_ENUM(name, text, field) LS_STUDY_PHASE_##name,
    LS_STUDY_PHASE_LIST(LS_STUDY_PHASE_ENUM)
#undef LS_STUDY_PHASE_ENUM
        LS_STUDY_PHASES
} ls_study_phase_kind;

// Of one epoch of a learning curve; NAN where it was not measured.
typedef struct ls_study_epoch {
    double loss, accuracy, val_loss, val_accuracy;
} ls_study_epoch;

// A layer in one of its passes, of a run with a trace.
typedef struct ls_study_layer {
    char name[96];
    double seconds, share;  // per step, all replicas together; of all layers' time
} ls_study_layer;
#define LS_STUDY_LAYERS 8

// A label of samples that have several, as a run found it on its test set. NAN: it is not known, or there is none.
enum { LS_STUDY_CURVE = 51 };
typedef struct ls_study_label {
    char name[64];
    int64_t samples;  // with the label
    double area, precision, recall;
    double curve[LS_STUDY_CURVE];  // true positive rates at false positive rates from 0 to 1
} ls_study_label;

// One configuration of a study: its repeats put together. Times in seconds; medians over repeats, with least and most.
typedef struct ls_study_row {
    char model[64], precision[8], strategy[32], data[64];
    int nodes, workers_per_node, workers, replicas_per_worker, threads_per_replica;
    int64_t parameters, global_batch, micro_batch, train_count, test_count;
    int repeats, failed;  // runs with and without a record
    int stopped;       // of those with a record: ended by their time limit, counted for their whole epochs' times only
    char reason[256];  // of the first failed one, or the first stopped one
    double read_seconds, total_seconds;
    double step_seconds;         // of the epoch whose time counts, over its steps: what the phases add up to
    double step_seconds_median;  // of all steps, which long ones weigh no more in than short ones
    double epoch_seconds, epoch_seconds_least,
        epoch_seconds_most;  // without each run's first epoch, where it has several
    double first_epoch_seconds;
    double images_per_second, test_loss, test_accuracy;  // NAN where no run was evaluated
    double test_top_5;                                   // NAN where there is none
    double load, forward, backward, exchange, update;    // per step, mean over replicas, of the epoch whose time counts
    double wait, serial;  // the same; NAN: the records do not tell, and exchange has the waiting in it
    int64_t steps;        // of an epoch; 0: the records do not tell
    ls_study_loss loss;
    ls_comparison compared;
    int base;                               // the row it is compared with, itself perhaps; -1: none
    double speedup, efficiency;             // against it; 0: none
    int64_t peak_rss_bytes, planned_bytes;  // the latter 0 in records that do not tell
    char optimizer[32];                     // the recipe, of the first run
    double rate;                            // the highest learning rate at the end of an epoch; NAN: unknown
    int epochs;
    int64_t seed;
    char recipe[96];                                    // in what it differs from rows that look like it: "lr 0.01"; ""
    int oversubscribed;                                 // fewer cores than threads: its time says nothing about scaling
    double until_accuracy, until_seconds, until_epoch;  // to the accuracy that was asked for; NAN: none, or not reached
    int curve, curve_epochs;                            // its epochs in ls_study.epochs, of the first run
    int labels, label_count;                            // its labels in ls_study.labels, of the first run; 0: none
    double test_area;                                   // the mean area under their ROC curves; NAN: none
    ls_study_layer layer[LS_STUDY_LAYERS];              // slowest first, of the first run
    int layer_count;                                    // 0: it had no trace
    char digest[65];                                    // of the first run that was not stopped
    char device[96];     // the kernel library and its instruction set, which the digest depends on
    int digest_differs;  // a run that did the same work, on the same device, ended with other weights
    int by_timing;       // asynchronous: its weights depend on who came first, and are compared with no one's
} ls_study_row;

typedef struct ls_study {
    char *title;         // for headings
    ls_study_row *rows;  // sorted by model, nodes, workers
    int row_count;
    ls_study_epoch *epochs;         // of all rows' learning curves
    ls_study_label *labels;         // of all rows
    char host[256], versions[512];  // of the first record with the most workers
    char cpu[128],
        machine[512];    // of the study it is from: "2 cores, 25.3 GB of memory, network: eth0, 10000 Mbit/s"; or ""
    char programs[544];  // two that made runs, where not all were made by the same; else ""
    char dates[64];      // of the records: "2026-01-31", "2026-01-30 to 2026-01-31"; or ""
    char *commands;      // what to type to do it again, one command a line; of single records theirs. NULL: unknown
} ls_study;

const char *ls_study_phase_name(ls_study_phase_kind phase);
double ls_study_phase(const ls_study_row *row, ls_study_phase_kind phase);  // seconds a step; NAN: not told
double *ls_study_phase_at(ls_study_row *row, ls_study_phase_kind phase);

// The efficiency that repeats leave possible: that of the slowest over the fastest base, and the reverse. 0 where one of both rows
// ran once: then nobody knows, and nothing may be said of differences.
int ls_study_efficiency_range(const ls_study *study, const ls_study_row *row, double *least, double *most);

// Reads study folders and single run records together. Errors: NOT_FOUND, IO, BAD_DATA (a file that is no record, a study of
// another format version; says which file and what to do).
ls_status ls_study_load(const char *const *paths, int count, ls_study **out);
void ls_study_free(ls_study **study);

// results.csv and results.md in `folder`. Errors: IO (names the file).
ls_status ls_study_write_tables(const ls_study *study, const char *folder);
// The same tables, and what the numbers say, as text for a terminal of so many columns, to be freed with free().
ls_status ls_study_table_text(const ls_study *study, int columns, char **text);
// The charts in block characters, `width` columns wide, or in ASCII alone; to be freed with free(). Errors: OUT_OF_MEMORY.
ls_status ls_study_charts_text(const ls_study *study, int width, int utf8, char **text);
// Charts with gnuplot into folder/charts, each with its script and data beside it. Without gnuplot: UNSUPPORTED with a hint, the
// scripts and data are written all the same.
// `slides`: also charts/slides.pdf, a page for each chart.
ls_status ls_study_write_charts(const ls_study *study, const char *folder, int slides);
// folder/index.html: one self-contained page, charts inlined where there are any.
ls_status ls_study_write_page(const ls_study *study, const char *folder);

#endif
