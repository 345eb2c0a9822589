# The embedded dataset, and the program that shows it: `cmake --build BUILD --target digits-sheet`.
ls_test(test_digits LABELS data)
add_executable(digits-sheet EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/digits-sheet.c)
target_include_directories(digits-sheet PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(digits-sheet PRIVATE lockstep)
# The clips that are made of it, for other systems: `cmake --build BUILD --target clips-raw`.
add_executable(clips-raw EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/clips-raw.c)
target_include_directories(clips-raw PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(clips-raw PRIVATE lockstep)
