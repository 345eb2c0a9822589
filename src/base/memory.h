// Aligned memory, with large blocks on huge pages where the system gives them.
#ifndef LS_BASE_MEMORY_H
#define LS_BASE_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include <lockstep/status.h>

#define LS_ALIGN 64  // bytes: a cache line, and the widest vector

static inline int64_t ls_round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// What ls_memory_alloc takes for so many bytes, all of it in use at once: it is zeroed, and large blocks are whole huge pages.
int64_t ls_memory_size(int64_t bytes);
// `bytes` of zeroed memory aligned to LS_ALIGN. Errors: OUT_OF_MEMORY. The caller frees it with ls_memory_free.
ls_status ls_memory_alloc(int64_t bytes, void *out);  // out: a pointer to a pointer of any type
void ls_memory_free(void *pointer);                   // NULL is fine

// Zeroed array on the C heap; frees with free(). Errors: OUT_OF_MEMORY.
ls_status ls_calloc(int64_t count, int64_t size, void *out);

// A copy of a string on the C heap.
ls_status ls_strdup(const char *text, char **out);

int64_t ls_memory_peak_rss(void);  // bytes: the process's largest resident set so far
int64_t ls_memory_rss(void);       // bytes: its resident set now; 0 where the system does not tell

#endif
