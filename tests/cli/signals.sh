#!/bin/sh
# What a signal does to a training: the table of docs/checkpoints.md, cell by cell, with one worker and with two. (Those of a list of
# hosts are in hosts.sh, those of Slurm in cluster/slurm.sh.)
. "$(dirname "$0")/lib.sh"
env --default-signal=INT --ignore-signal=HUP true 2>/dev/null || exit 77
# So small that a cell mostly waits for its launcher: several run at a time.
small="mnist-linear --device ref --limit-train 64 --limit-test 20 --batch-size 32 --micro-batch 16 --epochs 1000000 --replicas 1 --no-bind --verbose 2"

# until_true COMMAND...: waits for it.
until_true() {
    tries=0
    until "$@" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || return 1
        sleep 0.1
    done
}
# The workers of the cell that has so marked them: "any" or one rank.
workers() {
    # shellcheck disable=SC2013 # they have no blanks
    for environment in $(grep -lz "^LOCKSTEP_TEST_CELL=$$.$cell\$" /proc/[0-9]*/environ 2>/dev/null); do
        grep -qzE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1" "$environment" && basename "${environment%/environ}"
    done
}

# cell STATUS KEPT SIGNALS TO SENTENCE COMMAND...: COMMAND trains and gets SIGNALS, half a second and more between two of them unless
# there is a + ; TO is top, the process that was started, or the workers. KEPT: a checkpoint is there. "?" is any status.
cells=0
cell() {
    cells=$((cells + 1))
    (
        cell=$cells
        # shellcheck disable=SC2030 # where wrong looks, too
        here=$here/$cell
        mkdir "$here"
        want=$1 kept=$2 signals=$3 to=$4 sentence=$5
        shift 5
        what="$* ($signals to $to)"
        LOCKSTEP_TEST_CELL=$$.$cell "$@" >"$here/out" 2>"$here/err" </dev/null &
        top=$!
        until_true grep -q '^Epoch 2' "$here/out" || wrong "$what: does not begin"
        pause=
        for signal in $signals; do
            [ "$signal" = + ] && pause= && continue
            [ -z "$pause" ] || sleep $pause
            pause=0.8
            # shellcheck disable=SC2046 # several processes
            case $to in top) kill "-$signal" $top ;; *) kill "-$signal" $(workers "${to#worker }") ;; esac
        done
        (sleep 60 && kill -KILL $top) >/dev/null 2>&1 &
        guard=$!
        wait $top
        got=$?
        kill $guard 2>/dev/null
        [ "$want" = "?" ] || [ $got -eq "$want" ] || wrong "$what: exit status $got, expected $want"
        [ -z "$sentence" ] || complains "$sentence"
        has=no
        for manifest in "$here/../ckpt.$cell"/*/manifest.json; do [ -e "$manifest" ] && has=yes; done
        [ "$kept" = any ] || [ "$has" = "$kept" ] || wrong "$what: a checkpoint is there: $has"
        exit "$failed"
    ) &
    pids="$pids $!"
    # shellcheck disable=SC2086 # numbers
    set -- $pids
    [ $# -lt "$together" ] || join
}
join() {
    for pid in $pids; do wait "$pid" || failed=1; done
    pids=
}
pids=
# kept N: options of a cell that keeps checkpoints.
# shellcheck disable=SC2031
kept() { echo "--checkpoint $here/ckpt.$((cells + 1)) --checkpoint-every 1h"; }
plain="env --default-signal=INT,QUIT"
asked="finishing the step and writing a checkpoint; asked once more, it ends at once"

# shellcheck disable=SC2046,SC2086 # options are several words
{
    together=16
    for each in "TERM 143" "INT 130" "HUP 129" "USR1 138"; do
        signal=${each% *} status=${each#* }
        cell 75 yes $signal top "" $plain "$lockstep" train $small $(kept)
        cell $status no $signal top "" $plain "$lockstep" train $small
        [ -n "$mpirun" ] || continue
        cell 75 yes $signal top "$asked" $plain "$lockstep" train $small --workers 2 $(kept)
        cell $status no $signal top "ended by signal $((status - 128)) (" $plain "$lockstep" train $small --workers 2
    done
    cell 131 no QUIT top "" $plain "$lockstep" train $small $(kept)
    # A step takes two seconds: the second signal comes before its end, but one that comes at once is the same.
    slow="--slow worker=0,factor=1000 --limit-train 512 --batch-size 256"
    cell 143 no "TERM TERM" top "" $plain "$lockstep" train $small $slow $(kept)
    cell 75 yes "TERM + TERM" top "" $plain "$lockstep" train $small $slow $(kept)
    # What is ignored stays ignored.
    cell 143 no "HUP TERM" top "" env --ignore-signal=HUP "$lockstep" train $small
    cell 75 yes "HUP TERM" top "" env --ignore-signal=HUP "$lockstep" train $small $(kept)
    if [ -n "$mpirun" ]; then
        # Launchers give their workers a second, in which they may write one.
        cell 131 any QUIT top "ended by signal 3 (Quit), and its workers with it" $plain "$lockstep" train $small --workers 2 $(kept)
        cell 129 any "TERM HUP" top "ended by signal 1 (Hangup), and its workers with it" $plain "$lockstep" train $small --workers 2 $slow $(kept)
        cell 143 no "HUP TERM" top "ended by signal 15 (Terminated), and its workers with it" env --ignore-signal=HUP "$lockstep" train $small --workers 2
        # To the workers themselves, to one and to all. By hand, those to the launcher are its own.
        cell 75 yes TERM "worker 1" "" $plain "$lockstep" train $small --workers 2 $(kept)
        cell 143 no TERM "worker 1" "worker 1 on $(uname -n) was ended by signal 15 (" $plain "$lockstep" train $small --workers 2
        for signal in TERM HUP; do
            cell 75 yes $signal "worker [01]" "" $plain $mpirun 2 "$lockstep" train $small $(kept)
        done
        cell "?" no TERM "worker [01]" "" $plain $mpirun 2 "$lockstep" train $small
    fi
    join
}
finish
