# The commands that README.md and CONTRIBUTING.md show are there.
set -eu
for doc in README.md CONTRIBUTING.md; do
    # Commands stand in fenced blocks, one a line.
    blocks=$(awk '/^```/ {inside = !inside; next} inside' "$doc")
    for target in $(printf '%s\n' "$blocks" | sed -n 's/^make \([a-z][a-z]*\).*/\1/p' | sort -u); do
        grep -q "^$target:" Makefile || { echo "$doc shows 'make $target', which the Makefile does not have"; exit 1; }
    done
    for preset in $(printf '%s\n' "$blocks" | sed -n 's/.*--preset \([a-z0-9]*\).*/\1/p' | sort -u); do
        grep -q "\"name\": \"$preset\"" CMakePresets.json || { echo "$doc shows preset $preset, which CMakePresets.json does not have"; exit 1; }
    done
    for tool in $(grep -oE '(^|[^a-zA-Z/])(tools|tests|docs|bench|examples|src|include)/[a-zA-Z0-9_./-]*[a-zA-Z0-9_-]' "$doc" | sed -E 's/^[^a-z]//' | sort -u); do
        [ -e "$tool" ] || { echo "$doc names $tool, which is not there"; exit 1; }
    done
done
grep -q '^make demo' README.md
grep -q '^make check' README.md
