# Timelines: recorded, brought together over workers, summarized.
ls_test(test_trace LABELS train)
ls_test(test_timeline RANKS 1 3 LABELS train)
if(TARGET lockstep_program)
  add_test(NAME cli.trace COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/trace.sh $<TARGET_FILE:lockstep_program>)
  set_tests_properties(cli.trace PROPERTIES LABELS cli TIMEOUT 300 SKIP_RETURN_CODE 77 PROCESSORS 2)
endif()
