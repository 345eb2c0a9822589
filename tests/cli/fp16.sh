#!/bin/sh
# fp16 with loss scaling, by whole jobs of device ref: what is told of it, one digest for any number of workers, and what the cpu says.
# fp16.sh LOCKSTEP MPIRUN..., the latter left out where the build has no MPI.
. "$(dirname "$0")/lib.sh"
small="mnist-mlp --data digits --device ref --precision fp16 --epochs 2 --batch-size 20 --micro-batch 4 --limit-train 60 --limit-test 20 --verbose 2"
digest() { sed -n 's/^Weights digest *//p' "$here/out"; }

# From a scale that is far too large, which falls with each step that is left out.
# shellcheck disable=SC2086
{
    run 0 "$lockstep" train $small --loss-scale dynamic:16777216 --record "$here/run.json" --checkpoint "$here/runs"
    matches '^Loss scale +[0-9]+, dynamic$'
    matches '^Steps left out +[0-9]+, not finite$'
    complains "lockstep train: left out 3 of the 3 steps of epoch 1: a gradient was not finite; the loss scale is 2097152 now"
    grep -q '"loss_scale": [0-9.]*,' "$here/run.json" || wrong "the record has no scale"
    grep -A1 '"epoch_loss_scale": \[' "$here/run.json" | grep -q '2097152' || wrong "the record has no scale after each epoch"
    grep -q '"steps_skipped": 6' "$here/run.json" || wrong "the record has not six steps that were left out"
    grep -q '"precision": "fp16"' "$here/run.json" || wrong "the record has another precision"
    # A scale that fits leaves out nothing, and one that has a number is told as such.
    run 0 "$lockstep" train $small --loss-scale 256
    matches '^Loss scale +256$'
    says "micro-batches of 4; fp16, allreduce"
    scaled=$(digest)
    run 0 "$lockstep" train $small --loss-scale 1
    grep -q 'Loss scale\|Steps left out' "$here/out" && wrong "tells of a scale that is none"
    for workers in 2 3 5; do
        [ $# -gt 0 ] || break
        run 0 "$lockstep" train $small --loss-scale 256 --workers $workers --replicas 1
        [ "$(digest)" = "$scaled" ] || wrong "$workers workers, other weights"
    done
    # Gone on with: the scale is where it was, in the middle of its fall.
    run 0 "$lockstep" train $small --loss-scale dynamic:16777216 --epochs 5
    whole=$(digest)
    run 0 "$lockstep" train $small --loss-scale dynamic:16777216 --epochs 5 --checkpoint "$here/runs" --resume
    [ "$(digest)" = "$whole" ] || wrong "resumed, other weights"
    run 0 "$lockstep" evaluate "$here/runs" --precision fp16
    # oneDNN believes what this says of the machine.
    refuses 1 "precision fp16 needs a CPU with avx512_fp16 and oneDNN 3.0 or later; this " env ONEDNN_MAX_CPU_ISA=AVX2 \
        "$lockstep" train mnist-mlp --precision fp16
    refuses 1 "a loss scale is a power of two from 1 to 16777216" "$lockstep" train mnist-mlp --loss-scale 1000
    refuses 1 "fp16, with its dynamic loss scale, goes with steps that all workers take together" "$lockstep" train $small \
        --strategy parameter-server --async
}
finish
