#!/bin/sh
# The program end to end: any number of workers, started either way, gives the same bits.
. "$(dirname "$0")/lib.sh"
small="--limit-train 700 --limit-test 200 --epochs 2 --batch-size 128 --micro-batch 16 --verbose 2"

digest() { sed -n 's/^Weights digest *//p' "$here/out"; }
same() {
    [ "$(digest)" = "$alone" ] || wrong "$what: weights differ from one worker's ($alone)"
}

# shellcheck disable=SC2086
{
    run 0 "$lockstep" train mnist-cnn $small
    alone=$(digest)
    says "1 worker "
    [ "${#alone}" -eq 64 ] || wrong "there is no digest"
    run 0 "$lockstep" train mnist-cnn $small --workers 1 --replicas 1
    same
    if [ -n "$mpirun" ]; then
        for n in 2 3; do
            run 0 "$lockstep" train mnist-cnn $small --workers $n --record "$here/$n.json"
            says "$n workers "
            same
            grep -q "\"workers\": $n," "$here/$n.json" || wrong "the record does not have $n workers"
            grep -q "\"weights_digest\": \"$alone\"" "$here/$n.json" || wrong "the record has another digest"
        done
        run 0 $mpirun 2 "$lockstep" train mnist-cnn $small --strategy reduce-broadcast
        says "2 workers "
        same
        [ "$(grep -c 'Weights digest' "$here/out")" -eq 1 ] || wrong "more than one worker speaks"
    fi
    # A micro-batch that does not divide the batch: the last one of every step is shorter.
    run 0 "$lockstep" train mnist-mlp $small --batch-size 131 --micro-batch 17 --replicas 1
    says "global batch 131 = 8 micro-batches of 17, the last of 12"
    alone=$(digest)
    [ -z "$mpirun" ] || run 0 "$lockstep" train mnist-mlp $small --batch-size 131 --micro-batch 17 --workers 3
    same
    # What changes the result changes the digest: the comparison above could fail.
    run 0 "$lockstep" train mnist-cnn $small --seed 43
    [ "$(digest)" != "$alone" ] || wrong "another seed gives the same weights"
}
finish
