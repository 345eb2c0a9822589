# Scaling studies: their files, and the command that makes them.
ls_test(test_study LABELS report)
if(TARGET lockstep_program AND LS_WITH_MPI)
  add_test(NAME cli.scale COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/scale.sh $<TARGET_FILE:lockstep_program>)
  set_tests_properties(cli.scale PROPERTIES LABELS "cli;slow" TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()
