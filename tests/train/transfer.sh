#!/bin/sh
# What a frozen body knows from one dataset helps on another of which there is little: with a new head better after one epoch than the whole network from scratch after three.
# usage: transfer.sh LOCKSTEP
set -u
lockstep=$1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK 2>/dev/null

# accuracy WHAT OPTIONS...: trains resnet20, and prints its accuracy on the test set, in hundredths of a per cent.
accuracy() {
    what=$1
    shift
    "$lockstep" train resnet20 --batch-norm-momentum 0.9 --normalize dataset --verbose 2 "$@" >"$out/$what.log" 2>&1 || {
        echo "FAILED: $what" >&2
        cat "$out/$what.log" >&2
        exit 1
    }
    sed -n 's/^Test accuracy *\([0-9]*\)\.\([0-9]*\) %$/\1\2/p' "$out/$what.log" | sed 's/^0*\(.\)/\1/'
}
# (filled in)
