#!/bin/sh
# lockstep evaluate: the numbers that train prints at its end, from checkpoints and from files, with any number of workers.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/checkpoints.sh"

# value KEY FILE: a number of a JSON file that writes one key a line.
value() { sed -n "s/^ *\"$1\": \([-0-9.e+]*\),*\$/\1/p" "$2" | head -n 1; }
# To the last bit: every file has the fewest digits that tell a double from all others.
same() { [ "$1" ] && [ "$1" = "$2" ]; }
agrees() { # agrees RECORD EVALUATION
    same "$(value test_loss "$1")" "$(value loss "$2")" || wrong "another loss: $(value test_loss "$1"), $(value loss "$2")"
    same "$(value test_accuracy "$1")" "$(value accuracy "$2")" || wrong "another accuracy"
}

digits="--data digits --limit-train 1920 --limit-test 700 --epochs 1 --verbose 0"
# shellcheck disable=SC2086
run 0 "$lockstep" train mnist-cnn $digits --batch-size 64 --save "$here/digits.safetensors" --record "$here/digits.json"
checkpoint "$here/runs/step-000000030" "$here/digits.safetensors" 30 \
    '{"model": "mnist-cnn", "data": "digits", "batch-size": 64, "limit-test": 700, "limit-train": 1920, "epochs": 1, "verbose": 0, "lr": null}'
run 0 "$lockstep" evaluate "$here/runs/step-000000030" --json "$here/one.json" --csv "$here/one.csv" --out "$here/pictures"
agrees "$here/digits.json" "$here/one.json"
says "mnist-cnn after 30 steps, 1 epoch and 5 steps"
says "Trained by cpu: a library; this is cpu: "
says "700 of the samples to test with"
matches '^Test loss +[0-9.]+$'
matches '^Test accuracy +[0-9.]+ % \([0-9]+ of 700\)$'
matches '^Top-5 accuracy +[0-9.]+ %$'
matches '^Balanced accuracy +[0-9.]+ %$'
matches '^7 +[0-9]+ +[0-9.]+ %$'
says "Rows: the class; columns: what it was taken for"
awk 'length > 80 && !/step-|^Trained by/ { exit 1 }' "$here/out" || wrong "a line of more than 80 columns"
cp "$here/pictures/confusion.csv" "$here/confusion.csv"
[ "$(wc -l <"$here/one.csv")" -eq 11 ] || wrong "not a head and a line for each class"
[ "$(awk -F, 'NR > 1 { right += $4 } END { print right }' "$here/one.csv")" = "$(value right "$here/one.json")" ] ||
    wrong "classes do not add up to the whole"
[ "$(awk -F, 'NR > 1 { for (i = 2; i <= NF; i++) all += $i; right += $NR } END { print all, right }' "$here/confusion.csv")" = \
    "700 $(value right "$here/one.json")" ] || wrong "the matrix does not add up"
head -c 4 "$here/pictures/confusion.svg" | grep -q '<svg' || wrong "no picture"
tail -n 1 "$here/pictures/confusion.svg" | grep -q '</svg>' || wrong "half a picture"

# Of a folder of checkpoints the newest counts; what is not finished does not.
checkpoint "$here/runs/epoch-0001" "$here/digits.safetensors" 20 '{"model": "mnist-mlp"}'
mkdir "$here/runs/.step-000000040" "$here/runs/step-000000050"
cp "$here/runs/epoch-0001/state.json" "$here/runs/step-000000050"
run 0 "$lockstep" evaluate "$here/runs" --json "$here/two.json" --replicas 1
says "step-000000030"
agrees "$here/digits.json" "$here/two.json"
# A file of weights alone.
refuses 2 "has weights alone: --model names the network, which it says is mnist-cnn" "$lockstep" evaluate "$here/digits.safetensors"
refuses 2 "on which dataset?" "$lockstep" evaluate "$here/digits.safetensors" --model mnist-cnn
run 0 "$lockstep" evaluate "$here/digits.safetensors" --model mnist-cnn --data digits --micro-batch 16 --limit 700 --json "$here/two.json"
agrees "$here/digits.json" "$here/two.json"
# Other samples, other precision, another dataset.
run 0 "$lockstep" evaluate "$here/runs" --split train --limit 300
matches '^Training loss +[0-9.]+$'
says "300 of the samples to train on"
run 0 "$lockstep" evaluate "$here/runs" --split train
says "1,920 of the samples to train on"
run 0 "$lockstep" evaluate "$here/runs" --precision bf16 --limit 100
run 0 "$lockstep" evaluate "$here/digits.safetensors" --model mnist-cnn --data synthetic:28x28x1,10,200,100
matches '^9 +[0-9]+ +[0-9.]+ %$'

# Names of classes, augmentation, smoothing, another size and normalization; several workers.
recipe='"batch-size": 32, "micro-batch": 8, "augment": "flip,crop", "normalize": "dataset", "image-size": 36, "label-smoothing": 0.1,
    "limit-train": 320, "limit-test": 250, "optimizer": "sgd", "momentum": 0.9, "weight-decay": 0.0005, "epochs": 1'
