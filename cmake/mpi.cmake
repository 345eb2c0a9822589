# Which MPI this is, and its own launcher. Where Open MPI and MPICH are both installed, find_package(MPI) may name the
# launcher of the one and the library of the other.
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_LIBRARIES MPI::MPI_C)
check_c_source_compiles("
#include <mpi.h>
#ifndef OPEN_MPI
#error another MPI
#endif
int main(void) { return 0; }" LS_MPI_IS_OPEN_MPI)
unset(CMAKE_REQUIRED_LIBRARIES)

if(MPIEXEC_EXECUTABLE)
  execute_process(COMMAND ${MPIEXEC_EXECUTABLE} --version OUTPUT_VARIABLE launcher ERROR_VARIABLE launcher)
  if(launcher MATCHES "Open MPI|OpenRTE|Open RTE|PRRTE")
    set(launcher_is_open_mpi TRUE)
  else()
    set(launcher_is_open_mpi FALSE)
  endif()
endif()
if(NOT MPIEXEC_EXECUTABLE OR (LS_MPI_IS_OPEN_MPI AND NOT launcher_is_open_mpi) OR
   (NOT LS_MPI_IS_OPEN_MPI AND launcher_is_open_mpi))
  if(LS_MPI_IS_OPEN_MPI)
    find_program(LS_MPIEXEC NAMES mpiexec.openmpi mpirun.openmpi)
  else()
    find_program(LS_MPIEXEC NAMES mpiexec.mpich mpiexec.hydra mpirun.mpich)
  endif()
  if(LS_MPIEXEC)
    set(MPIEXEC_EXECUTABLE ${LS_MPIEXEC})
  endif()
endif()
message(STATUS "MPI launcher: ${MPIEXEC_EXECUTABLE}")
