#!/bin/sh
# Networks that draw: the same weights, losses and pictures for 1, 2, 3 and 5 workers: an auto-encoder with noise on what it sees, a variational one, one of
# clips whose convolutions are 3D, two networks in turn, and two that grow.
# usage: drawing.sh LOCKSTEP [full]; full: larger runs, in every precision this machine has
set -u
lockstep=$1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK 2>/dev/null
failed=0
size="--data synthetic:12x12x1,10,40,10 --batch-size 20 --micro-batch 4 --epochs 1 --replicas 1"
clip_size="--data moving-digits --limit-train 20 --limit-test 5 --batch-size 10 --micro-batch 2 --epochs 1 --replicas 1"
precisions=fp32
if [ "${2:-}" = full ]; then
    size="--data digits --limit-train 800 --batch-size 80 --micro-batch 8 --epochs 2 --replicas 1"
    clip_size="--data moving-digits --limit-train 160 --limit-test 40 --batch-size 40 --micro-batch 8 --epochs 2 --replicas 1"
    precisions="fp32 bf16"
fi

# numbers NETWORK WORKERS PRECISION OPTIONS...: trains, and prints what it said and a sum of the pictures.
numbers() {
    network=$1
    workers=$2
    precision=$3
    shift 3
    rm -rf "$out/pictures"
    [ "$network" = gan ] || [ "$network" = grown ] && command=gan || command="train $network --verbose 2"
    [ "$network" = frame-prediction ] && sizes=$clip_size || sizes=$size
    [ "$workers" = 1 ] || set -- --workers "$workers" "$@"
    # shellcheck disable=SC2086 # options are words
    if ! "$lockstep" $command $sizes --precision "$precision" --samples "$out/pictures" "$@" >"$out/log" 2>&1; then
        echo "FAILED: $network" >&2
        cat "$out/log" >&2
        return 1
    fi
    grep -oE 'Weights digest .*|loss: [0-9.]+|Test loss .*' "$out/log"
    for picture in "$out"/pictures/epoch-000*.png; do sha256sum <"$picture" || return 1; done
}

for precision in $precisions; do
    for network in autoencoder vae frame-prediction gan grown; do
        noise=
        [ $network = autoencoder ] && noise="--noise 0.3"
        [ $network = grown ] && noise="--grow 2 --epochs 2"
        one=
        for workers in 1 2 3 5; do
            # shellcheck disable=SC2086
            this=$(numbers $network "$workers" "$precision" $noise) || exit 1
            [ -n "$one" ] || one=$this
            [ "$one" = "$this" ] && continue
            echo "$network in $precision: 1 worker has $one, and $workers have $this" >&2
            failed=1
        done
        echo "$network $precision: $one"
    done
    noisy=$(numbers autoencoder 1 "$precision" --noise 0.3) || exit 1
    [ "$(numbers autoencoder 1 "$precision")" != "$noisy" ] || { echo "noise changes nothing" >&2; failed=1; }
done

# Images of one channel have two names in the kernel library, and once which was met first in a process decided about kernels in bf16.
if one=$(numbers grown 1 bf16 --grow 2 --epochs 2 2>&1); then
    two=$(numbers grown 2 bf16 --grow 2 --epochs 2) || exit 1
    [ "$one" = "$two" ] || { echo "grown in bf16: 1 worker has $one, and 2 have $two" >&2; failed=1; }
else
    grep -q "needs a CPU with native bfloat16" "$out/log" || { echo "$one" >&2; failed=1; }
fi

# Both losses of the variational one are told; and what it cannot draw.
# shellcheck disable=SC2086
"$lockstep" train vae $size --validate --verbose 2 --record "$out/run.json" >"$out/log" 2>&1 || failed=1
grep -qE ' - reconstruction_loss: [0-9.]+ - kl_loss: [0-9.]+ .* - val_reconstruction_loss: [0-9.]+ - val_kl_loss: [0-9]' "$out/log" ||
    { echo "the display has not both losses" >&2; cat "$out/log" >&2; failed=1; }
grep -qE '^ +kl_loss: [0-9]' "$out/log" || { echo "the table has not both losses" >&2; failed=1; }
grep -A20 '"losses": \[' "$out/run.json" | grep -q '"name": "kl_loss"' || { echo "the record has not both losses" >&2; failed=1; }
# A loss scale is a power of two, which both of its losses have in their gradients and none in the weights.
# shellcheck disable=SC2086
for scale in 1 1024; do "$lockstep" train vae $size --loss-scale $scale 2>&1 | grep 'Weights digest' >"$out/scale$scale"; done
{ [ -s "$out/scale1" ] && cmp "$out/scale1" "$out/scale1024"; } || { echo "a loss scale changes the weights" >&2; failed=1; }
# shellcheck disable=SC2086
"$lockstep" train vae $size --normalize symmetric --samples "$out/pictures" >"$out/log" 2>&1 && failed=1
grep -q 'vae learns pixels by their binary cross-entropy, which is of numbers from 0 to 1' "$out/log" || { cat "$out/log" >&2; failed=1; }
exit $failed
