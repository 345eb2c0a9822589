#!/bin/sh
# Folders of images, from train to predict: the same bits for any number of workers, and a sentence for what is wrong. Run as: images.sh LOCKSTEP
# WRITE_FOLDERS [HOSTS], the last being the library that makes hosts of processes (fake_hosts.c), where the build has MPI.
. "$(dirname "$0")/lib.sh"
write_folders=$1
hosts=${2:-}
# workers N: the option, where there can be several.
workers() { [ -z "$hosts" ] || echo "--workers $1"; }

digest() { sed -n 's/^Weights digest *//p' "$here/out"; }
run 0 "$write_folders" "$here/trees" 9
data=images:$here/trees
recipe="--image-size 16 --augment resized-crop,flip --device ref --epochs 2 --batch-size 8 --micro-batch 2 --verbose 2"

# shellcheck disable=SC2046,SC2086 # options are words
{
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe --save "$here/w.safetensors" --checkpoint "$here/run" --record "$here/r.json"
    says "30 samples to train on, 9 to test on"
    says "images of any size, resized to 16x16; augmented: resized-crop,flip"
    same=$(digest)
    [ -n "$same" ] || wrong "no digest"
    for way in "$(workers 2)" "$(workers 3) --loader-threads 2" "--replicas 3 --loader-threads 3" "$(workers 2) --replicas 2 --strategy reduce-broadcast"; do
        run 0 "$lockstep" train mnist-linear --data "$data" $recipe $way
        [ "$(digest)" = "$same" ] || wrong "$way: $(digest), and with one worker $same"
    done
    # Hosts that share no memory each list the files for themselves.
    if [ -n "$hosts" ]; then
        run 0 env LOCKSTEP_TEST_HOSTS=2 LD_PRELOAD="$hosts" "$lockstep" train mnist-linear --data "$data" $recipe --workers 3
        says "3 workers on 2 hosts"
        [ "$(digest)" = "$same" ] || wrong "two hosts: $(digest), and on one $same"
    fi
    # Half of it, and the rest by another number of workers.
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe --epochs 1 --checkpoint "$here/half"
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe --checkpoint "$here/half" --resume $(workers 2)
    [ "$(digest)" = "$same" ] || wrong "resumed: $(digest), and in one go $same"
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe --no-evaluate --augment flip
    [ "$(digest)" != "$same" ] || wrong "an augmentation that changes nothing"
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe --normalize dataset $(workers 2)
    normalized=$(digest)
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe --normalize dataset
    [ "$(digest)" = "$normalized" ] || wrong "the mean of all files depends on who reads them"
    # As large as the network takes them where nothing is said; another one, with grey pixels.
    run 0 "$lockstep" train mnist-linear --data "$data,channels=1" --device ref --epochs 1 --batch-size 8
    says "resized to 28x28"
    run 0 "$lockstep" train mnist-linear --data "$data/train,validation-split=0.25" --image-size 9 --device ref --epochs 1 --batch-size 8
    says "24 samples to train on, 6 to test on"
}
# The names of the classes are where people look; and a file is taken for what evaluate takes it for.
run 0 "$lockstep" evaluate "$here/run" --json "$here/e.json" --out "$here/figures"
matches 'ash|birch|cedar'
# Of other names the numbers say nothing: refused, and not counted as wrong.
mkdir "$here/renamed"
cp -r "$here/trees/val/ash" "$here/trees/val/birch" "$here/renamed"
cp -r "$here/trees/val/cedar" "$here/renamed/Cedar"
refuses 1 "class 0 is ash in the checkpoint and Cedar in images:$here/renamed" "$lockstep" evaluate "$here/run" --data "images:$here/renamed" --split train
refuses 1 "class 0 is ash in the checkpoint and Cedar in" "$lockstep" predict "$here/run" "$here/trees/val/ash" --data "images:$here/renamed"
mv "$here/renamed/Cedar" "$here/renamed/cedar"
run 0 "$lockstep" evaluate "$here/run" --data "images:$here/renamed" --split train
run 0 "$lockstep" predict "$here/run" "$here"/trees/val/ash "$here"/trees/val/birch "$here"/trees/val/cedar --top 1 --csv "$here/p.csv"
matches 'ash/0.*(jpg|PNG): (ash|birch|cedar) '
right=$(awk -F, '$2 == 1 { n = split($1, part, "/"); sum += "\"" part[n - 1] "\"" == $4 } END { print sum + 0 }' "$here/p.csv")
[ "$right" = "$(sed -n 's/^ *"right": \([0-9]*\),*$/\1/p' "$here/e.json" | head -n 1)" ] || wrong "predict and evaluate differ: $right are right"
run 0 "$lockstep" predict "$here/run" "$here/trees/val/ash" --csv "$here/with.csv"
mv "$here/trees" "$here/elsewhere"
run 0 "$lockstep" predict "$here/run" "$here/elsewhere/val/ash" --csv "$here/without.csv"
sed 's|trees|elsewhere|' "$here/with.csv" | cmp -s - "$here/without.csv" || wrong "without its dataset a checkpoint predicts something else"
mv "$here/elsewhere" "$here/trees"

