#!/bin/sh
# Settings of OpenMP, limits of the system, and what a launcher may have left behind: a sentence or the same result, never a wait.
. "$(dirname "$0")/lib.sh"
small="mnist-cnn --batch-size 32 --limit-train 64 --limit-test 50 --epochs 1 --verbose 2"

# The runtime's teams are as large as kernels were planned for, or the run is refused.
# shellcheck disable=SC2086
{
    run 0 "$lockstep" train $small --threads 2 --replicas 1
    digest=$(sed -n 's/^Weights digest *//p' "$here/out")
    for setting in OMP_DYNAMIC=true OMP_MAX_ACTIVE_LEVELS=0 OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=7 OMP_NESTED=true; do
        run 0 env $setting "$lockstep" train $small --threads 2 --replicas 1
        [ "$(sed -n 's/^Weights digest *//p' "$here/out")" = "$digest" ] || wrong "$what: other weights"
    done
    refuses 1 "--threads 2: OpenMP gives a replica 1 thread only (OMP_THREAD_LIMIT=1)" \
        env OMP_THREAD_LIMIT=1 "$lockstep" train $small --threads 2 --replicas 1
    refuses 2 "--threads: expected a whole number from 1 to 1024, got '300000'" "$lockstep" train $small --threads 300000
}
finish
