#!/bin/sh
# Two hosts of one job whose processors have other caches, or are told to have fewer instructions. usage: mixed.sh LOCKSTEP FAKE_HOSTS OTHER_CACHES
# MPIRUN...: the libraries of fake_hosts.c and of other_caches.c, then the words that start processes (tools/mpirun MPIEXEC).
# As it is, the job is refused before training, and both hosts are named. With --isa it gives the weights of one host.
hosts=$2
caches=$3
set -- "$1" "$4" "$5"
. "$(dirname "$0")/../cli/lib.sh"
env LS_CACHES=32,512,8192 LD_PRELOAD="$caches" true || { echo "skipped: this system does not trap CPUID" && exit 77; }
# Probes are kept, however short: one of a host that has changed since is not taken for today's.
export XDG_CACHE_HOME="$here/cache" LOCKSTEP_PROBE_SECONDS=0
recipe="train mnist-cnn --batch-size 32 --micro-batch 16 --limit-train 64 --epochs 1 --no-evaluate --verbose 0 --replicas 1"

# mixed STATUS VARIABLE OPTIONS...: the second of two workers, each a host, has the variable.
mixed() {
    status=$1
    odd=$2
    shift 2
    # shellcheck disable=SC2086 disable=SC2016 # words; the inner shell's
    run "$status" env LOCKSTEP_TEST_HOSTS=2 $mpirun 2 sh -c 'odd=$1 hosts=$2 caches=$3; shift 3
        export LD_PRELOAD="$hosts:$caches"
        [ "${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}" -eq 1 ] && export "$odd"
        exec "$@"' sh "$odd" "$hosts" "$caches" "$lockstep" $recipe "$@"
}

# same WORDS...: the two records name the same weights.
same() {
    for key in weights_digest train_loss; do
        [ "$(grep "\"$key\"" "$here/one.json")" = "$(grep "\"$key\"" "$here/two.json")" ] ||
            wrong "$*: $key is another one on hosts of two kinds"
    done
}

if "$lockstep" --version | grep -q "oneDNN 2"; then
    mixed 1 LS_CACHES=32,512,8192
    complains "worker 0 on host"
    complains "and worker 1 on host"
    complains "compute different gradients from the same micro-batch"
    complains "pin the instruction set"
else # Its direct kernels take this network's layers, and cut them the same way for any caches.
    # shellcheck disable=SC2086
    run 0 "$lockstep" $recipe --record "$here/one.json"
    mixed 0 LS_CACHES=32,512,8192 --record "$here/two.json"
    same "other caches"
fi
mixed 1 ONEDNN_MAX_CPU_ISA=AVX2
complains "kernels"
for isa in avx2 avx512; do
    # shellcheck disable=SC2086
    run 0 "$lockstep" $recipe --isa $isa --record "$here/one.json"
    mixed 0 LS_CACHES=32,512,8192 --isa $isa --record "$here/two.json"
    same "--isa $isa"
    grep -q '"hosts": 2' "$here/two.json" || wrong "--isa $isa: it was one host"
    grep -qE '"probe": "[0-9a-f]{64}"' "$here/two.json" || wrong "--isa $isa: the record has no probe"
done
finish
