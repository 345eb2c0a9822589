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
run 0 "$lockstep" --version
matches '^lockstep [0-9]+\.[0-9]+\.[0-9]+$'
says "oneDNN"
says "MPI: "
run 0 "$lockstep" models
says "mnist-cnn"
run 0 "$lockstep" datasets
says "mnist:DIR"
says "digits"
run 0 "$lockstep" summary mnist-cnn
says "Total params: 690,590"

refuses 2 "unknown command 'trian'; did you mean train?" "$lockstep" trian
refuses 2 "which model?" "$lockstep" train
refuses 2 "which model?" "$lockstep" summary
refuses 2 "mnist-cnn" "$lockstep" train mnist-cn
refuses 2 "mnist-cnn" "$lockstep" summary resnet-9000
refuses 2 "unknown option --epoch; did you mean --epochs?" "$lockstep" train mnist-cnn --epoch 3
refuses 2 "--epochs: expected a whole number of at least 1, got 'x'" "$lockstep" train mnist-cnn --epochs x
refuses 2 "--strategy: 'ring' is not one of allreduce, reduce-broadcast" "$lockstep" train mnist-cnn --strategy ring
refuses 2 "--optimizer: 'lion' is not one of" "$lockstep" train mnist-cnn --optimizer lion
refuses 2 "--precision: 'fp16' is not one of fp32, bf16" "$lockstep" train mnist-cnn --precision fp16
refuses 2 "--workers: expected a whole number from 1 to 65536, got '0'" "$lockstep" train mnist-cnn --workers 0
refuses 2 "unexpected word 'mnist:x'" "$lockstep" train mnist-cnn mnist:x
refuses 2 "unexpected word 'x'" "$lockstep" models x

echo '{"epochs": 3, "batch-size": "many"}' >"$here/bad.json"
refuses 2 "bad.json: --batch-size: expected a whole number of at least 1, got 'many'" \
    "$lockstep" train mnist-cnn --config "$here/bad.json"
echo '{"epochs": 3,' >"$here/bad.json"
refuses 2 "is not JSON: line" "$lockstep" train mnist-cnn --config "$here/bad.json"
refuses 2 "cannot read the config file" "$lockstep" train mnist-cnn --config "$here/none.json"

# Every process of a job reads the same command line: one of them speaks.
if [ -n "$mpirun" ]; then
    # shellcheck disable=SC2086
    refuses 2 "unknown option --epoch; did you mean --epochs?" $mpirun 3 "$lockstep" train mnist-cnn --epoch 3
    # shellcheck disable=SC2086
    refuses 2 "--workers 3, but the launcher started 2 workers" $mpirun 2 "$lockstep" train mnist-cnn --workers 3
fi
finish
