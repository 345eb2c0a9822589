#!/bin/sh
# A worker is killed in the middle of training, and MPI's launcher ends the others, some before they can speak: whom they have lost and what they were at is said
# of every one of them, once, and then what has ended the first. Where all are stopped, and nobody is left who waits, the job ends, too.
# usage: survivors.sh LOCKSTEP
set -u
lockstep=$1
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK LOCKSTEP_LAUNCHED LOCKSTEP_STARTED 2>/dev/null
failed=0
wrong() {
    failed=1
    echo "WRONG: $*"
    cat "$out/err"
}
# With one worker computing beside the killed one, and with several.
for workers in 2 4; do
    victim=$((workers - 1)) hit=
    LOCKSTEP_TEST_JOB=$$.$workers "$lockstep" train mnist-mlp --workers $workers --epochs 100000 --limit-train 640 --limit-test 100 --verbose 2 \
        >"$out/log" 2>"$out/err" &
    job=$!
    for _ in $(seq 120); do
        grep -q '^Epoch 4' "$out/log" && for environment in $(grep -lz "^LOCKSTEP_TEST_JOB=$$.$workers\$" /proc/[0-9]*/environ 2>/dev/null); do
            process=${environment%/environ}
            grep -qzE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=$victim$" "$environment" && hit=${process#/proc/}
        done
        [ -z "$hit" ] || break
        sleep 0.5
    done
    sleep 2 # the launcher's parent looks for workers once a second
    [ -n "$hit" ] && kill -KILL "$hit" || wrong "no worker $victim of $workers was found"
    [ -n "$hit" ] || kill -TERM $job
    (sleep 60 && kill -KILL $job) >/dev/null 2>&1 &
    guard=$!
    wait $job
    status=$?
    kill $guard 2>/dev/null
    [ $status -ne 0 ] || wrong "$workers workers, one killed: exit status 0"
    # Where others are on their way by the time that the first end is seen, as Hydra has it, the first one is named as what it seems to be. It may be another.
    lost=$victim who="worker $victim on .*"
    if grep -q ", as it seems, was ended" "$out/err"; then
        lost=$(sed -n 's/.* worker \([0-9]*\) on .*, as it seems, was ended .*/\1/p' "$out/err") who="worker $lost on .*, as it seems,"
        [ "$lost" -eq "$victim" ] || echo "$workers workers: worker $victim was killed, and it seemed to be $lost"
    fi
    for worker in $(seq 0 $victim | grep -vx "$lost"); do
        [ "$(grep -cE "^lockstep train: worker $worker on .* has lost worker ${lost}[ ,].*: [a-z -]+, step [0-9]+ of epoch [0-9]+" "$out/err")" -eq 1 ] ||
            wrong "$workers workers, one killed: not said once of worker $worker what it was at, and whom it has lost"
    done
    [ "$(grep -cE "^lockstep train: $who was ended by signal 9 \(Killed\); " "$out/err")" -eq 1 ] || wrong "$workers workers: that one was killed is not said once"
    [ "$(grep -c "" "$out/err")" -eq "$workers" ] || wrong "$workers workers, one killed: should say one line of each"
done
LOCKSTEP_TEST_JOB=$$.all "$lockstep" train mnist-mlp --workers 2 --epochs 100000 --limit-train 640 --limit-test 100 --verbose 2 --wait-limit 0:03 \
    >"$out/log" 2>"$out/err" &
job=$!
for _ in $(seq 120); do
    ! grep -q '^Epoch 4' "$out/log" || break
    sleep 0.5
done
sleep 2
stopped=
for environment in $(grep -lz "^LOCKSTEP_TEST_JOB=$$.all\$" /proc/[0-9]*/environ 2>/dev/null); do
    process=${environment%/environ}
    grep -qzE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=" "$environment" && stopped="$stopped ${process#/proc/}"
done
kill -STOP $stopped || wrong "no worker was found"
(sleep 60 && kill -KILL $job $stopped) >/dev/null 2>&1 &
guard=$!
wait $job
status=$?
kill $guard 2>/dev/null
[ $status -ne 0 ] || wrong "all workers stopped: exit status 0"
[ "$(grep -cE "^lockstep train: worker [01] \(process [0-9]+\) on .* has been stopped for .*, and no worker of this host runs\. The job ends here$" "$out/err")" -eq 1 ] ||
    wrong "all workers stopped: that is not said once"
[ "$(grep -c "" "$out/err")" -eq 1 ] || wrong "all workers stopped: should say one line"
exit $failed
