#!/bin/sh
# What a run leaves out, arrays that are written, weights of classes, what reading costs, and data that go away while they are in use. Run as: data.sh LOCKSTEP
# WRITE_FOLDERS [HOSTS], as images.sh.
. "$(dirname "$0")/lib.sh"
write_folders=$1
hosts=${2:-}
workers() { [ -z "$hosts" ] || echo "--workers $1"; }

digest() { sed -n 's/^Weights digest *//p' "$here/out"; }
run 0 "$write_folders" "$here/trees" 9
data=images:$here/trees
recipe="--image-size 16 --device ref --epochs 2 --batch-size 8 --micro-batch 2 --verbose 2"

# The same samples are left out of every format, by numbers, and of some by names: the same weights.
mkdir "$here/c"
c=$here/c
run 0 "$lockstep" convert "$data" "tar:$c/t.tar,test=$c/v.tar"
run 0 "$lockstep" convert "$data" "lmdb:$c/t,test=$c/v"
run 0 "$lockstep" convert "$data" "recordio:$c/t.rec,test=$c/v.rec"
printf '# not ours\ntrain:3\ntrain:10-12\ntest:0\n' >"$c/numbers"
# shellcheck disable=SC2046,SC2086 # options are words
{
    run 0 "$lockstep" train mnist-linear --data "$data,exclude=$c/numbers" $recipe
    says "26 samples to train on, 8 to test on"
    ! grep -q 'as the first steps were measured' "$here/out" || wrong "a few milliseconds were measured"
    left=$(digest)
    for other in "tar:$c/t.tar,test=$c/v.tar" "lmdb:$c/t,test=$c/v" "recordio:$c/t.rec,test=$c/v.rec"; do
        run 0 "$lockstep" train mnist-linear --data "$other,exclude=$c/numbers" $recipe $(workers 2)
        [ "$(digest)" = "$left" ] || wrong "$other without some: $(digest), and of folders $left"
    done
    # A name goes out of both sets that have it, so there is one set here.
    refuses 1 "the dataset tar has no test set" "$lockstep" train mnist-linear --data "tar:$c/t.tar,exclude=$c/numbers" $recipe
    printf 'train:3\ntrain:10-12\n' >"$c/numbers"
    printf '0000000003\n0000000010\n0000000011\n0000000012\n' >"$c/names"
    run 0 "$lockstep" train mnist-linear --data "tar:$c/t.tar,exclude=$c/numbers" $recipe
    left=$(digest)
    for other in "tar:$c/t.tar" "lmdb:$c/t"; do
        run 0 "$lockstep" train mnist-linear --data "$other,exclude=$c/names" $recipe
        [ "$(digest)" = "$left" ] || wrong "$other without names: $(digest), and by numbers $left"
    done
    run 0 "$lockstep" train mnist-linear --data "tar:$c/t.tar" $recipe
    [ "$(digest)" != "$left" ] || wrong "leaving samples out changes nothing"
    # How many threads read them is told where training was long enough to find out.
    for epochs in 8 32 128; do  # the faster the machine, the longer
        run 0 "$lockstep" train mnist-cnn --data "$data" --image-size 48 --batch-size 8 --micro-batch 2 --epochs $epochs --no-evaluate --verbose 2
        ! grep -q 'as the first steps were measured' "$here/out" || break
    done
    matches '^Loader threads +[0-9]+ of this host, as the first steps were measured'
}
printf 'train:3\ntrain:99\n' >"$c/numbers"
refuses 1 "line 2 of $c/numbers: the training set of images has no sample 99 to leave out: they go from 0 to 29" "$lockstep" train mnist-linear \
    --data "$data,exclude=$c/numbers" --device ref
