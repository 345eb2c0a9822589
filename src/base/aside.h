// Work in a process of its own (fork, no exec), for libraries that were not written for damaged files: where one crashes, or never comes back, that process
// ends and this one goes on with a sentence.
//
// The process lives until it is destroyed, and answers one question after the other: who asks writes the question into memory that both share, and finds
// the answer there. It goes when its parent goes, however that ends and whatever it does then. It does not hear what is sent to a
// whole group of processes (Ctrl-C, a scheduler's SIGTERM): its parent decides when all is over.
#ifndef LS_BASE_ASIDE_H
#define LS_BASE_ASIDE_H

#include <lockstep/status.h>
#include <stdint.h>

typedef struct ls_aside ls_aside;

// Runs in the other process, with a copy of what `user` was when it was created: answers what `shared` asks. A failure has a sentence, as everywhere.
typedef ls_status (*ls_aside_fn)(void *user, void *shared);

typedef struct ls_aside_options {
    ls_aside_fn fn;
    void *user;
    const char *path, *library;  // for sentences: the file, and what reads it ("the HDF5 library"); copied
    int64_t bytes;               // of the memory that is shared, zeroed at first
    int seconds;                 // of computing that an answer may take; waiting does not count
    int patience;  // seconds that it may sleep without computing anything; waiting for a disk (state D, in which nobody can end it) does not count
    int64_t memory;           // bytes of memory that the process may take beyond what it begins with
    int keep[2], keep_count;  // descriptors that stay open in the process, for fn
} ls_aside_options;

// Starts the process, again where it hangs at its start. No other thread of this one may be in the library meanwhile: what it holds stays held there, and an answer never comes. Errors: OUT_OF_MEMORY.
ls_status ls_aside_create(const ls_aside_options *options, ls_aside **out);
void ls_aside_destroy(ls_aside **aside);
// The memory that is shared: (bytes), aligned to a page. What the other process has written there is to be checked as what is read of a file.
void *ls_aside_memory(const ls_aside *aside);
// Asks, and waits for the answer; one thread at a time. Errors: what fn returns; BAD_DATA, with the file, where the process has died, IO where it was ended
// because it slept, then and ever after.
ls_status ls_aside_ask(ls_aside *aside);

#endif
