#!/bin/sh
# shellcheck disable=SC2086 # options are several words
# What runs make of nodes that are not here: hwloc is shown one of 2 x 28 cores with two hardware threads each, and one of 2 x 20 with four (160
# of them). usage: big_nodes.sh LOCKSTEP MPIRUN...
. "$(dirname "$0")/lib.sh"
nodes=$(dirname "$0")/../topology
plan() { run 0 env HWLOC_XMLFILE="$nodes/$1.xml" "$lockstep" plan mnist-mlp --batch-size "$2" ${3:-}; }

# node: batch, replicas, threads
while read -r node batch replicas threads v; do
    plan "$node" "$batch"
    s=s
    [ "$replicas" -eq 1 ] && s=
    ts=s
    [ "$threads" -eq 1 ] && ts=
    cores=40
    [ "$node" = node56 ] && cores=56
    why="$cores cores; the step has $v micro-batch"
    [ "$replicas" -eq "$cores" ] && why="$cores cores per worker, 1 thread each"
    says "1 worker on 1 host x $replicas replica$s x $threads thread$ts ($why"
    # Up to an eighth of the cores may be left over without a word.
    idle=$((cores - replicas * threads))
    if [ $((8 * idle)) -gt "$cores" ]; then
        says "$idle of $cores cores have no work"
    else
        grep -q "no work" "$here/out" && wrong "$what: complains"
    fi
done <<END
node56 16 1 28 1
node56 32 2 28 2
node56 64 4 14 4
node56 128 8 7 8
node56 256 8 7 8
node56 1024 8 7 8
node56 2048 16 3 16
node56 4096 32 1 32
node56 8192 56 1 64
node160 16 1 20 1
node160 256 8 5 8
node160 4096 32 1 32
node160 8192 40 1 64
END

# Cores that cannot be used are said, with what would.
plan node56 16
says "28 of 56 cores have no work, as a replica stays inside one of 2 NUMA domains: micro-batches of 8 would give them some (and other weights)"
plan node56 16 "--micro-batch 8"
says "2 replicas x 28 threads"
plan node56 7 "--micro-batch 7"
says "micro-batches of 1 would give them some (and other weights)"
plan node160 1
says "20 of 40 cores have no work, as a replica stays inside one of 2 NUMA domains: a larger batch would give them some"

# What is asked for is taken, hardware threads when they are.
plan node160 256 --hyperthreads
says "8 replicas x 20 threads (160 cores; the step has 8 micro-batches)"
plan node56 256 "--threads 14"
says "4 replicas x 14 threads"
plan node56 256 "--replicas 8"
says "8 replicas x 1 thread (as asked for)"
plan node56 256 "--device ref"
says "8 replicas x 1 thread"
plan node56 256 "--workers 4"
says "4 workers on 1 host x 2 replicas x 7 threads (14 cores per worker; the step has 8 micro-batches)"
plan node56 256 "--workers 8 --hosts 2"
says "8 workers on 2 hosts x 1 replica x 14 threads (14 cores per worker; the step has 8 micro-batches)"

# Between hosts a core that replicas leave over is the exchange's.
plan node56 4096 "--workers 2 --hosts 2"
says "2 workers on 2 hosts x 16 replicas x 3 threads (56 cores per worker; the step has 32 micro-batches; one that is left over is the exchange's)"
plan node56 4096 "--workers 2 --hosts 2 --comm-cores 0"
says "x 16 replicas x 3 threads (56 cores per worker; the step has 32 micro-batches)"

# It trains there, with more threads than there are cores here, to the weights that one thread gives; the record says how.
small="train mnist-cnn --batch-size 32 --micro-batch 16 --limit-train 64 --limit-test 32 --epochs 1 --verbose 2"
digest() { grep -o '"weights_digest": "[0-9a-f]*"' "$1"; }
run 0 "$lockstep" $small --replicas 1 --threads 1 --record "$here/one.json"
run 0 env HWLOC_XMLFILE="$nodes/node56.xml" "$lockstep" $small --record "$here/56.json"
says "1 worker on 1 host x 2 replicas x 28 threads (56 cores; the step has 2 micro-batches)"
run 0 "$lockstep" $small --replicas 1 --threads 16 --record "$here/16.json"
for i in 56 16; do
    [ "$(digest "$here/one.json")" = "$(digest "$here/$i.json")" ] || wrong "$i threads: other weights than with one"
done
grep -q '"cores_per_worker": 56' "$here/56.json" && grep -q '"idle_cores": 0' "$here/56.json" || wrong "the record does not have the cores"
finish
