#!/bin/sh
# The same bits for any number of workers and replicas, for all strategies, in every precision this machine has, and with gradients in bf16.
# usage: same_bits.sh LOCKSTEP mnist-cnn [full]; full: two whole epochs at B = 1024, m = 128 (half an hour on two cores)
#        same_bits.sh LOCKSTEP resnet20 [full]   batch normalization, residual sums, augmentation, with and without --remat
#        same_bits.sh LOCKSTEP NETWORK [short]   of Keras or torchvision, a few steps on images of 32 x 32; short: one step, in fp32, 1, 2, 3 and 5 workers
set -u
lockstep=$1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK 2>/dev/null
model=$2
failed=0
if [ "$model" = resnet20 ]; then
    data=shapes
    [ -n "${LOCKSTEP_DATA:-}" ] && [ -d "$LOCKSTEP_DATA/cifar-10-batches-py" ] && data=cifar10:$LOCKSTEP_DATA/cifar-10-batches-py
    recipe="--limit-train 320 --limit-test 100 --epochs 1"
    [ "${3:-}" = full ] && recipe="--limit-train 10000 --limit-test 2000 --epochs 1"
    recipe="$recipe --batch-size 256 --micro-batch 64 --optimizer sgd --lr 0.1 --momentum 0.9 --schedule one-cycle --augment flip,crop"
elif [ "$model" != mnist-cnn ]; then
    data=shapes
    recipe="--image-size 32 --limit-train 96 --limit-test 32 --epochs 1 --batch-size 32 --micro-batch 4"
    [ "${3:-}" = short ] && recipe="--image-size 32 --limit-train 10 --limit-test 2 --epochs 1 --batch-size 10 --micro-batch 2"
    case $model in efficientnet*) recipe="$recipe --normalize none" ;; esac
else
    data=digits
    [ -n "${LOCKSTEP_DATA:-}" ] && [ -d "$LOCKSTEP_DATA/mnist" ] && data=mnist:$LOCKSTEP_DATA/mnist
    recipe="--limit-train 700 --limit-test 200 --batch-size 512 --micro-batch 64 --epochs 2"
    [ "${3:-}" = full ] && recipe="--batch-size 1024 --micro-batch 128 --epochs 2"
fi

# digest NAME OPTIONS...: trains, and prints the digest and the exact losses.
digest() {
    name=$1
    shift
    # shellcheck disable=SC2086 # the recipe is several words
    if ! "$lockstep" train "$model" --data "$data" $recipe --verbose 0 --record "$out/$name.json" "$@" >"$out/$name.log" 2>&1; then
        echo "FAILED: $name" >&2
        cat "$out/$name.log" >&2
        return 1
    fi
    grep -E '^ *"(weights_digest|train_loss|test_loss|test_accuracy)"' "$out/$name.json" | tr -d '\n'
}

# compare PRECISION WORKERS REPLICAS STRATEGY [OPTION[ VALUE]]
compare() {
    # shellcheck disable=SC2086 # no option is no word
    got=$(digest "$1-$2-$3-$4${5:-}" --precision "$1" --workers "$2" --replicas "$3" --strategy "$4" ${5:-}) || { failed=1; return; }
    if [ "$got" = "$expected" ]; then
        echo "ok: $1, $2 workers x $3 replicas, $4 ${5:-}"
    else
        echo "DIFFERS: $1, $2 workers x $3 replicas, $4 ${5:-}: $got, expected $expected" >&2
        failed=1
    fi
}

