# What holds for the repository itself: include directions, license, style, and that its documents tell the truth.
file(GLOB scripts CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/repo/*.sh)
foreach(script ${scripts})
  get_filename_component(name ${script} NAME_WE)
  add_test(NAME repo.${name} COMMAND sh ${script} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(repo.${name} PROPERTIES LABELS repo TIMEOUT 180 SKIP_RETURN_CODE 77)
endforeach()
