#!/bin/sh
# Every strategy gives the weights and losses of one replica: on workers of one host and of several, with servers, in buckets, with norms over
# all gradients, of batch statistics, and with gradients in bf16. Jobs that a strategy is not for are refused with what to do.
# usage: strategies.sh LOCKSTEP FAKE_HOSTS
set -u
lockstep=$1 hosts=$2
. "$(dirname "$0")/hosts.sh"

recipe="mnist-mlp --data digits --limit-train 300 --limit-test 50 --epochs 1 --batch-size 128 --micro-batch 16"
expected=$(digest 1 --replicas 1) || exit 1
compare 1 --workers 1 --replicas 2 --strategy mirrored
compare 3 --workers 5 --replicas 1 --strategy central
compare 3 --workers 3 --replicas 2 --strategy tree
compare 2 --workers 5 --replicas 1 --strategy tree --bucket-size 1000
compare 2 --workers 4 --replicas 2 --strategy parameter-server --servers 2
compare 1 --workers 2 --replicas 1 --strategy parameter-server
compare 5 --workers 5 --replicas 1 --algorithm halving --bucket-size 0.1
recipe="$recipe --optimizer lamb --clip-norm 0.05"
expected=$(digest 1 --replicas 1) || exit 1
compare 3 --workers 5 --replicas 1 --strategy tree
compare 2 --workers 3 --replicas 1 --strategy parameter-server --servers 2
compare 2 --workers 2 --replicas 2 --strategy central
compare 3 --workers 4 --replicas 1 --algorithm halving --bucket-size 1000
recipe="mnist-mlp --data digits --limit-train 300 --limit-test 50 --epochs 1 --batch-size 128 --micro-batch 16 --compress bf16"
expected=$(digest 1 --replicas 1) || exit 1
compare 4 --workers 4 --replicas 1 --strategy tree
compare 3 --workers 5 --replicas 1 --strategy parameter-server --bucket-size 0.1
recipe="resnet20 --data shapes --limit-train 48 --limit-test 20 --epochs 1 --batch-size 32 --micro-batch 8"
expected=$(digest 1 --replicas 1) || exit 1
compare 2 --workers 3 --replicas 1 --strategy tree
compare 2 --workers 4 --replicas 1 --strategy parameter-server --servers 2

# held NAME HOSTS OPTIONS...: a digest that is committed, so that it is that of any MPI.
held() {
    name=$1
    shift
    known=$(sed -n "s/^$name *//p" "$(dirname "$0")/ref_digests.txt")
    got=$(digest "$@") || failed=1
    case ${#known}-$got in
    64-*"\"$known\""*) echo "ok: $name, hosts, options: $*" ;;
    *) failed=1 && echo "DIFFERS from ref_digests.txt ($name): hosts, options: $*: $got" >&2 ;;
    esac
}
recipe="mnist-mlp --data digits --device ref --epochs 1 --batch-size 16 --micro-batch 4 --limit-train 40 --no-evaluate --replicas 1"
held "ref mnist-mlp adam fp32" 2 --workers 4 --bucket-size 0.1
held "ref mnist-mlp compress" 2 --workers 3 --bucket-size 0.1 --compress bf16
held "ref mnist-mlp sgd clip" 3 --workers 4 --bucket-size 0.1 --optimizer sgd --momentum 0.9 --clip-norm 0.1
held "ref mnist-mlp lamb smoothing" 3 --workers 3 --algorithm halving --optimizer lamb --label-smoothing 0.1

# refuses WORDS OPTIONS...
refuses() {
    words=$1
    shift
    timeout -k 5 60 "$lockstep" train mnist-mlp --data digits --limit-train 128 --replicas 1 "$@" >"$out/log" 2>&1
    code=$?
    if [ $code -eq 0 ] || [ $code -ge 124 ] || ! grep -q "$words" "$out/log"; then
        echo "$*: exit status $code, and not the words: $words" >&2
        cat "$out/log" >&2
        failed=1
    fi
}
refuses "this job has 2 workers: choose allreduce" --workers 2 --strategy mirrored
refuses "none is left to compute: start at least 4, or ask for at most 1 server\$" --workers 2 --strategy parameter-server --servers 3
refuses "the strategy tree has none: leave them out, or choose parameter-server" --workers 2 --strategy tree --servers 1
refuses "has one way between hosts: leave the algorithm out, or choose allreduce" --workers 2 --strategy tree --algorithm halving
exit $failed
