ls_test(test_options LABELS cli)
