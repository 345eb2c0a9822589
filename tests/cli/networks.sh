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
# A new head on a trained body, from letters to digits: the body stays as it is, and few samples are enough.
cat >"$here/small.net" <<'NET'
network small
classes 10
input 28x28x1
block stage filters
    c = conv2d filters=filters kernel_size=3 strides=2 padding=same no_bias
    n = batch_norm momentum=0.9
    relu
end
body1 = stage filters=16
body2 = stage filters=32
body3 = stage filters=64
top
global_average_pool2d
head = dense units=classes
NET
few="--limit-train 640 --limit-test 1000 --batch-size 16 --verbose 0"
accuracy() { sed -n 's/^ *"test_accuracy": \(.*\),*$/\1/p' "$1" | tr -d ,; }
run 0 "$lockstep" train "$here/small.net" --data letters --limit-train 6400 --epochs 3 --batch-size 64 --lr 0.1 --no-evaluate --verbose 0 \
    --save "$here/body.weights.h5"
run 0 "$lockstep" train "$here/small.net" $few --epochs 1 --lr 0.5 --weights "$here/body.weights.h5" --without-top \
    --freeze 'body*' --record "$here/transfer.json" --save "$here/after.weights.h5"
run 0 "$lockstep" train "$here/small.net" $few --epochs 3 --lr 0.1 --record "$here/scratch.json"
[ "$(echo "$(accuracy "$here/transfer.json") > $(accuracy "$here/scratch.json")" | awk '{print ($1 > $3)}')" = 1 ] ||
    wrong "a trained body is worth nothing: $(accuracy "$here/transfer.json"), and $(accuracy "$here/scratch.json") from scratch"
run 0 "$lockstep" inspect "$here/body.weights.h5" "$here/after.weights.h5"
says "2 of 17 tensors differ" # the head's: a frozen body's moving statistics stay as they are, too
run 0 "$lockstep" train "$here/small.net" $few --limit-train 64 --epochs 1 --lr-scale 'head*=10,body*=0.5' --record "$here/scaled.json"
run 0 "$lockstep" train "$here/small.net" $few --limit-train 64 --epochs 1 --record "$here/plain.json"
[ "$(digest "$here/scaled.json")" != "$(digest "$here/plain.json")" ] || wrong "--lr-scale changes nothing"
run 0 "$lockstep" train "$here/small.net" $few --limit-train 64 --epochs 1 --lr-scale 'head*=1' --record "$here/one.json"
[ "$(digest "$here/one.json")" = "$(digest "$here/plain.json")" ] || wrong "--lr-scale by 1 changes bits"
decays="--optimizer sgd --momentum 0.9 --weight-decay 0.1 --limit-train 64 --epochs 1"
run 0 "$lockstep" train "$here/small.net" $few $decays --record "$here/decays.json"
run 0 "$lockstep" train "$here/small.net" $few $decays --decay-scale '*=1' --record "$here/one.json"
[ "$(digest "$here/one.json")" = "$(digest "$here/decays.json")" ] || wrong "--decay-scale by 1 changes bits"
run 0 "$lockstep" train "$here/small.net" $few $decays --no-decay-biases --record "$here/kernels.json"
run 0 "$lockstep" train "$here/small.net" $few $decays --decay-scale '*bias=0,*gamma=0,*beta=0' --record "$here/one.json"
[ "$(digest "$here/one.json")" = "$(digest "$here/kernels.json")" ] || wrong "--decay-scale 0 is not --no-decay-biases"
[ "$(digest "$here/one.json")" != "$(digest "$here/decays.json")" ] || wrong "--decay-scale changes nothing"
run 0 "$lockstep" train "$here/small.net" $few $decays --weight-decay 0.2 --decay-scale '*=0.5' --record "$here/one.json"
[ "$(digest "$here/one.json")" = "$(digest "$here/decays.json")" ] || wrong "half of twice the decay is not the decay"
grep -q '"weight_decay_form": "decoupled"' "$here/one.json" && grep -q '"weight_decay": 0.2,' "$here/one.json" || wrong "which decay?"
coupled="--optimizer sgd --lr 0.1 --l2 0.125 --limit-train 64 --epochs 1 --verbose 1"
run 0 "$lockstep" train "$here/small.net" $few $coupled --record "$here/l2.json"
says "sgd, learning rate 0.1, L2 0.125 (coupled)"
grep -q '"l2": 0.125,' "$here/l2.json" || wrong "the record does not have --l2"
run 0 "$lockstep" train "$here/small.net" $few $coupled --l2 0.25 --decay-scale '*=0.5' --record "$here/one.json"
[ "$(digest "$here/one.json")" = "$(digest "$here/l2.json")" ] || wrong "half of twice --l2 is not --l2"
run 0 "$lockstep" train "$here/small.net" $few $coupled --no-decay-biases --record "$here/kernels.json"
run 0 "$lockstep" train "$here/small.net" $few $coupled --decay-scale '*bias=0,*gamma=0,*beta=0' --record "$here/one.json"
[ "$(digest "$here/one.json")" = "$(digest "$here/kernels.json")" ] || wrong "--l2 spares other weights than --weight-decay"
[ "$(digest "$here/one.json")" != "$(digest "$here/l2.json")" ] || wrong "--l2 is of kernels alone"
refuses 2 "expected PATTERN=X, as *beta=0, but got 'head'" "$lockstep" train "$here/small.net" --decay-scale 'head'
refuses 2 "by 0 or a number from 1e-6 to 1e6, not by -1" "$lockstep" train "$here/small.net" --decay-scale 'head*=-1'
refuses 2 'no parameter matches "heads*"' "$lockstep" train "$here/small.net" --freeze 'heads*'
refuses 2 "expected PATTERN=X, as head*=10, but got 'head*'" "$lockstep" train "$here/small.net" --lr-scale 'head*'
refuses 2 "from 1e-6 to 1e6, not by 0" "$lockstep" train "$here/small.net" --lr-scale 'head*=0'
refuses 1 "'head/kernel' is frozen, and so is all of the head that is drawn anew" "$lockstep" train "$here/small.net" $few --epochs 1 \
    --weights "$here/body.weights.h5" --without-top --freeze 'head*'
