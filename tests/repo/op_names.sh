# Operations are known by what their descriptors say: no file names one but those that are about that one (graph/ops/), that compute it
# (the devices' kernels), and the list of names.
set -eu
checks_tree() { # checks_tree TREE: prints the lines that name one
    (cd "$1" && find src -name '*.[ch]' | sort | grep -vE '^src/(graph/ops/|device/(ref|cpu|cuda)/|device/ops\.h$)' |
        xargs grep -nE '\bLS_OP_[A-Z0-9_]+' /dev/null |
        grep -oE '^[^:]+:[0-9]+:|\bLS_OP_[A-Z0-9_]+' | awk '
            /:$/ { at = $0; next }
            /^LS_OP_(CHOOSES_LAYOUT|WIDENS|RENAMES|RENAMES_IN_INFERENCE|RANDOM|MASKS_ITSELF|ROWS|ACTIVATES|DRAWS|UNIT_TARGETS|PICKS|WHOLE_NUMBERS|LIST|COUNT|ENUM)$/ { next }
            $0 == "LS_OP_INPUT" && at ~ /^src\/(graph\/graph|device\/device)\.c:/ { next }
            { print at " " $0; found = 1 }
            END { exit found }')
}
checks_tree . || { echo "describe what is special about the operation in its descriptor (graph/op.h)"; exit 1; }

# And it is able to say no.
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/graph/ops" "$tree/src/train"
echo 'int a = LS_OP_CONV2D | LS_OP_RANDOM;' >"$tree/src/graph/ops/a.c"
echo 'int b = LS_OP_RANDOM | LS_OP_COUNT;' >"$tree/src/train/b.c"
checks_tree "$tree" || { echo "refused what is allowed"; exit 1; }
for name in LS_OP_CONV2D LS_OP_INPUT LS_OP_RANDOM_CROP; do
    echo "int c = $name;" >"$tree/src/train/c.c"
    if checks_tree "$tree" >/dev/null; then
        echo "accepted $name in src/train/"
        exit 1
    fi
done