precisions="fp32 bf16"
[ "${3:-}" = short ] && precisions=fp32
for precision in $precisions; do
    if ! expected=$(digest "$precision-first" --precision $precision --replicas 1); then
        grep -q "needs a CPU with native bfloat16" "$out/$precision-first.log" && echo "SKIPPED: $precision (this CPU has none)" && continue
        exit 1
    fi
    echo "$precision: $expected"
    if [ "$model" = resnet20 ]; then
        compare $precision 1 2 allreduce
        compare $precision 1 1 allreduce --remat
        compare $precision 2 1 allreduce
        compare $precision 2 2 allreduce --remat
        compare $precision 1 2 allreduce "--bucket-size 0.04"
        compare $precision 2 2 reduce-broadcast "--bucket-size 0.3"
        compare $precision 3 1 reduce-broadcast
        compare $precision 4 1 allreduce
        compare $precision 3 1 tree
        compare $precision 3 1 parameter-server
        continue
    fi
    if [ "$model" != mnist-cnn ]; then
        compare $precision 3 1 reduce-broadcast
        compare $precision 2 1 allreduce
        compare $precision 5 1 allreduce
        [ "${3:-}" = short ] && continue
        compare $precision 1 2 allreduce --remat
        continue
    fi
    compare $precision 1 1 allreduce # a second time
    compare $precision 1 2 allreduce
    compare $precision 3 2 reduce-broadcast
    for workers in 2 3 4 5 8; do
        compare $precision $workers 1 allreduce
    done
    compare $precision 4 2 allreduce
    # In buckets, behind backward: down to the smallest, of one worker, of several, of a few that are uneven.
    compare $precision 1 2 allreduce "--bucket-size 0.001"
    compare $precision 2 1 allreduce "--bucket-size 1.1"
    compare $precision 3 2 allreduce "--bucket-size 0.2"
    compare $precision 2 2 reduce-broadcast "--bucket-size 0.5"
    compare $precision 2 1 reduce-broadcast
    compare $precision 5 1 reduce-broadcast
    compare $precision 1 2 mirrored
    compare $precision 3 2 central
    compare $precision 5 1 tree
    compare $precision 3 1 tree "--bucket-size 0.2"
    compare $precision 2 2 parameter-server
    compare $precision 4 1 parameter-server "--servers 2"
done
[ "$model" != mnist-cnn ] && exit $failed
# Gradients in bf16 are other bits, and the same for all.
plain=$(digest plain --precision fp32 --replicas 1) || exit 1
expected=$(digest compress-first --precision fp32 --replicas 1 --compress bf16) || exit 1
[ "$plain" != "$expected" ] || { echo "gradients in bf16 changed nothing" >&2; failed=1; }
recipe="$recipe --compress bf16"
compare fp32 1 2 allreduce
compare fp32 2 1 allreduce
compare fp32 3 1 reduce-broadcast
compare fp32 5 1 allreduce
compare fp32 2 2 allreduce "--bucket-size 0.2"
recipe=${recipe% --compress bf16}
# What looks at more than a lane's own slice, or treats parts of it differently.
recipe="$recipe --optimizer sgd --lr 0.1 --momentum 0.9 --momentum-correction --schedule one-cycle --clip-norm 0.02 --label-smoothing 0.1"
recipe="$recipe --weight-decay 0.01 --l2 0.001 --no-decay-biases --lr-scaling linear --warmup constant --warmup-epochs 0.5"
expected=$(digest recipe-first --precision fp32 --replicas 1) || exit 1
compare fp32 1 2 allreduce
compare fp32 3 1 allreduce
compare fp32 2 1 reduce-broadcast
compare fp32 2 2 allreduce "--bucket-size 0.2"
# Images at another size, changed at random and measured, each worker its share.
recipe="$recipe --data shapes --image-size 36 --augment flip,crop,cutout --normalize dataset --limit-train 300 --limit-test 100"
for precision in fp32 bf16; do
    expected=$(digest "images-$precision-first" --precision $precision --replicas 1) || continue
    compare $precision 1 2 allreduce
    compare $precision 2 1 allreduce
    compare $precision 3 1 reduce-broadcast
done
recipe="--limit-train 700 --limit-test 200 --batch-size 512 --micro-batch 64 --optimizer lamb --weight-decay 0.01 --l2 0.001 --clip-norm 0.02"
expected=$(digest lamb-first --precision fp32 --replicas 1) || exit 1
compare fp32 3 1 allreduce
compare fp32 1 2 reduce-broadcast
compare fp32 3 1 allreduce "--bucket-size 0.2"
# Another seed must not give the same: the comparison above can fail.
other=$(digest other --precision fp32 --replicas 1 --seed 43) || exit 1
[ "$other" = "$(digest same --precision fp32 --replicas 1)" ] && echo "another seed gave the same digest" >&2 && failed=1
exit $failed
