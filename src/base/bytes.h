// Amounts of memory in words.
#ifndef LS_BASE_BYTES_H
#define LS_BASE_BYTES_H

#include <stdint.h>

#include <lockstep/status.h>

// Bytes from "16G": a number, then K, M, G or T (powers of 1024, as Slurm's --mem has them) or nothing for bytes. Errors:
// INVALID_ARGUMENT (also for nothing at all, and for 0).
ls_status ls_bytes_parse(const char *text, int64_t *bytes);

// "512 B", "94.3 MB", "16.2 GB": powers of 1000; returns the buffer.
const char *ls_bytes_text(int64_t bytes, char buffer[32]);

#endif
