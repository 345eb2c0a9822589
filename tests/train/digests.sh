#!/bin/sh
# digests.sh PROGRAM [cpu|ref|all]: the weights digests of short runs that between them take every turn of the engine, one a line.
# Compare what a program built before a change prints with what one built after it does: `diff`. Those of device ref are the same on
# every machine, and the test train.ref_digests holds them to tests/train/ref_digests.txt.
set -eu
program=$1
which=${2:-all}
data=${LOCKSTEP_DATA:-}

# run NAME ARGUMENTS...: trains and prints the name and the digest, or that this machine cannot.
run() {
    title=$1
    shift
    if text=$("$program" train "$@" --no-evaluate --verbose 2 2>&1); then
        printf '%-40s %s\n' "$title" "$(printf '%s\n' "$text" | sed -n 's/^Weights digest *//p')"
    else
        printf '%-40s %s\n' "$title" "$(printf '%s\n' "$text" | head -n 1 | cut -c 1-80)"
    fi
}

# both NAME ARGUMENTS...: in fp32 and in bf16.
both() {
    base=$1
    shift
    run "$base fp32" "$@" --precision fp32
    run "$base bf16" "$@" --precision bf16
}

if [ "$which" != cpu ]; then
    ref="--device ref --epochs 1 --batch-size 16 --micro-batch 4"
    # shellcheck disable=SC2086 # options are words
    {
        both "ref mnist-mlp adam" mnist-mlp --data digits $ref --limit-train 40
        both "ref mnist-cnn adam" mnist-cnn --data digits $ref --limit-train 24
        run "ref mnist-mlp sgd clip" mnist-mlp --data digits $ref --limit-train 40 --optimizer sgd --momentum 0.9 --clip-norm 0.1
        run "ref mnist-mlp lars" mnist-mlp --data digits $ref --limit-train 40 --optimizer lars
        run "ref mnist-mlp lamb smoothing" mnist-mlp --data digits $ref --limit-train 40 --optimizer lamb --label-smoothing 0.1
        both "ref resnet20 sgd" resnet20 --data shapes $ref --limit-train 20 --optimizer sgd --momentum 0.9
        run "ref resnet20v2 augment remat" resnet20v2 --data shapes $ref --limit-train 16 --augment flip,crop --remat
        run "ref mnist-mlp compress" mnist-mlp --data digits $ref --limit-train 40 --compress bf16
        run "ref resnet20 sgd compress" resnet20 --data shapes $ref --limit-train 20 --optimizer sgd --momentum 0.9 --compress bf16
        both "ref mobilenetv2" mobilenetv2 --data shapes $ref --limit-train 12
        run "ref efficientnetb0" efficientnetb0 --data shapes $ref --limit-train 8 --normalize none
        both "ref lstm masked" lstm --data roles $ref --limit-train 20
        run "ref gru masked" gru --data roles $ref --limit-train 8
        both "ref transformer-lm-mini" transformer-lm-mini --data sentences $ref --limit-train 8
        run "ref mnist-mlp fp16 dynamic scale" mnist-mlp --data digits $ref --limit-train 40 --precision fp16 --loss-scale dynamic
        run "ref mnist-cnn fp16 scale" mnist-cnn --data digits $ref --limit-train 8 --precision fp16 --loss-scale 128
        run "ref mnist-mlp reduce-broadcast" mnist-mlp --data digits $ref --limit-train 40 --strategy reduce-broadcast --replicas 2
    }
fi

if [ "$which" != ref ]; then
    mnist=digits cifar=shapes
    [ -z "$data" ] || mnist=mnist:$data/mnist
    cnn="--data $mnist --epochs 2 --batch-size 256 --micro-batch 32 --limit-train 1100"
    res="--data $cifar --epochs 1 --batch-size 64 --micro-batch 16 --limit-train 300"
    big="--data $cifar --epochs 1 --image-size 64 --batch-size 16 --micro-batch 8 --limit-train 40"
    # shellcheck disable=SC2086
    {
        both "mnist-cnn adam" mnist-cnn $cnn
        both "mnist-cnn sgd nesterov clip" mnist-cnn $cnn --optimizer sgd --lr 0.05 --momentum 0.9 --nesterov --clip-norm 0.5
        both "mnist-cnn lars" mnist-cnn $cnn --optimizer lars --weight-decay 1e-4
        both "mnist-cnn lamb" mnist-cnn $cnn --optimizer lamb --no-decay-biases --weight-decay 0.01 --label-smoothing 0.1
        both "mnist-cnn reduce-broadcast" mnist-cnn $cnn --strategy reduce-broadcast
        both "mnist-cnn compress" mnist-cnn $cnn --compress bf16
        both "mnist-cnn symmetric adamw" mnist-cnn $cnn --normalize symmetric --optimizer adamw --schedule cosine --warmup-epochs 1
        both "mnist-mlp" mnist-mlp $cnn
        both "resnet20 sgd" resnet20 $res --optimizer sgd --lr 0.1 --momentum 0.9
        both "resnet20 augment remat" resnet20 $res --augment flip,crop,cutout --normalize dataset --remat
        both "resnet20v2 resized-crop" resnet20v2 $res --augment resized-crop --optimizer sgd --lr 0.1
        both "resnet50v2 sgd" resnet50v2 $big --optimizer sgd --lr 0.01 --momentum 0.9
        both "resnet50v2 remat clip" resnet50v2 $big --optimizer sgd --lr 0.01 --remat --clip-norm 1
        both "resnet50 adam" resnet50 $big
        both "densenet121 sgd" densenet121 $big --optimizer sgd --lr 0.01 --momentum 0.9
        run "mnist-cnn fp16 dynamic scale" mnist-cnn $cnn --precision fp16 --loss-scale dynamic
        run "resnet20 fp16 dynamic scale" resnet20 $res --precision fp16 --loss-scale dynamic --optimizer sgd --lr 0.1
        run "mnist-cnn two threads" mnist-cnn $cnn --threads 2 --replicas 1
        run "resnet20 no shuffle" resnet20 $res --no-shuffle --momentum-correction --optimizer sgd --momentum 0.9 --schedule step
    }
fi
