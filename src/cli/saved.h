// What training leaves behind, found, checked and read: a checkpoint, the newest of a folder of checkpoints, or a file of weights.
//
//     CKPT/step-000001234/weights.safetensors   parameters, in Keras's names and shapes; other vectors beside them
//                         state.json            the recipe, as --config reads it, where training was, and how it went
//                         manifest.json         size and SHA-256 of each of these; written last: without it there is no checkpoint
//
// Not collective.
#ifndef LS_CLI_SAVED_H
#define LS_CLI_SAVED_H

#include <stddef.h>
#include <stdint.h>

#include <lockstep/status.h>

struct json_t;

typedef struct cli_saved {
    char *folder;             // of the checkpoint; NULL: a file of weights alone
    char *weights;            // the file of the weights
    struct json_t *state;     // state.json; NULL: a file alone
    struct json_t *manifest;  // the same of manifest.json
} cli_saved;

// Finds and reads it, all but the weights. Of several checkpoints the newest is the one with the most steps. What is there after a
// failure is for cli_saved_close, too. Errors: NOT_FOUND, IO, BAD_DATA (which file is damaged, and what to do), OUT_OF_MEMORY.
ls_status cli_saved_open(const char *path, cli_saved *out);
void cli_saved_close(cli_saved *saved);
// Whether a file of the checkpoint, "weights.safetensors", is as it was written; of a file alone there is nothing to hold it against.
// Reads all of it. Errors: NOT_FOUND, IO, BAD_DATA.
ls_status cli_saved_check(const cli_saved *saved, const char *file);
// What the manifest says of a file: its bytes (-1: it has none of that name), and its SHA-256, "" where it is not told.
int64_t cli_saved_bytes(const cli_saved *saved, const char *file);
const char *cli_saved_digest(const cli_saved *saved, const char *file);
// Where training was, in words: "50 steps, 2 epochs", "62 steps, 2 epochs and 12 steps". 0 where it is not told.
int cli_saved_where(const cli_saved *saved, char *text, size_t size);
// What computed it, as "cpu: oneDNN 2.6.3, avx2"; NULL: it is not told.
const char *cli_saved_numerics(const cli_saved *saved);
// The recipe as ls_config_take reads it; NULL: there is none.
const struct json_t *cli_saved_recipe(const cli_saved *saved);
// A number of state.json's "position", as "epoch" and "all_steps"; -1 where there is none.
int64_t cli_saved_position(const cli_saved *saved, const char *what);

#endif
