#!/bin/sh
# fp16_cpu.sh PROGRAM: on a processor with AVX512-FP16, with oneDNN 3: training in fp16 on the device cpu has the losses of the device ref nearly, and
# the same bits with any number of replicas and threads, and of workers where there is mpirun. By hand, some minutes; exit status 77 where the cpu refuses.
set -u
lockstep=$1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
failed=0

# result NAME OPTIONS...: trains, and leaves the record.
result() {
    name=$1
    shift
    "$lockstep" train "$@" --precision fp16 --no-evaluate --verbose 0 --record "$out/$name.json" 2>"$out/err" || {
        cat "$out/err" >&2
        return 1
    }
}
value() { sed -n "s/^ *\"$2\": \"*\([^\",]*\)\"*,*\$/\1/p" "$out/$1.json"; }

if ! result first mnist-mlp --data digits --limit-train 64 --epochs 1; then
    echo "the cpu device has no fp16 here: nothing to compare"
    exit 77
fi
grep '"device": "cpu: ' "$out/first.json"
# compare TOLERANCE NETWORK OPTIONS...: losses beside ref's, and digests of several layouts.
compare() {
    tolerance=$1 network=$2
    shift 2
    if ! { result ref "$network" --device ref "$@" --replicas 1 && result one "$network" "$@" --replicas 1 --threads 1; }; then
        echo "FAILED: $network"
        failed=1
        return
    fi
    theirs=$(value ref train_loss) ours=$(value one train_loss) expected=$(value one weights_digest)
    echo "$network: loss $ours, of ref $theirs; scale $(value one loss_scale), left out $(value one steps_skipped) and $(value ref steps_skipped)"
    awk -v a="$ours" -v b="$theirs" -v t="$tolerance" 'BEGIN { d = a - b; exit !(b > 0 && (d < 0 ? -d : d) <= t * b) }' || {
        echo "APART: $network by more than $tolerance"
        failed=1
    }
    for way in "--replicas 2 --threads 1" "--replicas 3 --threads 1" "--replicas 1 --threads 2" "--replicas 5 --threads 1" "--workers 2 --replicas 1" "--workers 3 --replicas 1"; do
        case $way in --workers*) command -v mpirun >/dev/null || continue ;; esac
        # shellcheck disable=SC2086 # options are words
        result other "$network" "$@" $way || failed=1
        [ "$(value other weights_digest)" = "$expected" ] || {
            echo "DIFFERS: $network $way"
            failed=1
        }
    done
}
small="--epochs 2 --batch-size 20 --micro-batch 4"
# shellcheck disable=SC2086
{
    compare 0.01 mnist-mlp --data digits $small --limit-train 400
    compare 0.02 mnist-cnn --data digits --epochs 1 --batch-size 20 --micro-batch 4 --limit-train 40 --loss-scale 128
    compare 0.02 resnet20 --data shapes --epochs 1 --batch-size 20 --micro-batch 4 --limit-train 40 --optimizer sgd --lr 0.01 --loss-scale 128
    compare 0.02 mobilenetv2 --data shapes --image-size 96 --epochs 1 --batch-size 16 --micro-batch 8 --limit-train 96 --optimizer sgd --lr 0.01 --loss-scale dynamic:4096
    compare 0.02 lstm --data roles --epochs 1 --batch-size 20 --micro-batch 4 --limit-train 40 --loss-scale 128
    compare 0.02 transformer-lm-mini --data sentences --epochs 1 --batch-size 10 --micro-batch 2 --limit-train 20 --loss-scale 128
}
[ $failed = 0 ] && echo "all alike"
exit $failed