refuses 1 "the files to leave out" "$lockstep" data "$data,exclude=$c/nothing"
refuses 1 "have numbers alone" "$lockstep" data "recordio:$c/t.rec,exclude=$c/names"
# What is broken has the number that leaves it out.
cp "$c/t.rec" "$c/broken.rec"
printf 'XXXX' | dd of="$c/broken.rec" bs=1 seek=36 conv=notrunc 2>/dev/null
printf 'train:5\n' >"$c/numbers"
run 1 "$lockstep" data "recordio:$c/broken.rec,exclude=$c/numbers" --no-storage
complains "sample 0 of the training set of recordio"
printf 'train:5\ntrain:0\n' >"$c/numbers"
run 0 "$lockstep" data "recordio:$c/broken.rec,exclude=$c/numbers" --no-storage

# Arrays: both sets in a file, or Caffe's layout in two; the same training as of what they were made of.
run 0 "$lockstep" train mnist-linear --data synthetic:9x9x3,4,60,20 --device ref --epochs 1 --batch-size 8 --micro-batch 4
memory=$(digest)
run 0 "$lockstep" convert synthetic:9x9x3,4,60,20 "hdf5:$c/k.h5"
run 0 "$lockstep" convert synthetic:9x9x3,4,60,20 "hdf5:$c/a.h5,layout=caffe,test=$c/b.h5" --workers 2
run 0 "$lockstep" convert "hdf5:$c/k.h5" "numpy:$c/k.npz"
says "60 and 20 samples written"
for other in "hdf5:$c/k.h5" "hdf5:$c/a.h5,test=$c/b.h5" "numpy:$c/k.npz"; do
    # shellcheck disable=SC2046
    run 0 "$lockstep" train mnist-linear --data "$other" --device ref --epochs 1 --batch-size 8 --micro-batch 4 $(workers 2)
    [ "$(digest)" = "$memory" ] || wrong "$other: $(digest), and in memory $memory"
done
run 0 "$lockstep" convert "$data" "numpy:$c/trees.npz" --image-size 20
run 0 "$lockstep" data "numpy:$c/trees.npz"
matches 'samples +30 +9$'
refuses 1 "an array has images of one size; --image-size N makes all of them N x N" "$lockstep" convert "$data" "hdf5:$c/trees.h5"
# By the numbers that the samples have where none are left out.
printf 'train:0-2\n' >"$c/numbers"
refuses 1 "and sample 3 of the training set" "$lockstep" convert "$data,exclude=$c/numbers" "hdf5:$c/trees.h5"
[ ! -e "$c/trees.h5" ] || wrong "a file of a conversion that was refused"

# Weights of classes. Twice of all is twice the rate, to the bit; rows of labels are the same for any number of workers; evaluation has none.
sgd="--data synthetic:6x6x1,3,60,20 --device ref --epochs 2 --batch-size 8 --micro-batch 2 --optimizer sgd --verbose 2"
# shellcheck disable=SC2046,SC2086
{
    run 0 "$lockstep" train mnist-linear $sgd --lr 0.25
    twice=$(digest)
    run 0 "$lockstep" train mnist-linear $sgd --lr 0.125 --class-weight 2,2,2
    [ "$(digest)" = "$twice" ] || wrong "weights of 2: $(digest), and twice the rate $twice"
    run 0 "$lockstep" train mnist-linear $sgd --lr 0.125 --class-weight balanced --label-smoothing 0.1
    balanced=$(digest)
    for way in "$(workers 2)" "--replicas 3 --loader-threads 2"; do
        run 0 "$lockstep" train mnist-linear $sgd --lr 0.125 --class-weight balanced --label-smoothing 0.1 $way
        [ "$(digest)" = "$balanced" ] || wrong "$way: weights of classes give $(digest), and alone $balanced"
    done
    run 0 "$lockstep" train mnist-linear $sgd --lr 0 --class-weight 5,1,9 --record "$here/weighted.json"
    run 0 "$lockstep" train mnist-linear $sgd --lr 0 --record "$here/plain.json"
    a=$(grep '"test_loss"' "$here/weighted.json") b=$(grep '"test_loss"' "$here/plain.json")
    [ "$a" = "$b" ] || wrong "weights in evaluation: $a, not $b"
    run 0 "$lockstep" plan mnist-linear --data synthetic:6x6x1,3,60,20 --class-weight balanced
    refuses 1 "--class-weight has 2 numbers, and model mnist-linear tells 3 classes apart" "$lockstep" train mnist-linear $sgd --class-weight 1,2
    refuses 1 "a number for each class, above 0 and below 1e6" "$lockstep" train mnist-linear $sgd --class-weight 1,0,2
    refuses 1 "leave --class-weight out" "$lockstep" train lstm-lm-mini --data sentences --class-weight balanced --device ref
}

