#!/bin/sh
# no_reference.sh PROGRAM: with AVX2 and with AVX-512 no layer of small convolutional networks is left to the library's reference, which takes hundreds
# of times as long. Exit status 77 where the processor has no AVX2.
set -u
lockstep=$1
tried=0 failed=0
for isa in avx2 avx512; do
    for network in mnist-cnn resnet20; do
        if ! table=$("$lockstep" bench "$network" --isa $isa --batch-size 2 --micro-batch 2 --steps 2 --replicas 1 --no-floor --layers 2>&1); then
            case $table in
            *"instruction set"*) continue ;;
            esac
            echo "WRONG: $network with $isa: $table"
            failed=1
            continue
        fi
        tried=1
        if ! echo "$table" | grep -q "conv2d .*backward weights\|conv1 .*backward weights"; then
            echo "WRONG: the table of $network has no first layer's weight gradient"
            failed=1
        fi
        if echo "$table" | grep ' ref'; then
            echo "WRONG: the library's reference computes layers of $network with $isa"
            failed=1
        fi
    done
done
[ $tried = 1 ] || exit 77
exit $failed
