# What `cmake --install` puts where: program, library, headers, a pkg-config file and a CMake package.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/lockstep)
install(TARGETS lockstep EXPORT lockstep-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(TARGET lockstep_program)
  install(TARGETS lockstep_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY include/lockstep DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT lockstep-targets NAMESPACE lockstep:: DESTINATION ${package_dir})

configure_package_config_file(cmake/lockstep-config.cmake.in ${PROJECT_BINARY_DIR}/lockstep-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/lockstep-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/lockstep-config.cmake ${PROJECT_BINARY_DIR}/lockstep-config-version.cmake
  DESTINATION ${package_dir})

# A static library needs what it is made with at every link, a shared one has it inside.
get_target_property(kind lockstep TYPE)
set(pc_private "")
if(kind STREQUAL SHARED_LIBRARY)
  set(pc_private ".private")
endif()
set(pc_libs "-lm")
if(LS_DNNL_ROOT)
  get_filename_component(dnnl_dir ${DNNL_LIBRARY} DIRECTORY)
  string(PREPEND pc_libs "-L${dnnl_dir} -Wl,-rpath,${dnnl_dir} ")
endif()
string(PREPEND pc_libs "-ldnnl ${OpenMP_C_FLAGS} -pthread ")
if(LS_WITH_MPI)
  foreach(library ${MPI_C_LIBRARIES})
    string(APPEND pc_libs " ${library}")
  endforeach()
endif()
file(RELATIVE_PATH pc_include /${CMAKE_INSTALL_LIBDIR}/pkgconfig /${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/lockstep.pc.in lockstep.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/lockstep.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