# Mixed samples: the same weights for any number of workers and threads, others than without; evaluation has none.
# shellcheck disable=SC2046,SC2086
{
    mix="--mixup 0.4 --label-smoothing 0.1 --augment flip"
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe $mix
    mixed=$(digest)
    for way in "$(workers 3)" "--replicas 2 --loader-threads 3" "--class-weight 1,1,1"; do
        run 0 "$lockstep" train mnist-linear --data "$data" $recipe $mix $way
        [ "$(digest)" = "$mixed" ] || wrong "$way: mixed samples give $(digest), and alone $mixed"
    done
    run 0 "$lockstep" train mnist-linear --data "$data" $recipe --label-smoothing 0.1 --augment flip
    [ "$(digest)" != "$mixed" ] || wrong "mixing changes nothing"
    run 0 "$lockstep" train mnist-linear $sgd --lr 0 --mixup 1 --record "$here/weighted.json"
    a=$(grep '"test_loss"' "$here/weighted.json")
    [ "$a" = "$b" ] || wrong "mixed samples in evaluation: $a, not $b"
    run 0 "$lockstep" plan mnist-linear --data "$data" --image-size 16 --mixup 1
    refuses 1 "mixup is 0.01; it is from 0.05 to 1" "$lockstep" train mnist-linear $sgd --mixup 0.01
    refuses 1 "leave --mixup out" "$lockstep" train lstm --data roles --mixup 1 --device ref
}

# Top-5 where there are more than ten classes.
run 0 "$lockstep" train mnist-linear --data synthetic:6x6x1,12,120,60 --device ref --epochs 1 --record "$here/r.json" --verbose 2
matches '^Test top-5 accuracy +[0-9.]+ %$'
grep -q '"test_top_5_accuracy": 0\.' "$here/r.json" && grep -q '"train_top_5_accuracy": 0\.' "$here/r.json" || wrong "no top-5 in the record"
run 0 "$lockstep" report "$here/r.json"
matches 'top-5'
run 0 "$lockstep" train mnist-linear --data synthetic:6x6x1,10,60,20 --device ref --epochs 1 --verbose 2
! grep -q 'top-5' "$here/out" || wrong "top-5 of ten classes"

# What is read, by whom, and what it comes from.
run 0 "$lockstep" data "$data" --rate 100000000 --nodes 4 --json "$here/d.json"
says "each of 4 nodes: "
says "what the files lie on gives "
says "files a second that the system has looked at before: "
says "busy, by the processor's own time, and "
says "is the limit, and too slow: "
grep -q '"files": 30' "$here/d.json" && grep -q '"files_opened_per_second": [1-9]' "$here/d.json" || wrong "no storage in the JSON"
grep -q '"file_system_of_servers": ' "$here/d.json" && grep -q '"processor_seconds": [0-9]' "$here/d.json" || wrong "the JSON does not say what was measured"
run 0 "$lockstep" data "$data" --rate 0.001
matches 'is the limit: up to [0-9]+ samples a second on a node like this, and 0.001 are wanted'
# Without storage there is no limit to tell, and of data in memory none.
for what in "$data --no-storage" "digits --samples 50"; do
    # shellcheck disable=SC2086
    run 0 "$lockstep" data $what --rate 100000000
    ! grep -q 'is the limit' "$here/out" || wrong "$what: a limit, and storage was not measured"
