# What `cmake --install` puts where: program, libraries, headers, a pkg-config file, a CMake package, manuals, documents, examples.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
# MPI and oneDNN may live in folders of their own, which the installed files must still find.
set_target_properties(lockstep_shared PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE)
install(TARGETS lockstep_shared lockstep_static EXPORT lockstep-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET lockstep_program)
  set_target_properties(lockstep_program PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE)
  install(TARGETS lockstep_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
# Manual pages are made from the program's own help; completion asks it.
if(TARGET lockstep_program AND NOT CMAKE_CROSSCOMPILING)
  set(manuals ${PROJECT_BINARY_DIR}/manuals)
  add_custom_command(OUTPUT ${manuals}/man1/lockstep.1
    COMMAND ${PROJECT_SOURCE_DIR}/tools/manuals $<TARGET_FILE:lockstep_program> ${manuals}
    DEPENDS lockstep_program ${PROJECT_SOURCE_DIR}/tools/manuals VERBATIM)
  add_custom_target(lockstep_manuals ALL DEPENDS ${manuals}/man1/lockstep.1)
  install(DIRECTORY ${manuals}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR})
  install(PROGRAMS tools/completion/complete DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
  install(FILES tools/completion/lockstep.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lockstep)
  install(FILES tools/completion/_lockstep DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES tools/completion/lockstep.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
# The Fortran module, from the headers.
file(GLOB public_headers CONFIGURE_DEPENDS include/lockstep/*.h)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/lockstep.f90
  COMMAND sh -c "\"$@\" >lockstep.f90" sh ${PROJECT_SOURCE_DIR}/tools/fortran-module ${CMAKE_C_COMPILER} ${PROJECT_SOURCE_DIR}/include
  DEPENDS tools/fortran-module ${public_headers} WORKING_DIRECTORY ${PROJECT_BINARY_DIR} VERBATIM)
add_custom_target(lockstep_fortran ALL DEPENDS ${PROJECT_BINARY_DIR}/lockstep.f90)
install(FILES ${PROJECT_BINARY_DIR}/lockstep.f90 DESTINATION ${CMAKE_INSTALL_DATADIR}/lockstep)
# All that an installation takes, for presets that build little else.
add_custom_target(lockstep_package DEPENDS lockstep_shared lockstep_static lockstep_fortran)
if(TARGET lockstep_program)
  add_dependencies(lockstep_package lockstep_program lockstep_manuals)
endif()
install(EXPORT lockstep-targets NAMESPACE lockstep:: DESTINATION ${package_dir})

# Who links the static library needs what it was made of; the shared one has it inside. Packages that pkg-config knows, and options.
set(modules hwloc jansson libcrypto zlib libpng libjpeg lmdb hdf5)
set(options ${OpenMP_C_FLAGS})
if(NOT options STREQUAL -fopenmp)  # a word of one compiler's: its library instead
  set(options ${OpenMP_C_LIBRARIES})
endif()
list(APPEND options -pthread -lm)
if(LS_DNNL_ROOT)
  get_filename_component(dnnl_dir ${DNNL_LIBRARY} DIRECTORY)
  list(PREPEND options -L${dnnl_dir} -Wl,-rpath,${dnnl_dir} -ldnnl)
else()
  list(PREPEND options -ldnnl)
endif()
if(LS_WITH_MPI)
  list(APPEND options ${MPI_C_LIBRARIES})
endif()
list(JOIN modules " " pc_modules)
list(JOIN options " " pc_options)
file(RELATIVE_PATH pc_include /${CMAKE_INSTALL_LIBDIR}/pkgconfig /${CMAKE_INSTALL_INCLUDEDIR})
file(RELATIVE_PATH pc_fortran /${CMAKE_INSTALL_LIBDIR}/pkgconfig /${CMAKE_INSTALL_DATADIR}/lockstep)
foreach(name lockstep lockstep-static)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
set(fortran_module ${CMAKE_INSTALL_DATADIR}/lockstep/lockstep.f90)
configure_package_config_file(cmake/lockstep-config.cmake.in ${PROJECT_BINARY_DIR}/lockstep-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS fortran_module)
# As the SONAME has it: cmake/libraries.cmake.
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatible SameMinorVersion)
else()
  set(compatible SameMajorVersion)
endif()
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstep-config-version.cmake COMPATIBILITY ${compatible})
install(FILES ${PROJECT_BINARY_DIR}/lockstep-config.cmake ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
  DESTINATION ${package_dir})

# Documents keep their places beside each other, so that links from one to another lead somewhere.
install(FILES README.md CHANGES.md LICENSE packaging/debian/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR}
  PATTERN examples/CMakeLists.txt EXCLUDE PATTERN examples/try EXCLUDE)

# 'cpack' in the build folder makes a .deb (and a .tar.gz) of what is installed; docs/packaging.md has the other ways.
set(CPACK_PACKAGE_NAME lockstep)
set(CPACK_PACKAGE_VENDOR "the Lockstep authors")
set(CPACK_PACKAGE_CONTACT "the Lockstep authors <lockstep@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed deep-learning training in C, with the same bits on any number of workers")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin, gnuplot-nox")
set(CPACK_STRIP_FILES ON)
include(CPack)
