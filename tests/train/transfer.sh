#!/bin/sh
# Transfer between two embedded sets: a body that was trained on shapes, frozen, with a new head on a few hundred digits is better after one epoch than the same network from
# scratch after three. usage: transfer.sh LOCKSTEP
set -u
lockstep=$1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
accuracy() { sed -n 's/^ *"test_accuracy": \([0-9.]*\),*$/\1/p' "$out/$1.json"; }
# Digits in colour, as the body sees images.
"$lockstep" convert digits "tar:$out/train.tar,test=$out/test.tar" >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }
digits="tar:$out/train.tar,test=$out/test.tar,channels=3"
# train NAME OPTIONS...
train() {
    name=$1
    shift
    "$lockstep" train resnet20 "$@" --image-size 32 --normalize dataset --batch-norm-momentum 0.9 --batch-size 32 --verbose 0 \
        --record "$out/$name.json" >"$out/log" 2>&1 || { cat "$out/log"; exit 1; }
}
few="--limit-train 512 --limit-test 2000"
train body --data shapes --limit-train 6000 --limit-test 1000 --epochs 4 --lr 0.003 --save "$out/body.safetensors"
# shellcheck disable=SC2086 # options are words
train scratch --data "$digits" $few --epochs 3
# shellcheck disable=SC2086
train head --data "$digits" $few --epochs 1 --lr 0.02 --weights "$out/body.safetensors" --without-top --freeze 'conv*,bn*,res*'
echo "body on shapes: $(accuracy body); head on digits after one epoch: $(accuracy head); from scratch after three: $(accuracy scratch)"
awk -v a="$(accuracy head)" -v b="$(accuracy scratch)" 'BEGIN { exit !(a > b && b > 0) }'
