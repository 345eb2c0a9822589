# Foundations, graphs, the reference device, and every other device against it.
ls_test(test_base LABELS base)
ls_test(test_philox LABELS base)
ls_test(test_graph LABELS graph)
ls_test(test_ref_gradients LABELS device)
ls_test(test_ops LABELS device TIMEOUT 120)
target_link_libraries(test_base PRIVATE Threads::Threads)
