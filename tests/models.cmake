# The built-in networks and their weights.
ls_test(test_models LABELS models)
