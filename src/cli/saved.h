// What training leaves behind: a checkpoint, the newest good one of a folder of checkpoints (<lockstep/checkpoint.h>), or a file of weights. Not
// collective.
#ifndef LS_CLI_SAVED_H
#define LS_CLI_SAVED_H

#include <stddef.h>
#include <stdint.h>

#include <lockstep/checkpoint.h>

struct json_t;

typedef struct cli_saved {
    ls_checkpoint *checkpoint;  // NULL: a file of weights alone
    const char *folder;         // the checkpoint's; NULL as above
    char *weights;              // the file of the weights
    struct json_t *state;       // state.json; NULL as above
} cli_saved;

// Finds, checks and reads it, all but the weights; of a folder of checkpoints that has a damaged newer one, this is said. What is there after a
// failure is for cli_saved_close, too. Errors: those of ls_checkpoint_find.
ls_status cli_saved_open(const char *path, cli_saved *out);
void cli_saved_close(cli_saved *saved);
// What the manifest says of a file: its bytes (-1: it has none of that name), and its SHA-256, "" where it is not told.
int64_t cli_saved_bytes(const cli_saved *saved, const char *file);
const char *cli_saved_digest(const cli_saved *saved, const char *file);
// Where training was, in words: "50 steps, 2 epochs", "62 steps, 2 epochs and 12 steps". 0 where it is not told.
int cli_saved_where(const cli_saved *saved, char *text, size_t size);
// What computed it, as "cpu: oneDNN 2.6.3, avx2"; NULL: it is not told.
const char *cli_saved_numerics(const cli_saved *saved);
// The recipe as ls_config_take reads it; NULL: there is none.
const struct json_t *cli_saved_recipe(const cli_saved *saved);
// The names of the table's columns that the network was trained on, NULL at the end; the list is the caller's to free, the names are not. NULL: it tells none,
// or there is no memory.
const char **cli_saved_columns(const cli_saved *saved);
// A number of state.json's "position", as "epoch" and "all_steps"; -1 where there is none.
int64_t cli_saved_position(const cli_saved *saved, const char *what);

#endif
