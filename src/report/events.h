// TensorBoard's event files: what TensorFlow's summary writers write, for scalars. A file is a run of records, each its length,
// data and both their CRC-32C ("TFRecord"); the data of each is a protobuf message Event.
#ifndef LS_REPORT_EVENTS_H
#define LS_REPORT_EVENTS_H

#include <stdint.h>

#include <lockstep/status.h>

typedef struct ls_events ls_events;

// Makes the folder, and those it is in, and a new file of its own in it. `wall_time`: seconds since 1970.
// Errors: IO (the path, the system's words), OUT_OF_MEMORY.
ls_status ls_events_create(const char *folder, double wall_time, ls_events **out);
// One point of the curve `tag`. It may stay in memory until the next flush. Errors: IO.
ls_status ls_events_scalar(ls_events *events, double wall_time, int64_t step, const char *tag, double value);
ls_status ls_events_flush(ls_events *events);  // Errors: IO
const char *ls_events_path(const ls_events *events);
// Closes the file; what was not flushed may be lost without a word.
void ls_events_destroy(ls_events **events);

#endif
