#!/bin/sh
# Gradients in bf16 on several hosts: the weights and losses of one worker, whoever sends what; another digest than without; and workers
# that were not asked for the same are refused.
# usage: compress.sh LOCKSTEP FAKE_HOSTS MPIEXEC
set -u
lockstep=$1 hosts=$2 mpiexec=$3
. "$(dirname "$0")/hosts.sh"

base="mnist-mlp --data digits --limit-train 500 --limit-test 50 --epochs 2 --batch-size 128 --micro-batch 16"
for options in "" "--clip-norm 0.05" "--optimizer lamb"; do
    recipe="$base $options"
    plain=$(digest 1 --replicas 1) || exit 1
    recipe="$recipe --compress bf16"
    expected=$(digest 1 --replicas 1) || exit 1
    [ "$plain" != "$expected" ] || { echo "$options: gradients in bf16 changed nothing" >&2; failed=1; }
    compare 1 --workers 1 --replicas 2
    compare 2 --workers 2 --replicas 1
    compare 3 --workers 3 --replicas 1 --strategy reduce-broadcast
    compare 3 --workers 5 --replicas 1
    compare 2 --workers 3 --replicas 2 --strategy reduce-broadcast --bucket-size 0.1
done

# With allreduce every host keeps the optimizer's state: what one job has written another one goes on with, whose hosts are others.
recipe="$base --compress bf16"
expected=$(digest 1 --replicas 1) || exit 1
compare 2 --workers 3 --replicas 2 --bucket-size 0.1
compare 2 --workers 3 --replicas 1 --bucket-size 0.1 --no-early-forward
compare 3 --workers 4 --replicas 1 --algorithm halving
digest 2 --workers 4 --replicas 1 --epochs 1 --checkpoint "$out/half" >/dev/null || failed=1
compare 3 --workers 3 --replicas 1 --checkpoint "$out/half" --resume

# The largest elements alone: the last step has fewer micro-batches. A checkpoint has what was left over: other workers go on with it.
recipe="mnist-mlp --data digits --limit-train 440 --limit-test 50 --epochs 2 --batch-size 128 --micro-batch 16"
plain=$(digest 1 --replicas 1) || exit 1
recipe="$recipe --compress topk:0.02"
expected=$(digest 1 --replicas 1) || exit 1
[ "$plain" != "$expected" ] || { echo "the largest gradients alone changed nothing" >&2; failed=1; }
compare 2 --workers 3 --replicas 2 --bucket-size 0.1
digest 2 --workers 2 --replicas 1 --epochs 1 --checkpoint "$out/checkpoints" >/dev/null || failed=1
compare 3 --workers 3 --replicas 1 --checkpoint "$out/checkpoints" --resume
# What is left over of eight micro-batches is not that of four.
if "$lockstep" train mnist-mlp --data digits --limit-train 440 --epochs 4 --batch-size 128 --micro-batch 32 --replicas 1 --compress topk --checkpoint "$out/branch" \
    --resume-from "$out/checkpoints" >"$out/log" 2>&1 || ! grep -q "compressed by topk with 8 micro-batches in a step, and here a step has 4" "$out/log"; then
    echo "residuals of other micro-batches were taken" >&2
    cat "$out/log" >&2
    failed=1
fi

# shellcheck disable=SC2086 # several words
timeout -k 5 60 "$(dirname "$0")/../../tools/mpirun" "$mpiexec" 1 "$lockstep" train $base --replicas 1 --compress bf16 : \
    -n 1 "$lockstep" train $base --replicas 1 >"$out/log" 2>&1
code=$?
if [ $code -eq 0 ] || [ $code -ge 124 ] || ! grep -q "compress=none" "$out/log" || ! grep -q "compress=bf16" "$out/log"; then
    echo "workers that were asked for different things: exit status $code" >&2
    cat "$out/log" >&2
    failed=1
fi
exit $failed