# Some of it in memory, or all of it: the same weights, and plan counts it.
# shellcheck disable=SC2046,SC2086
{
    for way in "--cache 4K $(workers 2)" "--cache 8G --loader-threads 2 --validate" "--cache 1G --cache-decoded --validate" "--cache 1G --cache-decoded $(workers 2)" \
        "--cache 40K --cache-decoded $(workers 3) --loader-threads 6"; do
        run 0 "$lockstep" train mnist-linear --data "$data" $recipe $way
        [ "$(digest)" = "$same" ] || wrong "$way: $(digest), and without a cache $same"
    done
    refuses 1 "nothing is read of files while training on digits" "$lockstep" train mnist-linear --cache 1G
    refuses 1 "add --cache SIZE" "$lockstep" train mnist-linear --data "$data" $recipe --cache-decoded
    refuses 1 "give more than --cache 2K" "$lockstep" train mnist-linear --data "$data" $recipe --cache 1K --cache-decoded
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe --cache 3K --cache-decoded
    refuses 1 "--cache: " "$lockstep" train mnist-linear --data "$data" $recipe --cache much
    run 0 "$lockstep" plan mnist-linear --data "$data" --image-size 16 --json
    cp "$here/out" "$here/without.json"
    run 0 "$lockstep" plan mnist-linear --data "$data" --image-size 16 --json --cache 1G
    cmp -s "$here/out" "$here/without.json" && wrong "plan does not count a cache"
}

# All that may become of images on the way: the same weights for any number of workers and threads, and evaluate and predict see what training saw.
prepare="--image-size 12 --resize 14 --interpolation pillow-bilinear --mean 104,117,123 --std 58,57,57 --channel-order bgr --device ref --epochs 1
    --augment random-crop,flip,rotate,brightness,contrast,saturation,hue,lighting --batch-size 8 --micro-batch 2 --verbose 2"
