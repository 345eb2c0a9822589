# What `cmake --install` puts where: program, library, headers, a pkg-config file and a CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
# MPI and oneDNN may live in folders of their own, which the installed files must still find.
set_target_properties(lockstep PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE)
install(TARGETS lockstep EXPORT lockstep-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET lockstep_program)
  set_target_properties(lockstep_program PROPERTIES INSTALL_RPATH_USE_LINK_PATH TRUE
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
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
  install(FILES tools/completion.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME lockstep)
endif()
install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT lockstep-targets NAMESPACE lockstep:: DESTINATION ${package_dir})

configure_package_config_file(cmake/lockstep-config.cmake.in ${PROJECT_BINARY_DIR}/lockstep-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstep-config.cmake ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
  DESTINATION ${package_dir})

# A static library needs what it is made with at every link, a shared one has it inside.
set(needs "-ldnnl ${OpenMP_C_FLAGS} -pthread -lm")
if(LS_DNNL_ROOT)
  get_filename_component(dnnl_dir ${DNNL_LIBRARY} DIRECTORY)
  string(PREPEND needs "-L${dnnl_dir} -Wl,-rpath,${dnnl_dir} ")
endif()
if(LS_WITH_MPI)
  list(JOIN MPI_C_LIBRARIES " " mpi_libraries)
  string(APPEND needs " ${mpi_libraries}")
endif()
get_target_property(kind lockstep TYPE)
if(kind STREQUAL SHARED_LIBRARY)
  set(pc_requires Requires.private)
  set(pc_libs_private "${needs}")
else()
  set(pc_requires Requires)
  set(pc_libs "${needs}")
endif()
file(RELATIVE_PATH pc_include /${CMAKE_INSTALL_LIBDIR}/pkgconfig /${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/lockstep.pc.in lockstep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

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
