// Teams of OpenMP threads as large as they are asked for, whatever the environment says of OpenMP.
//
// A kernel's parallel region has all threads of its replica's team or is none, also where there is work for a few only: GCC's runtime ends the
// threads that a smaller region leaves out, and those that it starts for the next one are bound to no core of their own, but to that of the
// thread that starts them.
#ifndef LS_DEVICE_CPU_TEAM_H
#define LS_DEVICE_CPU_TEAM_H

#include <lockstep/status.h>

enum { LS_TEAM_MOST = 1024 };  // threads: more than any machine has cores; far more would not even start

// The calling thread's teams are as large as a loop asks for, and of one thread where it does not say, as the kernel library's do not
// (conv2d_parts.h says why): settings of the environment that would make them smaller, and that a program can change, are changed.
void ls__team_set(void);
// Until the next call, teams of the calling thread that do not say their size have this one: for the library by itself.
void ls__team_allow(int threads);
// The calling thread's number in its team; 0 outside.
int ls__team_index(void);
// Does so and tries it with `threads`: kernels are planned for that many threads, and with fewer they would wait for the others for ever.
// Errors: INVALID_ARGUMENT (too many), UNSUPPORTED (the runtime gives fewer; names what in the environment is to be changed),
// OUT_OF_MEMORY (the system starts no more threads).
ls_status ls__team_check(int threads);

#endif
