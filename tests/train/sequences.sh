#!/bin/sh
# The same bits for 1, 2, 3 and 5 workers: LSTMs, a GRU over masked sequences, transformers.
# usage: sequences.sh LOCKSTEP [full]; full: larger runs, in every precision this machine has
set -u
lockstep=$1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK 2>/dev/null
failed=0
size="--limit-train 22 --limit-test 5 --batch-size 20 --micro-batch 4"
precisions=fp32
if [ "${2:-}" = full ]; then
    size="--limit-train 1000 --limit-test 200 --batch-size 80 --micro-batch 8"
    precisions="fp32 bf16"
fi

# numbers NAME OPTIONS...: trains, and prints digest and losses.
numbers() {
    name=$1
    shift
    # shellcheck disable=SC2086 # options are words
    if ! "$lockstep" train "$@" $size --epochs 1 --replicas 1 --verbose 0 --record "$out/$name.json" >"$out/$name.log" 2>&1; then
        echo "FAILED: $name" >&2
        cat "$out/$name.log" >&2
        return 1
    fi
    grep -E '^ *"(weights_digest|train_loss|test_loss|test_accuracy|test_perplexity)"' "$out/$name.json" | tr -d '\n'
}

for precision in $precisions; do
    for network in "lstm-lm-mini --data sentences" "lstm --data roles" "gru --data roles" "transformer --data roles" "transformer-lm-mini --data sentences"; do
        # shellcheck disable=SC2086
        one=$(numbers one $network --precision $precision) || exit 1
        for workers in 2 3 5; do
            # shellcheck disable=SC2086
            other=$(numbers other $network --precision $precision --workers $workers) || exit 1
            [ "$one" = "$other" ] && continue
            echo "$network in $precision: 1 worker has $one, and $workers have $other" >&2
            failed=1
        done
        echo "$network $precision: $one"
    done
done
exit $failed
