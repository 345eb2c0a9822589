#!/bin/sh
# Networks as text, for all commands that take a network: the same bits as the built-in ones, and no other network's checkpoints.
. "$(dirname "$0")/lib.sh"

short="--limit-train 256 --limit-test 50 --epochs 1 --verbose 0"
digest() { # digest RECORD
    sed -n 's/^ *"weights_digest": "\(.*\)",*$/\1/p' "$1"
}
run 0 "$lockstep" models --export mnist-cnn
says "conv2d filters="
says "dense units=classes"
cp "$here/out" "$here/my.net"
run 0 "$lockstep" summary "$here/my.net"
says "Total params: 690,590"
run 0 "$lockstep" summary "$here/my.net" --image-size 32 --classes 7
run 0 "$lockstep" train mnist-cnn $short --record "$here/one.json"
run 0 "$lockstep" train "$here/my.net" $short --record "$here/two.json" --checkpoint "$here/kept"
[ -n "$(digest "$here/one.json")" ] && [ "$(digest "$here/one.json")" = "$(digest "$here/two.json")" ] ||
    wrong "the network out of a text trains to other bits"
grep -q '"network": "network mnist-cnn\\n' "$here/two.json" || wrong "the record has no text of the network"
run 0 "$lockstep" plan "$here/my.net" --batch-size 64

# Another network is not gone on with.
sed 's/activation=relu/activation=tanh/' "$here/my.net" >"$here/other.net"
cp "$here/other.net" "$here/my.net"
run 1 "$lockstep" train "$here/my.net" $short --epochs 2 --checkpoint "$here/kept" --resume
complains "network's layers (by their fingerprint)"

echo 'input 28x28x1
dense unit=3' >"$here/bad.net"
refuses 2 "bad.net:2:7: dense has no attribute 'unit' (did you mean units?)" "$lockstep" train "$here/bad.net"
refuses 2 "bad.net:2:7:" "$lockstep" summary "$here/bad.net"
refuses 2 "cannot read the network" "$lockstep" summary "$here/none.net"
finish
