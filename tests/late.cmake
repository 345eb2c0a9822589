# The program with the device `late` (tests/late/late.h): what trains on it has the bits of device ref.
if(TARGET lockstep_program)
  add_executable(lockstep_late ${cli_sources} late/late.c)
  target_include_directories(lockstep_late PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  get_target_property(late_definitions lockstep_program COMPILE_DEFINITIONS)
  target_compile_definitions(lockstep_late PRIVATE ${late_definitions})
  target_link_libraries(lockstep_late PRIVATE lockstep PkgConfig::JANSSON PkgConfig::HWLOC Threads::Threads m)
  add_test(NAME late.resnet20
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/late/same_bits.sh $<TARGET_FILE:lockstep_late> resnet20)
  set_tests_properties(late.resnet20 PROPERTIES TIMEOUT 900 LABELS "train;mpi;slow" PROCESSORS 4)
  add_test(NAME late.threads
    COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/late/same_bits.sh $<TARGET_FILE:lockstep_late> mnist-cnn alone)
  set_tests_properties(late.threads PROPERTIES TIMEOUT 600 LABELS "train;slow;tsan" PROCESSORS 4)
  ls_tests_targets(lockstep_late tsan)
endif()
