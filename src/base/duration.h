// Time spans in words, as Slurm reads them.
#ifndef LS_BASE_DURATION_H
#define LS_BASE_DURATION_H

#include <stddef.h>

#include <lockstep/status.h>

// Seconds from "M", "M:S", "H:M:S", "D-H", "D-H:M" or "D-H:M:S". Errors: INVALID_ARGUMENT (also for nothing at all).
ls_status ls_duration_parse(const char *text, double *seconds);

// "9 s", "1:05 min", "1:15:00 h"; returns the buffer.
const char *ls_duration_text(double seconds, char buffer[32]);

#endif
