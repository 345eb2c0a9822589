# The tree, the optimizers, the communicators and the strategies. Rank counts of the two last: see the files.
ls_test(test_tree LABELS strategy)
ls_test(test_optim LABELS optim)
