// The version of these headers, and what is promised between versions (docs/packaging.md).
#ifndef LOCKSTEP_VERSION_H
#define LOCKSTEP_VERSION_H

// CMake reads these three lines: the library, its SONAME and the packages have their version here.
#define LS_VERSION_MAJOR 0
#define LS_VERSION_MINOR 1
#define LS_VERSION_PATCH 0

// Whether the headers are of this version or a later one, as in `#if LS_VERSION_AT_LEAST(0, 2, 0)`.
#define LS_VERSION_AT_LEAST(major, minor, patch)                                                                       \
    (LS_VERSION_MAJOR * 1000000 + LS_VERSION_MINOR * 1000 + LS_VERSION_PATCH >=                                        \
     (major)*1000000 + (minor)*1000 + (patch))

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

// The version of the library that the program runs with, as in "0.1.0". Never NULL. Any thread.
const char *ls_version(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
