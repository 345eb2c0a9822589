# What ThreadSanitizer runs (ctest --preset tsan): code that has threads of its own. One process each, because it cannot
# see one process release what another one waits for. (This file is included last, by its name.)
set(tests test_base test_loader test_feeds test_trainer test_fit test_trace)
if(LS_WITH_MPI)
  list(APPEND tests test_strategy.np1)
endif()
set_property(TEST ${tests} APPEND PROPERTY LABELS tsan)
