#!/bin/sh
# lockstep inspect: what a checkpoint holds, and how two differ.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/checkpoints.sh"

small="mnist-linear --limit-train 640 --limit-test 100 --epochs 1 --verbose 0"
# shellcheck disable=SC2086
{
    run 0 "$lockstep" train $small --save "$here/a.safetensors"
    run 0 "$lockstep" train $small --save "$here/b.safetensors" --lr 0.002
    run 0 "$lockstep" train mnist-mlp ${small#* } --save "$here/c.safetensors"
}
checkpoint "$here/a" "$here/a.safetensors" 1234 \
    '{"model": "mnist-linear", "data": "mnist:my data", "batch-size": 128, "lr": 0.002, "momentum": null, "shuffle": false, "epochs": 3, "validate": true, "schedule": "constant", "later": "it'"'"'s"}'
checkpoint "$here/b" "$here/b.safetensors" 5 '{"model": "mnist-linear"}'

run 0 "$lockstep" inspect "$here/a"
says "Trained   1234 steps, 1 epoch and 5 steps"
says "Latest    epoch 1, loss 0.5000, accuracy 0.7500"
says "Written   2026-11-22T12:30:00Z"
says "Lockstep  0.1.0"
says "Numerics  cpu: a library"
says "Recipe    lockstep train mnist-linear --data 'mnist:my data' --lr 0.002 --no-shuffle --epochs 3 --validate --later 'it'\\''s'"
matches "^  momentum.safetensors +[0-9.]+ kB  SHA-256 $(sha256sum "$here/a.safetensors" | cut -c1-16)"
matches "^dense/kernel +784x10 +-?[0-9.e-]+ +[0-9.e-]+ +-[0-9.e-]+ +[0-9.e-]+ +[0-9.]+ % +0.0 %$"
says "2 tensors, 7,850 values"
[ "$(grep -c '^dense/kernel' "$here/out")" -eq 1 ] || wrong "the optimizer's state, without --all"
run 0 "$lockstep" inspect "$here/a" --all
[ "$(grep -c '^dense/kernel' "$here/out")" -eq 2 ] || wrong "--all has not all"

# The recipe of what train wrote is how to do that again.
# shellcheck disable=SC2086
run 0 "$lockstep" train $small --optimizer sgd --momentum 0.9 --augment flip,crop --no-shuffle --seed 7 --checkpoint "$here/written"
run 0 "$lockstep" inspect "$here/written" --all
says "momentum.safetensors"
again=$(sed -n 's/^Recipe    lockstep //p' "$here/out")
# shellcheck disable=SC2086
run 0 "$lockstep" $again --save "$here/again.safetensors" --verbose 0
run 0 "$lockstep" inspect "$here/written" "$here/again.safetensors"
says "All 2 tensors are equal"

run 0 "$lockstep" inspect "$here/b.safetensors"
says "weights of mnist-linear"
run 0 "$lockstep" inspect "$here/a" "$here/a.safetensors"
says "All 2 tensors are equal"
matches '^dense/bias +10 +equal$'
run 0 "$lockstep" inspect "$here/a.safetensors" "$here/b" --all
says "2 of 2 tensors differ"
matches '^dense/kernel +784x10 +0.00[0-9]+ +[0-9.e-]+ +[0-9.]+ %$'
run 0 "$lockstep" inspect "$here/a" "$here/c.safetensors"
says "is 784x128 in the other"
says "is in the other alone"
run 0 "$lockstep" inspect "$here/a" "$here/b" --all
[ "$(grep -c 'tensors differ' "$here/out")" -eq 2 ] || wrong "--all compares not all"

# Tensors of any type and value: a header of 64 bits, then the values. No numbers, zeros, whole numbers.
tensor() { # tensor FILE HEADER BYTES
    printf "\\$(printf %03o ${#2})\0\0\0\0\0\0\0%s" "$2" >"$1"
    # shellcheck disable=SC2059
    printf "$3" >>"$1"
}
tensor "$here/odd.safetensors" '{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b\n\u001b[2J":{"dtype":"I8","shape":[],"data_offsets":[16,17]}}' \
    '\0\0\200\077\0\0\0\0\0\0\200\177\0\0\300\177\7'
run 0 "$lockstep" inspect "$here/odd.safetensors"
matches '^a +4 +0.5 +0.5 +0 +1 +25.0 % +50.0 %$'
says "2 of them are no finite numbers"
says "scalar  of type I8, which is not looked into"
grep -q "$(printf '\033')" "$here/out" && wrong "what a file says reaches the terminal as it is"
run 0 "$lockstep" inspect "$here/odd.safetensors" "$here/odd.safetensors"
matches '^a +4 +equal$'

refuses 2 "which checkpoint?" "$lockstep" inspect
refuses 2 "unexpected word 'x'" "$lockstep" inspect a b x
refuses 1 "cannot look at $here/none" "$lockstep" inspect "$here/none"
printf x | dd of="$here/a/weights.safetensors" bs=1 seek=9000 conv=notrunc 2>/dev/null
run 1 "$lockstep" inspect "$here/a"
complains "$here/a/weights.safetensors is damaged"
echo hello >"$here/hello"
refuses 1 "$here/hello is no safetensors file" "$lockstep" inspect "$here/hello"
finish
