# What other programs link: names, languages, ways to find it. The fixture is of examples/CMakeLists.txt.
if(LS_WITH_MPI)
  set(two_workers ${PROJECT_SOURCE_DIR}/tools/mpirun ${MPIEXEC_EXECUTABLE} 2)
endif()
find_program(LS_CXX NAMES $ENV{CXX} c++ g++ clang++)
find_program(LS_FORTRAN NAMES $ENV{FC} gfortran)
mark_as_advanced(LS_CXX LS_FORTRAN)
foreach(language C CXX Fortran)
  set(compiler ${CMAKE_C_COMPILER})
  if(language STREQUAL CXX)
    set(compiler ${LS_CXX})
  elseif(language STREQUAL Fortran)
    set(compiler ${LS_FORTRAN})
  endif()
  add_test(NAME packaging.${language} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/packaging/programs.sh ${language} "${compiler}"
    ${PROJECT_BINARY_DIR}/installed $<TARGET_FILE:lockstep> ${PROJECT_BINARY_DIR}/packaging-${language} ${CMAKE_C_COMPILER}
    ${CMAKE_COMMAND} ${PKG_CONFIG_EXECUTABLE} ${CMAKE_NM} ${two_workers})
  set_tests_properties(packaging.${language} PROPERTIES FIXTURES_REQUIRED installed TIMEOUT 120 LABELS packaging SKIP_RETURN_CODE 77)
endforeach()
add_test(NAME packaging.install COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/packaging/install.sh ${PROJECT_BINARY_DIR}
  ${PROJECT_BINARY_DIR}/packaging-install ${CMAKE_COMMAND} "${CMAKE_BUILD_TYPE}")
# After the other one: an installation is written down in the build folder.
set_tests_properties(packaging.install PROPERTIES FIXTURES_REQUIRED installed TIMEOUT 60 LABELS packaging)
add_test(NAME packaging.completion COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/packaging/completion.sh ${PROJECT_BINARY_DIR}/installed)
set_tests_properties(packaging.completion PROPERTIES FIXTURES_REQUIRED installed TIMEOUT 60 LABELS packaging)