# shellcheck disable=SC2046,SC2086
{
    run 0 "$lockstep" train mnist-linear --data "$data" $prepare --checkpoint "$here/prepared"
    says "resized to 12x12; cut out of 14 pixels for the shorter side; interpolation: pillow-bilinear; augmented: random-crop"
    says "(pixel - 104,117,123) / 58,57,57 * 1; channels in the order bgr"
    prepared=$(digest)
    for way in "$(workers 2)" "$(workers 3) --loader-threads 2"; do
        run 0 "$lockstep" train mnist-linear --data "$data" $prepare $way
        [ "$(digest)" = "$prepared" ] || wrong "$way: $(digest), and with one worker $prepared"
    done
    for other in "--channel-order rgb" "--scale 0.5" "--interpolation bicubic" "--resize 15"; do
        run 0 "$lockstep" train mnist-linear --data "$data" $prepare --no-evaluate $other
        [ "$(digest)" != "$prepared" ] || wrong "$other changes nothing"
    done
    refuses 1 "--mean 1,2 has 2 numbers, and the images have 3 channels" "$lockstep" train mnist-linear --data "$data" $prepare --mean 1,2
    refuses 1 "--mean takes a number for each channel, as in 104,117,123, or one for all, not '1,,2'" "$lockstep" train mnist-linear \
        --data "$data" $prepare --mean 1,,2
    refuses 1 "look like numbers for pixels from 0 to 1" "$lockstep" train mnist-linear --data "$data" $prepare \
        --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
    refuses 1 "and --normalize symmetric says something else" "$lockstep" train mnist-linear --data "$data" $prepare --normalize symmetric
    refuses 1 "a deviation is above 0" "$lockstep" train mnist-linear --data "$data" $prepare --std 0
    refuses 1 "resize them to 12 or more" "$lockstep" train mnist-linear --data "$data" $prepare --resize 11
    refuses 2 "--channel-order: 'gbr' is not one of rgb, bgr" "$lockstep" train mnist-linear --data "$data" $prepare --channel-order gbr
    refuses 1 "these have 1 channel" "$lockstep" train mnist-linear --data "$data,channels=1" $prepare --mean 104 --std 58 --augment flip
    refuses 2 "'lanczos' is not one of" "$lockstep" train mnist-linear --data "$data" $prepare --interpolation lanczos
    refuses 1 "hue takes an amount above 0 and up to 0.5" "$lockstep" train mnist-linear --data "$data" $prepare --augment hue=3
}
run 0 "$lockstep" evaluate "$here/prepared" --json "$here/e.json" --out "$here/figures"
run 0 "$lockstep" predict "$here/prepared" "$here"/trees/val/ash "$here"/trees/val/birch "$here"/trees/val/cedar --top 1 --csv "$here/p.csv"
right=$(awk -F, '$2 == 1 { n = split($1, part, "/"); sum += "\"" part[n - 1] "\"" == $4 } END { print sum + 0 }' "$here/p.csv")
[ "$right" = "$(sed -n 's/^ *"right": \([0-9]*\),*$/\1/p' "$here/e.json" | head -n 1)" ] || wrong "predict and evaluate differ: $right are right"
# What the recipe says counts: another order of channels on the command line is another prediction.
run 0 "$lockstep" predict "$here/prepared" "$here"/trees/val/ash --csv "$here/with.csv"
run 0 "$lockstep" predict "$here/prepared" "$here"/trees/val/ash --csv "$here/other.csv" --channel-order rgb
cmp -s "$here/with.csv" "$here/other.csv" && wrong "the order of channels changes nothing in predict"

# The same samples in every format, in one file or in several, are the same training.
mkdir "$here/c"
c=$here/c
run 0 "$lockstep" convert "$data" "tar:$c/t.tar,test=$c/v.tar"
says "30 and 9 samples written"
run 0 "$lockstep" convert "$data" "tfrecord:$c/t.tfr,test=$c/v.tfr" --shards 4
run 0 "$lockstep" convert "$data" "recordio:$c/t.rec,test=$c/v.rec"
run 0 "$lockstep" convert "$data" "lmdb:$c/t_lmdb,test=$c/v_lmdb" --workers 3
run 0 "$lockstep" convert "tfrecord:$c/t-{00000..00003}-of-00004.tfr,test=$c/v.tfr" "images:$c/again"
for other in "tar:$c/t.tar,test=$c/v.tar" "tfrecord:$c/t-*.tfr,test=$c/v.tfr" "recordio:$c/t.rec,test=$c/v.rec" "images:$c/again" \
    "lmdb:$c/t_lmdb,test=$c/v_lmdb"; do
    # shellcheck disable=SC2046,SC2086
    run 0 "$lockstep" train mnist-linear --data "$other" $recipe $(workers 2)
    [ "$(digest)" = "$same" ] || wrong "$other: $(digest), and in folders $same"
