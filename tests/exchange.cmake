# The tree, the optimizers, the communicators and the strategies. Rank counts of the two last: see the files.
ls_test(test_tree LABELS strategy)
ls_test(test_optim LABELS optim)
ls_test(test_comm RANKS 1 2 5 LABELS comm)
