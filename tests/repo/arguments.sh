#!/bin/sh
# tests/test_arguments*.c call every function of the public headers.
set -eu
failed=0
count=0
for name in $(sed 's,//.*,,' include/lockstep/*.h | grep -oE '\bls_[a-z0-9_]+\(' | tr -d '(' | sort -u); do
    count=$((count + 1))
    grep -qE "\b$name\b" tests/test_arguments*.c tests/arguments.h || { echo "no tests/test_arguments*.c calls $name"; failed=1; }
done
[ $count -gt 120 ] || { echo "only $count functions found"; failed=1; }
exit $failed
