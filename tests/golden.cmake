ls_test(test_golden LABELS golden TIMEOUT 180)
target_compile_definitions(test_golden PRIVATE LS_GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
target_link_libraries(test_golden PRIVATE PkgConfig::JANSSON)

ls_test(test_golden_resnet LABELS golden TIMEOUT 180)
target_compile_definitions(test_golden_resnet PRIVATE LS_GOLDEN_DIR="${CMAKE_CURRENT_SOURCE_DIR}/golden")
target_link_libraries(test_golden_resnet PRIVATE PkgConfig::JANSSON)
