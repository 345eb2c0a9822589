# Charts and page of a study, and 'lockstep report'.
ls_test(test_report LABELS report)
ls_test(fuzz/fuzz_json LABELS report)
target_link_libraries(fuzz_json PRIVATE PkgConfig::JANSSON)
if(TARGET lockstep_program)
  add_test(NAME cli.report COMMAND sh ${CMAKE_CURRENT_SOURCE_DIR}/cli/report.sh $<TARGET_FILE:lockstep_program>)
  set_tests_properties(cli.report PROPERTIES LABELS cli TIMEOUT 300)
endif()
