#!/bin/sh
# The digests of docs/bits.md: short runs per network, precision and --isa. usage: digests.sh LOCKSTEP [OTHER_CACHES.so]; with the latter (see
# other_caches.c) each run is done again on a processor that seems to have other caches, and must give the same.
# LOCKSTEP_DATA: the folder with mnist/ and cifar-10-batches-py/.
set -u
lockstep=$1
other=${2:-}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
failed=0
: "${LOCKSTEP_DATA:?the folder with mnist/ and cifar-10-batches-py/}"

digest() {
    # shellcheck disable=SC2086 # the recipe is several words
    env "$@" "$lockstep" train $recipe --verbose 0 --no-evaluate --epochs 1 --record "$out/run.json" >"$out/log" 2>&1 || return 1
    sed -n 's/^ *"weights_digest": "\([0-9a-f]*\)".*/\1/p' "$out/run.json" | cut -c1-24
}

for network in ${LS_NETWORKS:-mnist-cnn resnet20 resnet50v2}; do
    case $network in
    mnist-cnn) of="mnist-cnn --data mnist:$LOCKSTEP_DATA/mnist --limit-train 2048 --batch-size 1024" ;;
    resnet20) of="resnet20 --data cifar10:$LOCKSTEP_DATA/cifar-10-batches-py --batch-size 128 --micro-batch 32 --limit-train 256 --optimizer sgd --lr 0.1" ;;
    resnet50v2) of="resnet50v2 --data cifar10:$LOCKSTEP_DATA/cifar-10-batches-py --image-size 64 --batch-size 16 --micro-batch 8 --limit-train 32 --optimizer sgd --lr 0.01" ;;
    esac
    for precision in fp32 bf16 fp16; do
        for isa in avx2 avx512 avx512-bf16 avx512-fp16 amx amx-fp16; do
            recipe="$of --precision $precision --isa $isa"
            if ! first=$(digest LS=1); then
                grep -q "native bfloat16\|avx512_fp16\|instruction set" "$out/log" || { cat "$out/log" >&2; exit 1; }
                continue
            fi
            same=""
            if [ -n "$other" ]; then
                got=$(digest LS_CACHES=32,256,8192 LD_PRELOAD="$other") || { cat "$out/log" >&2; exit 1; }
                same="the same with other caches"
                [ "$got" = "$first" ] || { same="DIFFERS with other caches: $got"; failed=1; }
            fi
            echo "$network $precision $isa $first $same"
        done
    done
done
exit $failed