echo "{\"model\": \"resnet20\", \"data\": \"shapes\", $recipe}" >"$here/recipe.json"
run 0 "$lockstep" train --config "$here/recipe.json" --save "$here/shapes.safetensors" --record "$here/shapes.json" --verbose 0
checkpoint "$here/shapes" "$here/shapes.safetensors" 10 "$(cat "$here/recipe.json")"
run 0 "$lockstep" evaluate "$here/shapes" --json "$here/one.json"
agrees "$here/shapes.json" "$here/one.json"
matches '^crescent +[0-9]+ +[0-9.]+ %$'
awk 'length > 80 && !/shapes|^Trained by/ { exit 1 }' "$here/out" || wrong "a line of more than 80 columns"
if [ -n "$mpirun" ]; then
    for workers in 2 3; do
        run 0 "$lockstep" evaluate "$here/shapes" --workers $workers --replicas 1 --json "$here/two.json"
        cmp -s "$here/one.json" "$here/two.json" || wrong "$workers workers find other numbers"
    done
    run 0 "$lockstep" evaluate "$here/shapes" --workers 6 --replicas 1 --json "$here/two.json"  # more than a step of training has pieces
    cmp -s "$here/one.json" "$here/two.json" || wrong "6 workers find other numbers"
fi

# What train itself writes: the same numbers, and nothing to remark.
# shellcheck disable=SC2086
run 0 "$lockstep" train mnist-mlp $digits --batch-size 192 --micro-batch 48 --validate --checkpoint "$here/written" --record "$here/written.json"
run 0 "$lockstep" evaluate "$here/written" --json "$here/one.json"
says "mnist-mlp after 10 steps, 1 epoch ($here/written/epoch-0001)"
[ "$(value val_loss "$here/written/epoch-0001/state.json")" = "$(value loss "$here/one.json")" ] ||
    wrong "not the bits of $(value val_loss "$here/written/epoch-0001/state.json")"
agrees "$here/written.json" "$here/one.json"
grep -q "last digits" "$here/out" && wrong "the same kernels are told to be others"
run 0 "$lockstep" evaluate "$here/written" --device ref --limit 100
says "last digits may be others"

# Of sequences: nothing in the file is a matter of time.
run 0 "$lockstep" train transformer-lm-mini --data sentences --limit-train 16 --limit-test 64 --batch-size 16 --epochs 1 --verbose 0 \
    --save "$here/words.safetensors" --record "$here/words.json"
words="$here/words.safetensors --model transformer-lm-mini --data sentences --limit 64"
# shellcheck disable=SC2086
run 0 "$lockstep" evaluate $words --json "$here/one.json"
agrees "$here/words.json" "$here/one.json"
# shellcheck disable=SC2086
run 0 "$lockstep" evaluate $words --replicas 2 --json "$here/two.json"
cmp -s "$here/one.json" "$here/two.json" || wrong "two replicas find other numbers: $(diff "$here/one.json" "$here/two.json")"

# What cannot be evaluated.
refuses 2 "which network?" "$lockstep" evaluate
refuses 2 "cannot look at $here/none: No such file or directory" "$lockstep" evaluate "$here/none"
mkdir "$here/empty"
refuses 2 "there is no checkpoint in $here/empty" "$lockstep" evaluate "$here/empty"
refuses 2 "step-000000050 is not finished: it has no manifest.json, which is written last" "$lockstep" evaluate "$here/runs/step-000000050"
refuses 2 "--split: 'validation' is not one of test, train" "$lockstep" evaluate "$here/runs" --split validation
refuses 2 "unknown option --epochs" "$lockstep" evaluate "$here/runs" --epochs 3
cp -R "$here/runs/step-000000030" "$here/spoiled"
printf x | dd of="$here/spoiled/weights.safetensors" bs=1 seek=50000 conv=notrunc 2>/dev/null
refuses 2 "$here/spoiled/weights.safetensors is damaged: its contents are not those that were written (SHA-256)" \
    "$lockstep" evaluate "$here/spoiled"
head -c 50000 "$here/digits.safetensors" >"$here/spoiled/weights.safetensors"
refuses 2 "weights.safetensors is damaged: it has 50000 bytes, and " "$lockstep" evaluate "$here/spoiled"
rm "$here/spoiled/weights.safetensors"
refuses 2 "$here/spoiled/weights.safetensors: it is missing" "$lockstep" evaluate "$here/spoiled"
cp "$here/digits.safetensors" "$here/spoiled/weights.safetensors"
sed -i 's/"epoch": 2/"epoch": 3/' "$here/spoiled/state.json"
refuses 2 "state.json is damaged" "$lockstep" evaluate "$here/spoiled"
sed -i 's/_version": 1/_version": 2/' "$here/spoiled/state.json"
manifest "$here/spoiled" weights.safetensors state.json
refuses 2 "is of a newer Lockstep (format 2, and this one reads up to 1)" "$lockstep" evaluate "$here/spoiled"
echo 'no JSON' >"$here/spoiled/state.json"
manifest "$here/spoiled" weights.safetensors state.json
refuses 2 "state.json is damaged: " "$lockstep" evaluate "$here/spoiled"
checkpoint "$here/odd" "$here/digits.safetensors" 1 '{"model": "mnist-cnn", "epochs": "many"}'
refuses 2 "$here/odd/state.json: the recipe: --epochs: expected a whole number" "$lockstep" evaluate "$here/odd"
checkpoint "$here/odd" "$here/digits.safetensors" 1 '{"model": "mnist-mlp", "data": "digits"}'
refuses 1 "has not the weights of mnist-mlp, but of mnist-cnn" "$lockstep" evaluate "$here/odd"
checkpoint "$here/odd" "$here/digits.safetensors" 1 'null'
refuses 2 "has no \"recipe\"" "$lockstep" evaluate "$here/odd"
checkpoint "$here/odd" "$here/digits.safetensors" 1 '{"model": "mnist-cnn", "data": "mnist:gone"}'
refuses 1 "the recipe's dataset (--data names another): cannot open the data folder gone" "$lockstep" evaluate "$here/odd"
refuses 1 "cannot write $here/none/x.json" "$lockstep" evaluate "$here/runs" --json "$here/none/x.json"
refuses 1 "there is no dataset \"cifar\"" "$lockstep" evaluate "$here/runs" --data cifar
finish
