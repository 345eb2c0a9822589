# The tree, the optimizers, the communicators and the strategies.
ls_test(test_tree LABELS strategy)
ls_test(test_roles LABELS strategy)
ls_test(test_optim LABELS optim)
ls_test(test_comm HOSTS RANKS 1 2 5 TIMEOUT 300 LABELS comm)
ls_test(test_group HOSTS RANKS 1 2 3 5 TIMEOUT 300 LABELS comm)
ls_test(test_strategy HOSTS RANKS 1 2 3 4 5 8 TIMEOUT 300 LABELS strategy)
target_sources(test_strategy PRIVATE late/late.c)
# MPICH polls while it waits inside a call: more processes than cores take minutes with it, and try no other call than three do.
if(LS_WITH_MPI)
  set_property(TEST test_strategy.np5 test_strategy.np8 test_group.np5 APPEND PROPERTY LABELS crowded)
endif()