refuses 2 "'*' freezes all of small: nothing of it would be trained; leave some of its weights out" \
    "$lockstep" train "$here/small.net" $few --epochs 1 --verbose 0 --freeze '*'
refuses 2 "'*/kernel,*/bias' freezes all of mnist-mlp" "$lockstep" train mnist-mlp --limit-train 64 --epochs 1 --freeze '*/kernel,*/bias'
refuses 2 "--without-top: of which file?" "$lockstep" train "$here/small.net" --without-top
refuses 2 "give one of them" "$lockstep" train "$here/small.net" --weights x --without-top --weights-by-name
run 0 "$lockstep" train mnist-linear --limit-train 64 --epochs 1 --no-evaluate --verbose 0 --save "$here/none.h5"
refuses 1 "parameter 'body1_c/kernel' (3, 3, 1, 16) is not in it" "$lockstep" train "$here/small.net" $few --epochs 1 --without-top --weights "$here/none.h5"
finish

# ONNX: what was trained and exported is the same network, goes on to the same bits, and is evaluated alike.
run 0 "$lockstep" train mnist-mlp $short --checkpoint "$here/mlp" --save "$here/mlp.safetensors"
run 0 "$lockstep" export "$here/mlp" "$here/mlp.onnx"
run 0 "$lockstep" export "$here/mlp.safetensors" "$here/other.onnx" --model mnist-mlp --input-shape 28x28x1
cmp -s "$here/mlp.onnx" "$here/other.onnx" || wrong "a checkpoint and its weights are exported as two models"
run 0 "$lockstep" summary "$here/mlp.onnx"
says "Total params: 101,770"
run 0 "$lockstep" train "$here/mlp.onnx" $short --record "$here/from-onnx.json" --checkpoint "$here/again"
run 0 "$lockstep" train mnist-mlp $short --weights "$here/mlp.safetensors" --record "$here/from-weights.json"
[ -n "$(digest "$here/from-onnx.json")" ] && [ "$(digest "$here/from-onnx.json")" = "$(digest "$here/from-weights.json")" ] ||
    wrong "training from a model of ONNX has other bits than training from its weights"
run 0 "$lockstep" evaluate "$here/mlp" --limit 50
grep '^Test' "$here/out" >"$here/evaluated"
run 0 "$lockstep" evaluate "$here/mlp.onnx" --data digits --limit 50
grep '^Test' "$here/out" | cmp -s - "$here/evaluated" || wrong "an exported network is evaluated otherwise"
run 0 "$lockstep" evaluate "$here/again" --limit 50
refuses 2 "does not end in .onnx" "$lockstep" export "$here/mlp" "$here/mlp.txt"
refuses 2 "tells 10 classes apart" "$lockstep" evaluate "$here/mlp.onnx" --data letters
head -c 1000 "$here/mlp.onnx" >"$here/cut.onnx"
refuses 1 "cut.onnx" "$lockstep" summary "$here/cut.onnx"
