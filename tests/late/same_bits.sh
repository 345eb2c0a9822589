#!/bin/sh
# same_bits.sh LOCKSTEP_LATE MODEL [alone]: whole jobs on the device late have the weights and losses of device ref, on one worker and on several,
# in every precision, with every strategy, in several orders of what its queues do. alone: in one process only, for ThreadSanitizer.
set -u
lockstep=$1
model=$2
alone=${3:-}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK 2>/dev/null
failed=0
# The last step of an epoch is a short one with a smaller micro-batch.
recipe="--data digits --epochs 2 --batch-size 8 --micro-batch 2 --limit-train 19 --limit-test 40 --validate"
[ -n "$alone" ] && recipe="--data digits --epochs 1 --batch-size 4 --micro-batch 2 --limit-train 7 --limit-test 4"
[ "$model" = resnet20 ] &&
    recipe="--data shapes --epochs 1 --batch-size 8 --micro-batch 2 --limit-train 13 --limit-test 36 --optimizer sgd --lr 0.1 --momentum 0.9 --augment flip,crop"

# result NAME OPTIONS...: trains, and prints the digest and the exact losses.
result() {
    name=$1
    shift
    # shellcheck disable=SC2086 # the recipe is several words
    if ! "$lockstep" train "$model" $recipe --verbose 0 --record "$out/$name.json" "$@" >"$out/$name.log" 2>&1; then
        echo "FAILED: $name" >&2
        cat "$out/$name.log" >&2
        return 1
    fi
    grep -E '^ *"(weights_digest|train_loss|test_loss|test_accuracy)"' "$out/$name.json" | tr -d '\n'
}

# compare WORKERS REPLICAS STRATEGY OPTIONS...: late against $expected.
seed=0
compare() {
    seed=$((seed + 1))
    workers=$1 replicas=$2 strategy=$3
    shift 3
    got=$(LOCKSTEP_LATE_SEED=$seed result "late-$seed" --device late --workers "$workers" --replicas "$replicas" --strategy "$strategy" "$@") ||
        { failed=1; return; }
    if [ "$got" = "$expected" ]; then
        echo "ok: $workers workers x $replicas replicas, $strategy $*"
    else
        echo "DIFFERS: $workers workers x $replicas replicas, $strategy $*: $got, expected $expected" >&2
        failed=1
    fi
}

for precision in fp32 bf16; do
    expected=$(result "ref-$precision" --device ref --replicas 1 --precision $precision) || exit 1
    echo "$precision: $expected"
    compare 1 1 allreduce --precision $precision
    compare 1 2 allreduce --precision $precision
    compare 1 2 allreduce --precision $precision --bucket-size 0.02
    [ -n "$alone" ] && continue
    compare 2 1 allreduce --precision $precision
    compare 3 1 reduce-broadcast --precision $precision
    compare 2 2 allreduce --precision $precision --bucket-size 0.1
    compare 3 1 reduce-broadcast --precision $precision --bucket-size 0.3
    [ "$model" = resnet20 ] && continue
    compare 3 1 allreduce --precision $precision
    compare 2 2 reduce-broadcast --precision $precision
    compare 3 1 tree --precision $precision
    compare 4 1 tree --precision $precision --bucket-size 0.1
    compare 2 2 central --precision $precision
    compare 3 1 parameter-server --precision $precision
    compare 4 1 parameter-server --precision $precision --servers 2 --bucket-size 0.1
done
# Gradients in bf16.
expected=$(result ref-compress --device ref --replicas 1 --compress bf16) || exit 1
compare 1 2 allreduce --compress bf16
[ -n "$alone" ] || compare 3 1 reduce-broadcast --compress bf16 --bucket-size 0.3
expected=$(result ref-topk --device ref --replicas 1 --compress topk:0.1) || exit 1
compare 1 2 allreduce --compress topk:0.1
[ "$model" = resnet20 ] && exit $failed
# Norms, and what treats parts of the vector differently.
recipe="$recipe --optimizer lamb --weight-decay 0.01 --l2 0.001 --no-decay-biases --clip-norm 0.02 --label-smoothing 0.1"
expected=$(result ref-lamb --device ref --replicas 1) || exit 1
compare 1 2 reduce-broadcast
compare 1 2 allreduce --bucket-size 0.1
[ -n "$alone" ] || compare 2 1 allreduce
exit $failed
