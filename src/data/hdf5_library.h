// HDF5's library, which is one thread's at a time.
#ifndef LS_DATA_HDF5_LIBRARY_H
#define LS_DATA_HDF5_LIBRARY_H

#include <lockstep/status.h>
#include <pthread.h>

extern pthread_mutex_t ls__hdf5_library;  // held around all of its functions

// The library's own words for what has just failed, into `text` (size).
void ls__hdf5_why(char *text, size_t size);

#endif
