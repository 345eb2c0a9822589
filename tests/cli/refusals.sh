#!/bin/sh
# What only a job finds out: one sentence from one worker, exit status 1, nobody hangs; alone and with two workers.
. "$(dirname "$0")/lib.sh"

each() {
    sentence=$1
    shift
    refuses 1 "$sentence" "$lockstep" train mnist-mlp "$@"
    [ -n "$mpirun" ] && refuses 1 "$sentence" "$lockstep" train mnist-mlp --workers 2 "$@"
}

each "there is no dataset \"digit\" (did you mean digits?); there are: mnist:DIR" --data digit
each "there is no dataset \"$here\": before a folder comes the format of its files, as in mnist:DIR" --data "$here"
each "$here/nowhere" --data "mnist:$here/nowhere"
each "model mnist-mlp tells 5 classes apart, dataset digits has 10: give it as many" --classes 5
each "is larger than the global batch of 100" --batch-size 100 --micro-batch 130
each "replicas" --batch-size 64 --micro-batch 32 --replicas 8
each "crop and resized-crop both choose" --augment crop,resized-crop
each "7x7 pixels" --image-size 7 --augment crop
each "cannot write the record $here/none/run.json: No such file or directory" --record "$here/none/run.json"
each "cannot write the record $here: Is a directory" --record "$here"
each "cannot write the weights $here/none/weights: No such file or directory" --save "$here/none/weights"
each "cannot read the weights $here/none: No such file or directory" --weights "$here/none"
each "$here is no regular file, as weights are" --weights "$here" --weights-by-name
[ "$(ls "$here")" = "$(printf 'err\nout')" ] || wrong "checking a record left something behind"
if [ -n "$mpirun" ]; then
    refuses 1 "workers" "$lockstep" train mnist-mlp --workers 3 --batch-size 64 --micro-batch 32
fi
printf '\2\0\0\0\0\0\0\0{}' >"$here/empty"
each "$here/empty has not the weights of mnist-mlp: parameter 'dense/kernel' (784, 128) is not in it" --weights "$here/empty"
rm "$here/empty"
refuses 1 "works on volumes or clips (None, D, H, W, C), but its input has shape (None, 28, 28, 1)" "$lockstep" train frame-prediction --data digits
refuses 1 "are numbers, not pixels of u8: they are taken as they are, and cannot be resized" "$lockstep" train frame-prediction \
    --data moving-digits --image-size 16
refuses 1 "are numbers, not pixels of u8" "$lockstep" train frame-prediction --data moving-digits --noise 0.1
refuses 1 'the dataset sentences has no field "label" of a single class number, which a classifier is trained on: its targets are for language models' \
    "$lockstep" train lstm --data sentences
printf 'words = input 64 i32\nembedding input_dim=128 output_dim=4\ngru units=4\ndense units=10\n' >"$here/words.net"
refuses 1 'nothing for input "words" of model words: an input has the name of the field that it reads; there are tokens, label' \
    "$lockstep" train "$here/words.net" --data roles
rm "$here/words.net"
refuses 1 "the dataset moving-digits takes no argument" "$lockstep" train frame-prediction --data moving-digits:5
# One worker that was told something else than the others.
if [ -n "$mpirun" ]; then
    for options in "--seed" "--no-evaluate --epochs" "--limit-train 128 --data digits --micro-batch"; do
        # shellcheck disable=SC2016,SC2086 # expanded by the worker; words on purpose
        refuses 1 "worker 1" $mpirun 2 sh -c 'exec "$0" train mnist-mlp "$@" $((${OMPI_COMM_WORLD_RANK:-$PMI_RANK} + 1))' \
            "$lockstep" $options
    done
    # shellcheck disable=SC2016,SC2086
    refuses 1 "data=" $mpirun 2 sh -c \
        '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && set -- --data mnist:nowhere; exec "$0" train mnist-mlp "$@"' "$lockstep"
    # shellcheck disable=SC2016,SC2086
    refuses 1 "weights=" $mpirun 2 sh -c \
        '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && set -- --weights nowhere; exec "$0" train mnist-mlp "$@"' "$lockstep"
    # shellcheck disable=SC2016,SC2086
    refuses 1 "until-accuracy=" $mpirun 2 sh -c \
        '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && set -- --until-accuracy 0.5; exec "$0" train mnist-mlp --until-accuracy 0.6 "$@"' "$lockstep"
    # shellcheck disable=SC2016,SC2086
    refuses 1 "classes=" $mpirun 2 sh -c \
        '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] && set -- --classes 12; exec "$0" train mnist-mlp "$@"' "$lockstep"
fi
# A run that ends in what is no number has failed, says since when, and has no digest; a study's row says so.
what="training that diverges"
diverges() {
    run 1 "$lockstep" train mnist-mlp --limit-train 640 --limit-test 100 --epochs 3 --optimizer sgd --verbose 2 "$@"
    complains "diverged"
    grep -q "Weights digest\|Test accuracy" "$here/out" && wrong "$what: claims a result"
    [ "$(grep -c '^lockstep' "$here/err")" -eq 1 ] || wrong "$what: should say one sentence, once"
}
diverges --lr 1e10
complains "training diverged: the loss of step 4 in epoch 1 is no finite number any more; before it was "
diverges --lr 9e29 --weight-decay 9e29 --limit-train 64 --epochs 1 --batch-size 64 --save "$here/weights" --record "$here/run.json"
complains "the weights after step 1 in epoch 1 are no finite numbers any more. The first such number was in the weights "
[ -e "$here/weights" ] && wrong "$what: saves weights"
[ -e "$here/run.json" ] && wrong "$what: has a record"
[ -n "$mpirun" ] && diverges --lr 1e10 --workers 2
run 1 "$lockstep" scale mnist-mlp --workers 1 --limit-train 640 --limit-test 100 --epochs 1 --optimizer sgd --lr 1e10 --out "$here/study"
says "training diverged: the loss of step"
grep -q "training diverged" "$here/study/results.md" || wrong "$what: the study's table does not say so"
rm -rf "$here/study"
# oneDNN believes what this says of the machine.
ONEDNN_MAX_CPU_ISA=SSE41
export ONEDNN_MAX_CPU_ISA
each "bf16" --precision bf16
finish
