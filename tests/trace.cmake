# Timelines: recorded, brought together over workers, summarized.
ls_test(test_trace LABELS train)
ls_test(test_timeline HOSTS RANKS 1 3 LABELS train)
if(TARGET lockstep_program)
  set(several_hosts "")
  if(LS_WITH_MPI AND NOT CMAKE_C_FLAGS_DEBUG MATCHES fsanitize)  # sanitizers have to be loaded first
    add_library(fake_hosts SHARED fake_hosts.c)
    target_link_libraries(fake_hosts PRIVATE MPI::MPI_C)
    ls_tests_targets(fake_hosts mpi train)
    set(several_hosts $<TARGET_FILE:fake_hosts>)
    add_test(NAME train.survivors COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/train/survivors.sh $<TARGET_FILE:lockstep_program>)
    add_test(NAME train.broken_exchange
      COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/train/broken_exchange.sh $<TARGET_FILE:lockstep_program> ${several_hosts})
    add_test(NAME train.compress
      COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/train/compress.sh $<TARGET_FILE:lockstep_program> ${several_hosts} ${MPIEXEC_EXECUTABLE})
    add_test(NAME train.strategies
      COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/train/strategies.sh $<TARGET_FILE:lockstep_program> ${several_hosts})
    add_test(NAME train.tune
      COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/train/tune.sh $<TARGET_FILE:lockstep_program> ${several_hosts})
    add_test(NAME train.async
      COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/train/async.sh $<TARGET_FILE:lockstep_program> ${several_hosts})
    add_test(NAME train.async_full
      COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/train/async.sh $<TARGET_FILE:lockstep_program> ${several_hosts} full)
    set_tests_properties(train.async train.async_full train.broken_exchange train.compress train.strategies train.survivors train.tune PROPERTIES LABELS "mpi;train" TIMEOUT 300 PROCESSORS 4)
    set_property(TEST train.async_full APPEND PROPERTY LABELS slow by_hand)
  endif()
  add_test(NAME cli.trace COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/trace.sh $<TARGET_FILE:lockstep_program> ${several_hosts})
  set_tests_properties(cli.trace PROPERTIES LABELS cli TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()
