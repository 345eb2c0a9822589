# The built-in networks, and weights in files.
ls_test(test_models LABELS models)
ls_test(test_weights LABELS train)
ls_test(test_weights_workers RANKS 1 2 3 LABELS train)
ls_test(fuzz/fuzz_weights LABELS train)
ls_test(test_weights_keras LABELS train)
ls_test(test_network_text LABELS models)
target_compile_definitions(test_network_text PRIVATE LS_NETWORKS="${PROJECT_SOURCE_DIR}/examples/networks")
ls_test(fuzz/fuzz_network LABELS models)
