#!/bin/sh
# lockstep predict: images in files are taken for what evaluate takes the same images for. Run as: predict.sh LOCKSTEP WRITE_IMAGES.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/checkpoints.sh"
write_images=$mpirun

value() { sed -n "s/^ *\"$1\": \([-0-9.e+]*\),*\$/\1/p" "$2" | head -n 1; }
# right CSV: how many files, named after their class, have it in first place.
right() { awk -F, '$2 == 1 { file = $1; sub(/.*-class/, "", file); sub(/\..*/, "", file); n += file == $3 } END { print n + 0 }' "$1"; }

# The same number of images is right, in a file or in the dataset: grey and colour, resized and normalized.
agrees() { # agrees SPEC MODEL RECIPE
    rm -rf "$here/run" "$here/images"
    mkdir "$here/images"
    echo "{\"model\": \"$2\", \"data\": \"$1\", \"limit-test\": 150, \"epochs\": 1, \"batch-size\": 32, $3}" >"$here/recipe.json"
    run 0 "$lockstep" train --config "$here/recipe.json" --save "$here/w.safetensors" --verbose 0
    checkpoint "$here/run" "$here/w.safetensors" 30 "$(cat "$here/recipe.json")"
    run 0 "$write_images" "$1" "$here/images" 150
    run 0 "$lockstep" evaluate "$here/run" --json "$here/e.json"
    run 0 "$lockstep" predict "$here/run" "$here/images" --csv "$here/p.csv" --json "$here/p.json"
    [ "$(grep -c ': ' "$here/out")" -eq 150 ] || wrong "not a line for each file"
    [ "$(awk -F, '$2 == 1 { print $3 }' "$here/p.csv" | sort -u | wc -l)" -gt 3 ] || wrong "a network that says the same of all proves nothing"
    [ "$(right "$here/p.csv")" = "$(value right "$here/e.json")" ] ||
        wrong "$1: $(right "$here/p.csv") are right, and $(value right "$here/e.json") of the dataset"
}
agrees shapes resnet20 '"normalize": "dataset", "image-size": 24, "batch-norm-momentum": 0.5, "limit-train": 960'
agrees shapes mnist-linear '"normalize": "symmetric", "image-size": 36, "limit-train": 3200'
agrees digits mnist-cnn '"normalize": "unit", "limit-train": 1600'

matches '/00000-class[0-9]\.png: [0-9] [0-9.]+ %, [0-9] [0-9.]+ %, [0-9] [0-9.]+ %, [0-9] [0-9.]+ %, [0-9] [0-9.]+ %$'
[ "$(wc -l <"$here/p.csv")" -eq 751 ] || wrong "not five lines for each file"
run 0 "$lockstep" predict "$here/run" "$here"/images/00000* "$here"/images/00001* --top 1
[ "$(grep -cE 'png: [0-9] [0-9.]+ %$' "$here/out")" -eq 2 ] || wrong "not one class for each"
run 0 "$lockstep" predict "$here/run" "$here/images" --top 100
awk -F'[:,%]' '{ sum = 0; for (i = 2; i <= NF; i++) { n = split($i, word, " "); sum += word[n] } if (sum < 99.5 || sum > 100.5) exit 1 }' "$here/out" ||
    wrong "probabilities that do not add up to 1"
# A file of weights alone, and a shape instead of a dataset.
cp "$here/out" "$here/before"
run 0 "$lockstep" predict "$here/w.safetensors" "$here/images" --model mnist-cnn --input-shape 28x28x1 --classes 10 --top 100
cmp -s "$here/out" "$here/before" || wrong "another way to say the same has another result"
refuses 1 "what the network was trained on is not told" "$lockstep" predict "$here/w.safetensors" "$here/images" --model mnist-cnn
# A checkpoint that tells the shape and the channels itself needs no dataset.
checkpoint "$here/alone" "$here/w.safetensors" 30 '{"model": "mnist-cnn", "data": "mnist:nowhere", "normalize": "dataset"}' \
    ', "image": [28, 28, 1], "classes": 10, "channel_mean": [0], "channel_deviation": [1]'
