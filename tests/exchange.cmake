# The tree, the optimizers, the communicators and the strategies.
ls_test(test_tree LABELS strategy)
ls_test(test_optim LABELS optim)
ls_test(test_comm HOSTS RANKS 1 2 5 TIMEOUT 300 LABELS comm)
ls_test(test_strategy HOSTS RANKS 1 2 3 4 5 8 TIMEOUT 300 LABELS strategy)
target_sources(test_strategy PRIVATE late/late.c)
