# The embedded dataset.
ls_test(test_digits LABELS data)
