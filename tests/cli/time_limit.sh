#!/bin/sh
# A time limit that the run knows: asked for, or the end of the Slurm job. It stops in time, on all workers after the same step,
# and says so.
. "$(dirname "$0")/lib.sh"
unset SLURM_JOB_ID SLURM_JOB_END_TIME
small="mnist-mlp --limit-train 640 --limit-test 1000 --replicas 1"  # other tests run beside this one
long="$small --epochs 1000000 --verbose 0"

now() { date +%s; }
# in_time SECONDS COMMAND...: the run that COMMAND makes ends in less, having said why, in its record too. A machine that stands still at
# its end makes one run late; one that does not know its limit, or keeps no time for what follows training, is late each time. A machine
# that is very busy may take longer than the limit to begin, and leave no time to evaluate; a run that knew of no limit would go on.
in_time() {
    seconds=$1
    shift
    for _ in 1 2 3; do
        began=$(date +%s%N)
        "$@"
        took=$((($(date +%s%N) - began) / 1000000))
        grep -qE 'Stopped after step [1-5] of 5 in epoch [0-9]+ of 1000000, to be over in time' "$here/err" ||
            wrong "$what: does not say that it stopped"
        grep -q '"stopped": "time limit"' "$here/run.json" || wrong "$what: its record does not say that it stopped"
        grep -q "there is no time left to evaluate" "$here/err" && return
        grep -q '"test_accuracy": 0' "$here/run.json" || wrong "$what: was not evaluated"
        [ $took -le $((1000 * seconds)) ] && return
        echo "$what: took $took ms"
    done
    wrong "$what: took $took ms, the third time that it is late"
}

# shellcheck disable=SC2086
{
    for limit in soon 0 1:2:3:4 1:x -5 1- ''; do
        refuses 2 "--time-limit: expected" "$lockstep" train $small --time-limit "$limit"
    done
    in_time 8 run 0 "$lockstep" train $long --time-limit 0:08 --record "$here/run.json"
    complains "--time-limit 0:08"
    [ -s "$here/out" ] && wrong "$what: is not silent otherwise"
    # What follows training was reserved time too: an evaluation after each epoch, which takes most of it here.
    in_time 8 run 0 "$lockstep" train $long --time-limit 0:08 --record "$here/run.json" --validate --metrics "$here/run.csv"
    tail -n 1 "$here/run.csv" | grep -qE '^[0-9]+,' || wrong "$what: no line of the last epoch"
    # The time that there is is used: the first step, which starts what later ones find started, is not what an evaluation's length is told by.
    run 0 "$lockstep" train resnet20 --data shapes --replicas 1 --limit-train 1280 --limit-test 2000 --batch-size 32 --micro-batch 16 --epochs 1000 --verbose 2 --time-limit 0:20
    steps=$(sed -n 's/^Stopped after step \([0-9]*\) of .* in epoch \([0-9]*\) of .*/\1 \2/p' "$here/out")
    [ -n "$steps" ] || wrong "$what: was not stopped"
    [ "${steps% *}" -gt 2 ] || [ "${steps#* }" -gt 1 ] || wrong "$what: stopped after step ${steps% *}"
    if [ -n "$mpirun" ]; then
        in_time 9 run 0 $mpirun 2 "$lockstep" train $long --replicas 1 --time-limit 0:08 --record "$here/run.json" --strategy reduce-broadcast
    fi

    # Training that ends by itself has not been stopped; whole epochs are counted, one that is not whole is not.
    run 0 "$lockstep" train $small --epochs 2 --time-limit 1-00 --record "$here/run.json"
    matches '^to be over by 20[0-9-]+ [0-9:]+, --time-limit 1-00$'
    grep -q '"stopped": null' "$here/run.json" || wrong "$what: a run that was not stopped"
    grep -q '^Stopped' "$here/out" && wrong "$what: was not stopped"
    LOCKSTEP_STARTED=$(($(now) - 100))
    export LOCKSTEP_STARTED # too late at the first step
    for replicas in 1 2; do
        run 0 "$lockstep" train $small --epochs 9 --time-limit 1 --replicas $replicas --record "$here/run.json"
        matches '^Stopped after step 2 of 5 in epoch 1 of 9, .*; there is no time left to evaluate\.$'
    done
    says "no epoch is whole"
    grep -q '"epochs": 0,' "$here/run.json" || wrong "$what: counts an epoch that was cut short"
    grep -q '"test_loss": null,' "$here/run.json" || wrong "$what: evaluates though there is no time"
    run 0 "$lockstep" train $small --epochs 9 --time-limit 2 --verbose 1
    says "5/5 [==" # there was time
    unset LOCKSTEP_STARTED

    # The end of a Slurm job, from its environment or from squeue.
    SLURM_JOB_ID=17
    export SLURM_JOB_ID
    job_of_nine_seconds() {
        run 0 env SLURM_JOB_END_TIME=$(($(now) + 9)) "$lockstep" train $long --record "$here/run.json"
    }
    in_time 9 job_of_nine_seconds
    complains "the end of Slurm job 17"
    run 0 env SLURM_JOB_END_TIME=$(($(now) + 1)) "$lockstep" train $small --epochs 3 --time-limit none
    grep -q 'Stopped\|to be over' "$here/out" && wrong "$what: has a limit though it is told to have none"
    mkdir "$here/bin"
    squeue() {
        printf '#!/bin/sh\n%s\n' "$1" >"$here/bin/squeue"
        chmod +x "$here/bin/squeue"
    }
    job_that_squeue_knows() {
        # shellcheck disable=SC2016
        squeue '[ "$SLURM_TIME_FORMAT $*" = "%s --noheader --jobs 17 --Format EndTime" ] && echo "'$(($(now) + 9))'          "'
        run 0 env PATH="$here/bin:$PATH" "$lockstep" train $long --record "$here/run.json"
    }
    in_time 9 job_that_squeue_knows
    complains "the end of Slurm job 17"
    for answer in 'echo N/A' 'exit 3' 'exec sleep 60' 'echo tomorrow'; do
        squeue "$answer"
        run 0 env PATH="$here/bin:$PATH" "$lockstep" train $small --epochs 1
        grep -q "to be over" "$here/out" && wrong "$what: takes '$answer' for an end"
        case $answer in
        echo\ N/A) grep -q "is not known" "$here/out" && wrong "$what: a job without an end" ;;
        exit*) says "when this Slurm job ends is not known: squeue failed with exit status 3; --time-limit says it" ;;
        exec*) says "squeue gave no answer within 5 s" ;;
        *) says "squeue says 'tomorrow'" ;;
        esac
    done
    run 0 env PATH="$here" "$lockstep" train $small --epochs 1
    says "there is no squeue here"
}
finish