run 0 "$lockstep" predict "$here/alone" "$here/images" --top 100
cmp -s "$here/out" "$here/before" || wrong "a mean of 0 and a deviation of 1 are no unit normalization"
refuses 1 "nowhere" "$lockstep" predict "$here/alone" "$here/images" --data mnist:nowhere

# What cannot be read: a sentence each, and the others are predicted.
mkdir "$here/bad" "$here/none"
cp "$here"/images/00000* "$here/bad/good.PNG"
head -c 100 "$here"/images/00001* >"$here/bad/cut.png"
echo hello >"$here/bad/text.jpg"
: >"$here/bad/empty.jpeg"
echo ignored >"$here/bad/notes.txt"
# A giant: the header of a good file with other sizes, which its checksum tells; libpng takes none of it.
{ head -c 16 "$here/bad/good.PNG"; printf '\177\377\377\377\177\377\377\377'; tail -c +25 "$here/bad/good.PNG"; } >"$here/bad/giant.png"
run 1 "$lockstep" predict "$here/run" "$here/bad" "$here/missing.png" "$here/none" --json "$here/p.json"
says "good.PNG: "
for name in cut.png text.jpg empty.jpeg giant.png; do complains "$here/bad/$name"; done
complains "$here/missing.png: No such file"
complains "the folder $here/none has no PNG or JPEG images"
complains "6 of 7 could not be predicted, as was said above"
[ "$(grep -c '^lockstep' "$here/err")" -eq 7 ] || wrong "should say one sentence for each, and one at the end"
[ "$(grep -c failure "$here/p.json")" -eq 6 ] || wrong "failures are not in the JSON"

# Only the name of a format makes a word a dataset; what is wrong with one is said once, and the others are predicted.
printf 'a,b\n1,2\n3,4\n' >"$here/two.csv"
run 1 "$lockstep" predict "$here/run" "$here/bad/12:30.png" "csv:$here/missing.csv,numbers=all" "csv:$here/two.csv,numbers=all" \
    "$here/bad/good.PNG" --json "$here/p.json" --top 1
says "good.PNG: "
complains "$here/bad/12:30.png: No such file"
complains "$here/missing.csv"
complains "csv:$here/two.csv,numbers=all: its samples have 2 numbers, and the network takes 784"
complains "3 of 4 could not be predicted, as was said above"
[ "$(grep -c '^lockstep' "$here/err")" -eq 4 ] || wrong "should say one sentence for each, and one at the end"
[ "$(grep -c failure "$here/p.json")" -eq 3 ] || wrong "failures are not in the JSON"
refuses 1 "missing.csv" "$lockstep" predict "$here/run" "csv:$here/missing.csv,numbers=all"
! grep -q 'could not be predicted' "$here/err" || wrong "the only one that was asked for is the command's own failure"
refuses 1 "its images have 3 channels, and the network takes 1" "$lockstep" predict "$here/run" synthetic:28x28x3,10,4,4

refuses 2 "which network, and which images?" "$lockstep" predict
refuses 2 "which images?" "$lockstep" predict "$here/run"
refuses 2 "--top: expected a whole number of at least 1" "$lockstep" predict "$here/run" "$here/bad" --top 0
refuses 2 "unknown option --epochs" "$lockstep" predict "$here/run" "$here/bad" --epochs 1
refuses 1 "--input-shape: expected HxWxC" "$lockstep" predict "$here/run" "$here/bad" --input-shape 28xx
refuses 1 "mnist-cnn cannot be built" "$lockstep" predict "$here/run" "$here/bad" --input-shape 28
refuses 1 "cannot write $here/missing/p.csv" "$lockstep" predict "$here/run" "$here/bad" --csv "$here/missing/p.csv"
# Photographs, where they are.
cifar="${LOCKSTEP_DATA:-}/cifar-10-batches-py"
if [ -d "$cifar" ]; then
    agrees "cifar10:$cifar" mnist-linear '"normalize": "dataset", "limit-train": 3200'
else
    echo "CIFAR-10 left out: LOCKSTEP_DATA does not say where it is"
fi
finish
