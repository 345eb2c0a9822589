#!/bin/sh
# What the command line alone decides: help, lists, usage errors (exit status 2).
. "$(dirname "$0")/lib.sh"

run 0 "$lockstep" --help
says "train "
run 0 "$lockstep"
says "Usage: lockstep COMMAND"
run 0 "$lockstep" help train
says "GLOBAL batch"
says "reduce-broadcast"
says "--schedule-gamma"
awk 'length > 100 { exit 1 }' "$here/out" || wrong "help is wider than 100 columns"
run 0 "$lockstep" train --help
# A command lists what it goes by, and only that.
# Nothing is faster than its floor, on however noisy a machine.
run 0 "$lockstep" bench mnist-mlp --layers --steps 12 --micro-batch 16
awk '/^Layer/ { on = 1; next } /^A micro-batch/ { on = 0; ratio = $NF; if (ratio < 1) exit 1; seen++ }
    on && NF > 4 && $NF !~ /^[0-9.]+$/ { if ($(NF - 1) < 1) exit 1; seen++ } END { exit seen < 5 }' "$here/out" ||
    wrong "a layer is faster than its floor"
matches '^Step over floor +([0-9.]+ \(median of [0-9]+ blocks, [0-9.]+ to [0-9.]+\)|not to be told: other work)'
if grep -q avx2 /proc/cpuinfo; then
    matches '^Limit of the machine +[0-9.]+ ms \((AMX|AVX-512 BF16|AVX-512|AVX2) [0-9]+ GFLOP/s, memory [0-9.]+ GB/s\)'
fi

run 0 "$lockstep" bench --help
says "(default: 8 micro-batches"
for option in epochs limit-train evaluate validate schedule lr top pooling; do
    grep -qE -- "--(no-)?$option( |\$)" "$here/out" && wrong "bench --help lists --$option"
done
run 0 "$lockstep" plan --help
says "with --memory, one micro-batch for"
for option in epochs seed lr schedule verbose record top pooling; do
    grep -qE -- "--(no-)?$option( |\$)" "$here/out" && wrong "plan --help lists --$option"
done
run 0 "$lockstep" summary --help
grep -q "default: 0" "$here/out" && wrong "summary --help has a default that says nothing"
run 0 "$lockstep" --version
matches '^lockstep [0-9]+\.[0-9]+\.[0-9]+$'
says "oneDNN"
says "MPI: "
run 0 "$lockstep" models
says "mnist-cnn               690,590  28x28x1     10 "
says "resnet50v2           25,613,800  224x224x3 1000 "
says " 76.0  Keras's ResNet50V2"
run 0 "$lockstep" datasets
says "mnist:DIR"
says "digits"
run 0 "$lockstep" summary mnist-cnn
says "Total params: 690,590"
run 0 "$lockstep" summary resnet50v2 --classes 10 --image-size 128
says "(None, 128, 128, 3)"
says "Total params: 23,585,290"
says "Non-trainable params: 45,440"
run 0 "$lockstep" summary resnet20 --input-shape 48x64x1 --no-top
says " activation_18 (Activation)                (None, 12, 16, 64)"
run 0 "$lockstep" summary resnet20 --no-top --pooling max
says " max_pool (GlobalMaxPooling2D) "
run 0 "$lockstep" summary resnet50 --classifier-activation none
says "Total params: 25,636,712"

refuses 2 "unknown command 'trian'; did you mean train?" "$lockstep" trian
refuses 2 "which model?" "$lockstep" train
refuses 2 "which model?" "$lockstep" summary
refuses 2 "mnist-cnn" "$lockstep" train mnist-cn
refuses 2 "mnist-cnn" "$lockstep" summary resnet-9000
refuses 2 "did you mean resnet50v2?" "$lockstep" train resnet50-v2
refuses 2 "resnet50v2 takes images of at least 32x32, and these are 28x28" "$lockstep" summary resnet50v2 --image-size 28
for shape in 4x32x32x3x1 0x32x3 32x-1x3 32xx3 x 32x32x 65537x2x1 "32 x32x3" 32X32; do
    refuses 2 "expected HxWxC" "$lockstep" summary resnet20 --input-shape "$shape"
