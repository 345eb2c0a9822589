#!/bin/sh
# The examples in the public headers compile as they stand, and what the headers list is what there is.
set -eu
here=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-headers.XXXXXX")
trap 'rm -rf "$here"' EXIT
failed=0

# An example is an indented part of a header's first comment. It begins with an #include, so that it is whole.
for header in include/lockstep/*.h; do
    sed -n '/^\/\//!q; s,^//     ,,p; s,^//$,,p' "$header" >"$here/text"
    grep -q '[;{]$' "$here/text" || continue
    if ! head -n 3 "$here/text" | grep -q '^#include <lockstep/'; then
        echo "$header: its example does not begin with an #include"
        failed=1
    fi
    cp "$here/text" "$here/example.c"
    if ! ${CC:-cc} -std=c11 -Wall -Wextra -Werror -fsyntax-only -Iinclude "$here/example.c"; then
        echo "$header: its example does not compile"
        failed=1
    fi
    echo "$header" >>"$here/seen"
done
for header in data graph train; do
    grep -q "include/lockstep/$header.h" "$here/seen" || { echo "$header.h has no example"; failed=1; }
done

# Every dataset stands in the comment of ls_dataset_open.
sed -n '/^\/\/ Opens a dataset/,/^ls_status/p' include/lockstep/data.h >"$here/text"
for name in $(sed -n 's/^ *\.name = "\([a-z0-9-]*\)",$/\1/p' src/data/formats/*.c); do
    grep -q "\"${name}[:\"]" "$here/text" || { echo "data.h does not list the dataset $name"; failed=1; }
done
[ "$(sed -n 's/^ *\.name = "\([a-z0-9-]*\)",$/\1/p' src/data/formats/*.c | wc -l)" -ge 6 ] || { echo "no datasets found"; failed=1; }
exit $failed