done
# And images that are pixels: as PNG.
run 0 "$lockstep" train mnist-linear --data synthetic:9x9x3,4,60,20 --device ref --epochs 1 --batch-size 8
memory=$(digest)
run 0 "$lockstep" convert synthetic:9x9x3,4,60,20 "recordio:$c/s.rec,test=$c/s-test.rec"
run 0 "$lockstep" train mnist-linear --data "recordio:$c/s.rec,test=$c/s-test.rec" --image-size 9 --device ref --epochs 1 --batch-size 8
[ "$(digest)" = "$memory" ] || wrong "pixels in records: $(digest), and in memory $memory"
run 0 "$lockstep" convert synthetic:9x9x3,4,60,20 "lmdb:$c/s,test=$c/s-test" --pixels
run 0 "$lockstep" train mnist-linear --data "lmdb:$c/s,test=$c/s-test" --image-size 9 --device ref --epochs 1 --batch-size 8
[ "$(digest)" = "$memory" ] || wrong "pixels in a database: $(digest), and in memory $memory"
refuses 1 "is there already: name another folder" "$lockstep" convert "$data" "lmdb:$c/t_lmdb,test=$c/v2"
# Smaller, by any number of threads: the same files.
for threads in 1 3; do
    run 0 "$lockstep" convert "$data" "tar:$c/small-$threads.tar,test=$c/small-test-$threads.tar" --resize 12 --quality 80 --workers $threads
done
cmp -s "$c/small-1.tar" "$c/small-3.tar" || wrong "three threads convert to other files than one"
run 0 "$lockstep" data "tar:$c/small-1.tar,test=$c/small-test-1.tar" --json "$c/small.json"
grep -q '"least": 12' "$c/small.json" || wrong "the shorter side is not 12: $(cat "$c/small.json")"
refuses 1 "pixels that are not encoded can go to lmdb" "$lockstep" convert "$data" "tar:$c/p.tar,test=$c/q.tar" --pixels
refuses 1 "have no quality" "$lockstep" convert "$data" "lmdb:$c/p,test=$c/q" --pixels --quality 90
refuses 1 "has a test set, which would be lost" "$lockstep" convert "$data" "tar:$c/lost.tar"
refuses 1 "what is written is images:DIR, tar:FILE" "$lockstep" convert "$data" "zip:$c/x.zip"
refuses 1 "cannot write $here/nowhere/x.tar" "$lockstep" convert "$data" "tar:$here/nowhere/x.tar,test=$c/y.tar"
refuses 1 "and 1 for folders" "$lockstep" convert "$data" "images:$c/more" --shards 2
refuses 2 "into what?" "$lockstep" convert "$data"
[ ! -e "$c/lost.tar" ] || wrong "a file of a conversion that was refused"

run 0 "$lockstep" plan mnist-linear --data "$data" --image-size 16
run 0 "$lockstep" datasets
says "images:DIR"
refuses 1 "is an image beside the folders of the classes" "$lockstep" train mnist-linear --data "images:$here/trees/train/ash"
refuses 1 "is not a folder" "$lockstep" train mnist-linear --data "images:$here/nowhere"
refuses 2 "from 0 to 1024" "$lockstep" train mnist-linear --data digits --loader-threads 1025
# Replicas share what a host has.
run 0 "$lockstep" train mnist-linear --data "$data" --device ref --epochs 1 --batch-size 8 --micro-batch 2 --replicas 2 --loader-threads 5 --record "$here/loaders.json"
grep -q '"loader_threads": 5,' "$here/loaders.json" || wrong "a host with other than five loader threads"
run 0 "$lockstep" train mnist-linear --data "$data" --device ref --epochs 1 --batch-size 8 --micro-batch 2 --replicas 3 --loader-threads 1 --record "$here/loaders.json"
grep -q '"loader_threads": 3,' "$here/loaders.json" || wrong "three replicas with other than three loader threads"
# A server computes nothing, and takes none of them.
if [ -n "$hosts" ]; then
    run 0 "$lockstep" train mnist-linear --data "$data" --device ref --epochs 1 --batch-size 8 --micro-batch 4 --workers 3 --replicas 1 --strategy parameter-server \
        --servers 1 --loader-threads 2 --record "$here/loaders.json"
    grep -q '"loader_threads": 2,' "$here/loaders.json" || wrong "two workers beside a server with other than two loader threads"