done
refuses 2 "give one of them" "$lockstep" summary resnet20 --input-shape 32x32x3 --image-size 32
refuses 2 "works on images (None, H, W, C), but its input has shape (None, 4, 32, 32, 3)" "$lockstep" summary resnet20 --input-shape 4x32x32x3
run 0 "$lockstep" summary frame-prediction --input-shape 6x16x24x3
says "(None, 6, 4, 6, 64)     110592      "
run 0 "$lockstep" summary frame-prediction --image-size 64
says "(None, 4, 64, 64, 1)    433         "
refuses 2 "--classes: expected a whole number of at least 1, got '0'" "$lockstep" train resnet20 --classes 0
refuses 2 "--pooling: 'min' is not one of none, avg, max" "$lockstep" train resnet20 --pooling min
refuses 2 "a network without its classifier: ask for that too" "$lockstep" train resnet20 --pooling avg
refuses 2 "mnist-cnn has no features without its classifier" "$lockstep" train mnist-cnn --no-top
refuses 2 "resnet20 was built without its top" "$lockstep" train resnet20 --no-top --pooling avg
refuses 2 "--weights-by-name: from which file?" "$lockstep" train resnet20 --weights-by-name
refuses 2 "--weights-by-name: from which file?" "$lockstep" train resnet20 --weights-by-name --weights none
refuses 2 "--weights imagenet: nothing is downloaded here; weights come from a file, --weights FILE" \
    "$lockstep" train resnet50v2 --weights imagenet
refuses 2 "resnet20 was built without its top" "$lockstep" scale resnet20 --no-top --workers 1 --out "$here/study"
refuses 2 "unknown option --epoch; did you mean --epochs?" "$lockstep" train mnist-cnn --epoch 3
refuses 2 "unknown option --epochs; --help lists the options" "$lockstep" bench mnist-cnn --epochs 3
refuses 2 "unknown option --no-evaluate; --help lists the options" "$lockstep" bench mnist-cnn --no-evaluate
refuses 2 "--epochs: expected a whole number of at least 1, got 'x'" "$lockstep" train mnist-cnn --epochs x
refuses 2 "--strategy: 'ring' is not one of allreduce, reduce-broadcast, mirrored, central, tree, parameter-server" \
    "$lockstep" train mnist-cnn --strategy ring
refuses 2 "--servers: expected a whole number from 1 to 65535, got '0'" "$lockstep" train mnist-cnn --strategy parameter-server --servers 0
refuses 2 "--optimizer: 'lion' is not one of" "$lockstep" train mnist-cnn --optimizer lion
refuses 2 "--precision: 'fp8' is not one of fp32, bf16, fp16" "$lockstep" train mnist-cnn --precision fp8
refuses 2 "--workers: expected a whole number from 1 to 65536, got '0'" "$lockstep" train mnist-cnn --workers 0
refuses 2 "--image-size: expected a whole number from 1 to 4096, got '0'" "$lockstep" train mnist-cnn --image-size 0
refuses 2 "--image-size: expected a whole number from 1 to 4096, got '5000'" "$lockstep" bench mnist-cnn --image-size 5000
refuses 2 "--augment: 'blur' is not one of none, flip, crop, resized-crop, random-crop, rotate, brightness" "$lockstep" train mnist-cnn --augment flip,blur
refuses 2 "--normalize: 'imagenet' is not one of unit, symmetric, dataset, none" "$lockstep" train mnist-cnn --normalize imagenet
refuses 2 "unexpected word 'mnist:x'" "$lockstep" train mnist-cnn mnist:x
refuses 2 "unexpected word 'x'" "$lockstep" models x

echo '{"epochs": 3, "batch-size": "many"}' >"$here/bad.json"
refuses 2 "bad.json: --batch-size: expected a whole number from 1 to 1000000000, got 'many'" \
    "$lockstep" train mnist-cnn --config "$here/bad.json"
echo '{"epochs": 3,' >"$here/bad.json"
refuses 2 "is not JSON: line" "$lockstep" train mnist-cnn --config "$here/bad.json"
refuses 2 "cannot read the config file" "$lockstep" train mnist-cnn --config "$here/none.json"

refuses 2 "--wait-limit: expected a time" "$lockstep" train mnist-cnn --wait-limit soon
# A value of any length is refused, or taken, and never written behind a buffer.
for length in 4095 5000 12000 100000; do
    long=$(head -c $length /dev/zero | tr '\0' x)
    refuses 1 'there is no dataset "xxxx' "$lockstep" train mnist-mlp --data "$long"
    run 1 "$lockstep" train mnist-mlp --data "mnist:/$long"
    complains ": File name too long"
done
refuses 2 "unknown option --xxxx" "$lockstep" train mnist-mlp "--$long"
refuses 2 "transformer-lm-mini, and files that end in .net" "$lockstep" summary "$long"

# Every process of a job reads the same command line: one of them speaks.
if [ -n "$mpirun" ]; then
    # shellcheck disable=SC2086
    refuses 2 "unknown option --epoch; did you mean --epochs?" $mpirun 3 "$lockstep" train mnist-cnn --epoch 3
    # shellcheck disable=SC2086
    refuses 2 "--workers 3, but the launcher started 2 workers" $mpirun 2 "$lockstep" train mnist-cnn --workers 3
fi
finish
