# The program, its options and its records.
ls_test(test_options LABELS cli)
ls_test(test_record LABELS report)
ls_test(test_metrics LABELS report)
ls_test(test_survivors LABELS cli)
target_sources(test_survivors PRIVATE ${PROJECT_SOURCE_DIR}/src/cli/survivors.c)

# tests/cli/*.sh, all of the program from outside. Those that compute most of their time, on several processes, use both cores; others wait.
if(TARGET lockstep_program)
  if(LS_WITH_MPI)
    set(by_hand ${PROJECT_SOURCE_DIR}/tools/mpirun ${MPIEXEC_EXECUTABLE})
  endif()
  foreach(name usage refusals workers output metrics time_limit launch signals check plan big_nodes subcommands environment manuals documents checkpoint evaluate inspect networks fp16)
    add_test(NAME cli.${name} COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/${name}.sh $<TARGET_FILE:lockstep_program> ${by_hand})
    set_tests_properties(cli.${name} PROPERTIES LABELS cli TIMEOUT 600 SKIP_RETURN_CODE 77)
  endforeach()
  # Without MPI's launcher. LOCKSTEP_TEST_ALL=1 in the environment: more workers, all strategies, a death on one host, too.
  add_test(NAME cli.hosts COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/hosts.sh $<TARGET_FILE:lockstep_program> ${by_hand})
  set_tests_properties(cli.hosts PROPERTIES LABELS cli TIMEOUT 600)
  add_test(NAME cli.predict COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/predict.sh $<TARGET_FILE:lockstep_program> $<TARGET_FILE:write_images>)
  set_tests_properties(cli.predict PROPERTIES LABELS cli TIMEOUT 600 SKIP_RETURN_CODE 77)
  set(several_hosts "")
  if(LS_WITH_MPI AND NOT CMAKE_C_FLAGS_DEBUG MATCHES fsanitize)  # as in trace.cmake
    set(several_hosts $<TARGET_FILE:fake_hosts>)
  endif()
  add_test(NAME cli.images COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/images.sh $<TARGET_FILE:lockstep_program>
    $<TARGET_FILE:write_folders> ${several_hosts})
  set_tests_properties(cli.images PROPERTIES LABELS cli TIMEOUT 600 PROCESSORS 4)
  add_test(NAME cli.data COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/data.sh $<TARGET_FILE:lockstep_program>
    $<TARGET_FILE:write_folders> ${several_hosts})
  set_tests_properties(cli.data PROPERTIES LABELS cli TIMEOUT 600 PROCESSORS 4)
  add_test(NAME cli.labels COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/labels.sh $<TARGET_FILE:lockstep_program> $<TARGET_FILE:write_xrays> ${by_hand})
  set_tests_properties(cli.labels PROPERTIES LABELS cli TIMEOUT 600 PROCESSORS 4)
  set_tests_properties(cli.evaluate PROPERTIES PROCESSORS 4)
  set_tests_properties(cli.workers cli.check cli.subcommands PROPERTIES PROCESSORS 4)
  set_property(TEST cli.subcommands APPEND PROPERTY LABELS dnnl)  # bench --layers searches its kernels
  set_property(TEST cli.time_limit APPEND PROPERTY LABELS slow)
  set_property(TEST cli.checkpoint APPEND PROPERTY LABELS slow)  # test_checkpoint and cli.subcommands are for the sanitizers
endif()
