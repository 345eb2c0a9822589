// HDF5's library, which is one thread's at a time.
#ifndef LS_DATA_HDF5_LIBRARY_H
#define LS_DATA_HDF5_LIBRARY_H

#include <lockstep/status.h>
#include <pthread.h>

// What a process of its own may take for an answer (base/aside.h).
enum {
#ifdef LS_FUZZ_LIBFUZZER
    LS__HDF5_SECONDS = 2,
    LS__HDF5_PATIENCE = 10,
#else
    LS__HDF5_SECONDS = 120,   // of computing: a file that goes round in circles
    LS__HDF5_PATIENCE = 600,  // seconds of sleeping: storage that is in trouble comes back in less
#endif
};
#define LS__HDF5_MEMORY ((int64_t)6 << 30)  // a piece of a packed data set has up to 4 GB

extern pthread_mutex_t ls__hdf5_library;  // held around all of its functions

// The library's own words for what has just failed, into `text` (size).
void ls__hdf5_why(char *text, size_t size);

#endif
