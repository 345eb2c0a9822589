#!/bin/sh
# no_reference.sh PROGRAM: with AVX2 and with AVX-512 no layer of some convolutional networks is left to the library's reference, which takes hundreds
# of times as long. Exit status 77 where the processor has no AVX2.
set -u
lockstep=$1
tried=0 failed=0
# of ISA NETWORK OPTIONS...
of() {
    isa=$1
    shift
    if ! table=$("$lockstep" bench "$@" --isa "$isa" --batch-size 2 --micro-batch 2 --steps 2 --replicas 1 --no-floor --layers 2>&1); then
        case $table in
        *"instruction set"*) return ;;
        esac
        echo "WRONG: $1 with $isa: $table"
        failed=1
        return
    fi
    tried=1
    if ! echo "$table" | grep -Eq '^ *(conv[^ ]*|[a-c][0-9]?) +backward weights'; then
        echo "WRONG: the table of $1 has no weight gradient of a convolution"
        failed=1
    fi
    if echo "$table" | grep ' ref'; then
        echo "WRONG: the library's reference computes layers of $1 with $isa"
        failed=1
    fi
}
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
few=$here/few.net
cat >"$few" <<'TEXT'
# channels of which no block is full
network few
classes 10
input = input 28x28x1
a = conv2d filters=8 kernel_size=3 padding=same activation=relu
b = conv2d filters=12 kernel_size=3 strides=2 padding=same activation=relu
c = conv2d filters=5 kernel_size=5 padding=same
flatten = flatten
output = dense units=classes
TEXT
for isa in avx2 avx512; do
    of "$isa" mnist-cnn
    of "$isa" lenet5
    of "$isa" "$few"
    of "$isa" resnet20
    of "$isa" googlenet --image-size 64 # images of 2x2 at its end
done
[ $tried = 1 ] || exit 77
exit $failed
