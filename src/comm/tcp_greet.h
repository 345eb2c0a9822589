// What a worker tells a peer that has proved itself: who it is, and the list it was started with.
#ifndef LS_COMM_TCP_GREET_H
#define LS_COMM_TCP_GREET_H

#include <lockstep/status.h>

#include <stddef.h>
#include <stdint.h>

// Workers of a host find each other by a beacon: an open file without a name that holds random bytes, which who shares the machine, its processes
// and the user's rights can read under /proc, and nobody else.
enum { LS_BEACON = 32 };

typedef struct ls__greeting {
    int64_t process, started;  // ls_watch_started()
    int32_t file, zero;        // the beacon's descriptor
    uint8_t beacon[LS_BEACON];
    char boot[40], name[64];  // of the machine: the number of its boot, its name
} ls__greeting;

// The payload of a greeting: the struct as it lies in memory, then the list (ls__list_text). The caller frees it. Errors: OUT_OF_MEMORY.
ls_status ls__greeting_write(const ls__greeting *mine, const char *list, uint8_t **out, int64_t *size);
// *list points into `text`, which ends with a zero at text[size]. Errors: BAD_DATA.
ls_status ls__greeting_read(const char *text, int64_t size, ls__greeting *out, const char **list);

#endif