done
run 0 "$lockstep" data digits --samples 50 --json "$here/d.json"
grep -q '"storage": null' "$here/d.json" || wrong "storage of data in memory"
bytes=$(find "$here/trees/train" -name '*.*' -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
run 0 "$lockstep" plan mnist-linear --data "$data" --image-size 16 --workers 4 --hosts 2 --rate 500
matches '^Data: [0-9.]+ kB are read for a sample, '
says "At 500 samples a second"
run 0 "$lockstep" plan mnist-linear --data "$data" --image-size 16
says "At 1,000 samples a second"
run 0 "$lockstep" plan mnist-linear --data "$data" --image-size 16 --json
grep -q "\"stored_bytes\": $bytes" "$here/out" || wrong "plan's JSON has not the $bytes bytes of the files"

# Files that go away in mid-epoch: a sentence, on any number of workers, and nothing hangs (run gives up after two minutes).
for way in "" "$(workers 2)" "--loader-threads 3 --cache 1K"; do
    cp -r "$here/trees" "$here/going"
    : >"$here/out" # what the run before said is not what this one says
    # Long enough for the files to go while it trains.
    # shellcheck disable=SC2086
    timeout -k 10 120 "$lockstep" train mnist-linear --data "images:$here/going" --device ref --epochs 100000 --batch-size 8 --micro-batch 2 --verbose 2 $way \
        >"$here/out" 2>"$here/err" </dev/null &
    job=$!
    tries=0
    until grep -q '^Epoch 2/' "$here/out" || [ $tries -eq 200 ]; do
        sleep 0.05
        tries=$((tries + 1))
    done
    rm "$here/going/train/ash/001.jpg"
    what="removed in mid-epoch $way"
    wait $job
    got=$?
    [ "$got" -eq 1 ] || wrong "$what: exit status $got, expected 1"
    complains "going/train/ash/001.jpg: it was there when this run began"
    rm -rf "$here/going"
done
# A class that is missing, a class without images, a set without any.
cp -r "$here/trees" "$here/less"
rm "$here"/less/train/ash/*
refuses 1 "less/train/ash has no images" "$lockstep" train mnist-linear --data "images:$here/less" --device ref
rmdir "$here/less/train/ash"
refuses 1 "less/val/ash is a class that the training set does not have" "$lockstep" train mnist-linear --data "images:$here/less" --device ref
rm -r "$here"/less/val/*
refuses 1 "less/val has no images" "$lockstep" train mnist-linear --data "images:$here/less" --device ref
rm -r "$here"/less/train
mkdir "$here/less/train"
refuses 1 "has no folders of classes" "$lockstep" train mnist-linear --data "images:$here/less" --device ref
# A disk that is full where the index is kept: the run goes on, and says so. (A small file system, where one can be made.)
mkdir "$here/full"
if mount -t tmpfs -o size=4k tmpfs "$here/full" 2>/dev/null; then
    run 0 env XDG_CACHE_HOME="$here/full" LOCKSTEP_INDEX_SECONDS=0 sh -c "find $here/trees -exec touch -d 2020-02-02 {} + && exec $lockstep data $data --no-storage"
    says "cannot be kept in $here/full/lockstep"
    refuses 1 "cannot write $here/full/x.npz: No space left on device" "$lockstep" convert synthetic:32x32x3,4,600,0 "numpy:$here/full/x.npz"
    refuses 1 "cannot write $here/full/x.h5: " "$lockstep" convert synthetic:32x32x3,4,600,0 "hdf5:$here/full/x.h5"
    refuses 1 "cannot write $here/full/x.rec: No space left on device" "$lockstep" convert synthetic:32x32x3,4,600,0 "recordio:$here/full/x.rec"
    [ -z "$(find "$here/full" -type f)" ] || wrong "a full disk has half a file: $(find "$here/full" -type f)"
    umount "$here/full"
fi

# Numbers themselves, and numbers that are learned: the same weights for any number of workers, and what was learned is told.
awk 'BEGIN { print "a,b,kind,y,z"; for (i = 0; i < 240; i++) { a = i % 16 / 8 - 1; b = int(i / 16) / 8 - 1; print a "," b "," (a > b ? "more" : "less") "," 2 * a - b + 3 "," b / 2 } }' >"$here/n.csv"
learn="--device ref --epochs 20 --batch-size 24 --micro-batch 6 --optimizer sgd --lr 0.5 --verbose 2"
table="csv:$here/n.csv,numbers=a|b,validation-split=0.25"
# shellcheck disable=SC2046,SC2086 # options are words
{
    run 0 "$lockstep" train mnist-linear --data "$table,targets=y|z" $learn --checkpoint "$here/run-n"
    learned=$(digest)
    matches '^Test loss +0\.00'
    ! grep -q 'Test accuracy' "$here/out" || wrong "an accuracy of numbers"
    run 0 "$lockstep" train mnist-linear --data "$table,targets=y|z" $learn $(workers 3)
    [ "$(digest)" = "$learned" ] || wrong "numbers, three workers: $(digest), and alone $learned"
    run 0 "$lockstep" evaluate "$here/run-n"
    matches '^Mean absolute error +0\.0'
    # Rows without what is learned, in any form of the table's columns.
    printf 'b,a\n0.5,-0.5\n0,0\n' >"$here/new.csv"
    run 0 "$lockstep" predict "$here/run-n" "csv:$here/new.csv,numbers=a|b" --csv "$here/p.csv"
    matches 'new.csv,numbers=a\|b train:0: y 1\.[45][0-9]*, z 0\.2[0-9]*$'
    matches 'train:1: y (2\.9|3)[0-9.]*, z '
    [ "$(wc -l <"$here/p.csv")" = 5 ] || wrong "two rows of two numbers are not four lines"
    # By the columns' names, wherever they stand, and whatever stands beside them.
    printf 'what,b,a,y\n7,0.5,-0.5,1\n7,0,0,1\n' >"$here/more.csv"
    sed 's/^[^:]*://' "$here/out" | grep -o 'train:.*' >"$here/by-order"
    for named in new.csv,numbers=all more.csv,numbers=all 'new.csv,numbers=b|a'; do
        run 0 "$lockstep" predict "$here/run-n" "csv:$here/$named"
        grep -o 'train:.*' "$here/out" | cmp -s - "$here/by-order" || wrong "$named: $(cat "$here/out")"
    done
    refuses 1 'leaves out the column "b" of' "$lockstep" predict "$here/run-n" "csv:$here/new.csv,numbers=a"
    refuses 1 "names the column \"what\" of $here/more.csv, which the network was not trained on" "$lockstep" predict "$here/run-n" "csv:$here/more.csv,numbers=a|b|what"
    # A number may have the usual name of a class.
    sed 's/^a,b,/category,b,/' "$here/n.csv" >"$here/usual.csv"
    run 0 "$lockstep" train mnist-linear --data "csv:$here/usual.csv,numbers=category|b,targets=y|z" --device ref --epochs 1 --checkpoint "$here/run-u"
    printf 'b,category\n0.5,-0.5\n' >"$here/new-usual.csv"
    run 0 "$lockstep" predict "$here/run-u" "csv:$here/new-usual.csv,numbers=all"
    printf 'c,a\n1,1\n' >"$here/less.csv"
    refuses 1 'less.csv names no column "b", and the network was trained on one of that name' "$lockstep" predict "$here/run-n" "csv:$here/less.csv,numbers=all"
    run 1 "$lockstep" predict "$here/run-n" "$here/new.csv"
    complains "name it as a dataset, csv:$here/new.csv,numbers=all"
    refuses 1 "samples of numbers are named as a dataset" "$lockstep" predict "$here/run-n" "$(find "$here/trees/train" -name '*.*' -type f | head -n 1)"
    refuses 1 "its images are files: name these, or their folders" "$lockstep" predict "$here/run-n" "images:$here/trees"
    awk -F, '{ print $1 "," $2 "," $5 "," $4 }' "$here/n.csv" >"$here/turned.csv"
    awk -F, '{ print $2 "," $5 "," $1 "," $4 }' "$here/n.csv" | awk -F, '{ print $1 "," $4 "," $3 "," $2 }' >"$here/turned-b.csv"
    run 0 "$lockstep" evaluate "$here/run-n" --data "csv:$here/turned-b.csv,numbers=all,targets=y|z,validation-split=0.25"
    matches '^Mean absolute error +0\.0'
    refuses 1 "target 0 is y in the checkpoint and z in csv:$here/turned.csv" "$lockstep" evaluate "$here/run-n" --data "csv:$here/turned.csv,numbers=a|b,targets=y|z" --split train
    ! grep -q 'names=FILE' "$here/err" || wrong "names=FILE is advised for targets"
    run 0 "$lockstep" train mnist-linear --data "$table,targets=y|z" $learn --class-weight none
    run 0 "$lockstep" train mnist-linear --data "$table,label=kind" $learn
    matches '^Test accuracy +(9[0-9]|100)\.'
    refuses 1 "leave label smoothing, mixup and class weights out" "$lockstep" train mnist-linear --data "$table,targets=y" $learn --label-smoothing 0.1
    # Of images: a number for each, which predict tells by its name.
    (cd "$here/trees/train" && echo file,size,half && find . -name '*.*' -type f | sort | awk '{ print $0 "," NR / 10 "," NR / 20 }') >"$here/sizes.csv"
    run 0 "$lockstep" train mnist-linear --data "csv:$here/sizes.csv,root=$here/trees/train,targets=size|half" $recipe --checkpoint "$here/run-s"
    one=$(find "$here/trees/train" -name '*.*' -type f | sort | head -n 1)
    run 0 "$lockstep" predict "$here/run-s" "$one" --csv "$here/p.csv"
    matches ': size -?[0-9.e-]+, half -?[0-9.e-]+$'
    grep -q '^file,rank,target,name,value' "$here/p.csv" || wrong "a table of predictions without values"
    # Images that are learned of images, however they are cut and mirrored: here of themselves.
    (cd "$here/trees/train" && echo file,clean && find . -name '*.*' -type f | sort | awk '{ print $0 "," $0 }') >"$here/pairs.csv"
    pairs="csv:$here/pairs.csv,root=$here/trees/train,target=clean"
    run 0 "$lockstep" train autoencoder --data "$pairs" $recipe --augment flip,resized-crop --noise 0.3
    pair=$(digest)
    run 0 "$lockstep" train autoencoder --data "$pairs" $recipe --augment flip,resized-crop --noise 0.3 $(workers 3) --cache 8K
    [ "$(digest)" = "$pair" ] || wrong "pairs of images, three workers: $(digest), and alone $pair"
    # What is learned is what the target would be without noise: that of the images alone.
    run 0 "$lockstep" train autoencoder --data "csv:$here/sizes.csv,root=$here/trees/train,label=size" $recipe --augment flip,resized-crop --noise 0.3
    [ "$(digest)" = "$pair" ] || wrong "images of themselves give $(digest) as images, and $pair as pairs"
    # Of two sizes they are learned as a whole, and never cut.
    awk -F, 'NR == 1 { print; next } { file[NR] = $1 } END { for (i = 2; i <= NR; i++) print file[i] "," file[i < NR ? i + 1 : 2] }' "$here/pairs.csv" >"$here/others.csv"
    pairs="csv:$here/others.csv,root=$here/trees/train,target=clean"
    run 0 "$lockstep" train autoencoder --data "$pairs" $recipe --augment flip
    for cut in "--augment resized-crop" "--resize 20"; do
        run 1 "$lockstep" train autoencoder --data "$pairs" $recipe $cut
        complains "so that they cannot be cut alike"
    done
}
finish