fi
head -c 300 "$here/trees/train/ash/001.jpg" >"$here/cut.jpg"
mv "$here/cut.jpg" "$here/trees/train/ash/001.jpg"
for way in "" "$(workers 2)"; do
    # shellcheck disable=SC2046,SC2086
    run 1 "$lockstep" train mnist-linear --data "$data" --device ref --epochs 1 --batch-size 8 --micro-batch 4 $way
    complains "trees/train/ash/001.jpg is damaged"
done

# Another stands in for it, the same one for any number of workers and threads.
recipe="--image-size 16 --augment resized-crop,flip --device ref --epochs 2 --batch-size 8 --micro-batch 2 --verbose 2 --broken skip"
# shellcheck disable=SC2086
run 0 "$lockstep" train mnist-linear --data "$data" $recipe --record "$here/broken.json"
says "Broken samples"
says "trees/train/ash/001.jpg is damaged"
grep -q '"samples_replaced": 2,' "$here/broken.json" || wrong "samples_replaced is not 2"
skipped=$(digest)
for way in "--replicas 3 --loader-threads 3" "$(workers 3)" "--cache 1G --cache-decoded"; do
    # shellcheck disable=SC2086
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe $way
    [ "$(digest)" = "$skipped" ] || wrong "$way: with a broken file $(digest), and alone $skipped"
done

# What there is, and what is broken in it: all of it, in one go.
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*\$/\1/p" "$here/d.json" | head -n 1; }
run 1 "$lockstep" data "$data" --json "$here/d.json" --sheet "$here/sheet.png" --threads 3
complains "trees/train/ash/001.jpg is damaged"
complains "1 of 39 samples cannot be read, as was said above"
matches 'samples +30 +9$'
matches 'broken +1 +0$'
matches 'height \(median\) +24 to 51 \([0-9]+\)'
matches '^ash +9 +3$'
matches '^cedar +11 +4$'
[ "$(number broken)" = 1 ] && [ "$(number looked_at)" = 30 ] || wrong "the JSON has other numbers"
bytes=$(find "$here/trees/train" -name '*.*' ! -path '*ash/001.jpg' -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
[ "$(number bytes)" = "$bytes" ] || wrong "$(number bytes) bytes, and the files have $bytes"
run 0 "$lockstep" predict "$here/run" "$here/sheet.png" --top 1
run 0 "$lockstep" data digits --samples 50 --rate 1000
matches 'looked at +50 +50$'
matches 'bytes of a sample +785 B to 785 B'
says "a training at 1000 samples per second reads 785 kB a second"
refuses 2 "which dataset?" "$lockstep" data
refuses 1 "there is no dataset \"imags\"" "$lockstep" data imags:x
refuses 1 "cannot write $here/missing/x.png" "$lockstep" data digits --sheet "$here/missing/x.png"

# Photographs, where there are some.
if [ -d "${LOCKSTEP_DATA:-/nowhere}/images-small" ]; then
    flowers="train mnist-linear --data images:$LOCKSTEP_DATA/images-small --image-size 24 --augment resized-crop,flip --device ref --epochs 1 --batch-size 16 --micro-batch 4 --verbose 2"
    # shellcheck disable=SC2046,SC2086
    {
        run 0 "$lockstep" $flowers
        says "80 samples to train on, 25 to test on"
        same=$(digest)
        run 0 "$lockstep" $flowers $(workers 3) --loader-threads 2
        [ "$(digest)" = "$same" ] || wrong "flowers: $(digest), and with one worker $same"
    }
else
    echo "skipped: the photographs (LOCKSTEP_DATA is not set, or has no images-small)"
fi
finish
