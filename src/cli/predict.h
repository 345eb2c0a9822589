// What is to be predicted: files, those of folders, and samples of datasets, with what came of each. predict_items.c; the command is cmd_predict.c.
#ifndef LS_CLI_PREDICT_H
#define LS_CLI_PREDICT_H

#include "cli/cli.h"

enum { PREDICT_MOST_DATASETS = 16 };

// A class that an image was taken for.
typedef struct predict_guess {
    int class;
    double probability;
} predict_guess;

// A file, or a sample of a dataset, and what came of it.
typedef struct predict_item {
    char *path;
    const ls_dataset *rows;  // the dataset; NULL: a file
    int test;                // of its test set
    int64_t sample;
    char *failure;           // why it was not predicted; NULL: it was
    predict_guess *guesses;  // (top), the most likely first; NULL: it was not
} predict_item;

// A dataset whose samples are predicted, and how it was named.
typedef struct predict_dataset {
    const char *spec;
    ls_dataset *dataset;
} predict_dataset;

typedef struct predict_list {
    predict_item *items;
    int count, room, failed;
    predict_dataset rows[PREDICT_MOST_DATASETS];  // what samples are of
    int rows_count;
    int alone;  // 1: one word named all of it, whose failure is the command's
} predict_list;

// Appends what the words name; `columns`: those of a table that the network was trained on, or NULL. What cannot be had is said, and stays in the list with its failure. Errors: those of a dataset that is alone, OUT_OF_MEMORY.
ls_status predict_list_words(predict_list *list, cli *c, const char *const *words, int count,
                             const char *const *columns);
// Whether a network whose input has this shape takes the samples of the datasets; those whose it does not become one item each, with the failure. Errors: as
// above.
ls_status predict_list_check(predict_list *list, ls_shape shape);
// An item keeps the sentence of the latest failure, which is said.
void predict_note(predict_list *list, predict_item *item);
// The field of a dataset that is predicted, and its number; NULL: there is none.
const ls_field *predict_field(const ls_dataset *dataset, int *at);
void predict_list_free(predict_list *list);

#endif
