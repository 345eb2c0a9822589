#!/bin/sh
# How the program starts its workers: srun inside an allocation, a sentence where there is no launcher, and Ctrl-C.
. "$(dirname "$0")/lib.sh"
[ -n "$mpirun" ] || exit 77

# A stand-in for srun that shows how it was called.
mkdir "$here/bin"
printf '#!/bin/sh\necho "srun $*"\n' >"$here/bin/srun"
chmod +x "$here/bin/srun"
in_slurm() { run 0 env PATH="$here/bin:$PATH" SLURM_JOB_ID=7 "$@"; }
in_slurm "$lockstep" train mnist-mlp --workers 4
matches '^srun -n 4 --mpi=pmi(x|2) --kill-on-bad-exit=1 --cpu-bind=none /.*lockstep train mnist-mlp --workers 4$'
in_slurm LOCKSTEP_SRUN_ARGS="--mpi=pmix_v4  --het-group=1" SLURM_NTASKS=2 "$lockstep" train mnist-mlp --workers 4
matches '^srun -n 4 --mpi=pmix_v4 --het-group=1 --kill-on-bad-exit=1 --cpu-bind=none --overcommit /'
# A batch script has a rank and a size of its own, which are not those of a job.
in_slurm SLURM_PROCID=0 SLURM_NTASKS=4 SLURM_STEP_ID=4294967291 "$lockstep" train mnist-mlp --workers 4
matches '^srun -n 4 '

# An interactive shell of a step has the variables of that step, which is not the job: workers are a step beside it.
step="SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS"
printf '#!/bin/sh\necho "srun $* overlap=${SLURM_OVERLAP:-} rank=${SLURM_PROCID:-}${PMIX_RANK:-}"\n' >"$here/bin/srun"
# shellcheck disable=SC2086 # variables
in_slurm $step=1 "$lockstep" train mnist-mlp --workers 4
matches '^srun -n 4 .* overlap=1 rank=$'
if command -v script >/dev/null; then # as srun --pty, with a terminal; and timeout makes a process group
    # shellcheck disable=SC2086
    in_slurm $step=2 SLURM_PTY_PORT=1 PMIX_RANK=0 script -qec "timeout 60 \"$lockstep\" train mnist-mlp --workers 4; exit \$?" /dev/null
    matches '^srun -n 4 .* overlap=1 rank=.?$'
fi
run 1 env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 "$lockstep" train mnist-mlp
complains "use \`srun --mpi=pmix\`"
complains "In an interactive shell of that step, \`unset SLURM_STEP_ID\` first"

# Open MPI's launcher, which finds no more files for its pipes, has been seen to wait for ever.
(
    ulimit -n 48
    run 1 "$lockstep" bench mnist-linear --batch-size 1000000000 --micro-batch 16 --workers 65536
    complains " open files, and 48 are allowed (ulimit -n): start fewer"
    ulimit -n 24
    run 1 "$lockstep" train mnist-linear --workers 2
    complains "--workers 2: to start them takes "
    exit $failed
) || failed=1
# With as many as it asks for they start.
(
    ulimit -n "$(sed -n 's/.* to start them takes \([0-9]*\) open files.*/\1/p' "$here/err")"
    run 0 "$lockstep" train mnist-linear --device ref --limit-train 64 --limit-test 8 --epochs 1 --replicas 1 --batch-size 64 --micro-batch 16 --workers 2
    exit $failed
) || failed=1

# Ctrl-C reaches every worker: the process is replaced by the launcher, which passes it on. (A shell's background processes
# ignore the signal unless told otherwise.)
env --default-signal=INT true 2>/dev/null || finish
env --default-signal=INT LOCKSTEP_TEST_JOB=$$ "$lockstep" train mnist-mlp --workers 2 --epochs 100000 --limit-test 100 \
    --verbose 2 >"$here/out" 2>"$here/err" &
job=$!
members() { grep -lz "^LOCKSTEP_TEST_JOB=$$\$" /proc/[0-9]*/environ 2>/dev/null; }
for _ in $(seq 120); do
    grep -q '^Epoch 2' "$here/out" && break
    sleep 0.5
done
what="lockstep train --workers 2, interrupted"
grep -q '^Epoch 2' "$here/out" || wrong "training did not begin"
[ "$(members | wc -l)" -ge 3 ] || wrong "expected a launcher and two workers, found: $(members)"
kill -INT "$job"
wait "$job"
status=$?
[ "$status" -ne 0 ] || wrong "$what: exit status 0"
for _ in 1 2 3 4 5 6 7 8 9 10; do
    [ -n "$(members)" ] || break
    sleep 0.5
done
[ -z "$(members)" ] || wrong "$what: processes go on: $(members)"

# What becomes of a worker is said, whoever ends or stops it, and the job ends. afflicted SIGNAL OPTIONS...: sends it to the second worker of two, once
# they train.
afflicted() {
    signal=$1
    shift
    what="lockstep train --workers 2 $*, a worker with SIG$signal"
    : >"$here/out" # what an earlier job wrote is not this one's
    env --default-signal=INT LOCKSTEP_TEST_JOB=$$ "$lockstep" train mnist-mlp --workers 2 --epochs 100000 --limit-train 640 \
        --limit-test 100 --verbose 2 "$@" >"$here/out" 2>"$here/err" &
    job=$!
    hit=
    # A busy machine takes its time, and a process that has just been started has no environment yet.
    for _ in $(seq 120); do
        grep -q '^Epoch 2' "$here/out" && for environment in $(members); do
            process=${environment%/environ}
            grep -qzE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=1$" "$environment" && hit=${process#/proc/}
        done
        [ -z "$hit" ] || break
        sleep 0.5
    done
    [ -n "$hit" ] || wrong "$what: no second worker was found"
    [ -z "$hit" ] || kill "-$signal" "$hit" || wrong "$what: it could not be sent"
}
# over SECONDS SENTENCE: the job ends by itself within so long, not well, and says so once. Nobody is left.
over() {
    began=$(date +%s)
    (sleep $(($1 + 60)) && kill -KILL $job) >/dev/null 2>&1 &
    guard=$!
    wait $job
    status=$?
    kill $guard 2>/dev/null
    took=$(($(date +%s) - began))
    grep -q '^Stopped' "$here/out" && return # a machine so busy that the limit was reached before the signal
    [ $status -ne 0 ] || wrong "$what: exit status 0"
    [ $took -le "$1" ] || wrong "$what: took $took s to end"
    [ -z "$2" ] || complains "$2"
    [ -z "$2" ] || [ "$(grep '^lockstep train: ' "$here/err" | grep -v ' has lost worker ' | grep -vc ' On this host:$')" -eq 1 ] || wrong "$what: should say one sentence"
    grep -q -- '-----' "$here/err" && wrong "$what: the launcher talks"
    sleep 0.5
    [ -z "$(members)" ] || wrong "$what: processes go on: $(members)"
}
afflicted KILL
over 20 "was ended by signal 9 (Killed); that is what the system does when memory runs out, or somebody by hand"
complains "worker 1 on "
# So do those who are left, with what they were at: its launcher gives them a second.
grep -qE "^lockstep train: worker 0 on .* has lost worker 1 \(process $hit\), which has ended\. This one: .*step [0-9]+ of epoch [0-9]+" "$here/err" ||
    wrong "$what: the worker that is left does not say whom it has lost"
# First it is told of, since no step has ever taken so long; then it is over. Both say what each worker does.
afflicted STOP --wait-limit 0:13
over 40 "is stopped, as by SIGSTOP or a debugger. The job ends here"
complains "worker 1 (process "
grep -q ' has lost worker ' "$here/err" && wrong "$what: names a worker that it has ended itself"
told=1
if grep -qE "has waited for the other replicas \(bucket 0 of 1\) for 1[0-9] s, and no step before took longer than " "$here/err"; then
    told=2
else # a machine so busy that a step took more than a second
    echo "$what: was not told of before it was over"
fi
[ "$(grep -cE "^  worker 1 \(process $hit, stopped\): [a-z ]+, step [0-9]+ of epoch [0-9]+, for [0-9]+\.[0-9] s" "$here/err")" -eq $told ] ||
    wrong "$what: does not say each time what the stopped worker did"
[ "$(grep -cE '^  worker 0 \(process [0-9]+\): [a-z ]+, step [0-9]+ of .*, in ls_trainer_[a-z_]+.*, waiting for (the other replicas \(bucket 0 of 1\)|all workers)$' "$here/err")" -eq $told ] ||
    wrong "$what: does not say each time what the other one does"
afflicted STOP --time-limit 0:20
over 60 "and the time limit is reached: worker 1 (process "
afflicted STOP
kill -INT "$job"
over 30 ""

# before WHO SIGNAL OPTIONS...: sends it as soon as there is somebody to send it to, a worker or the launcher.
before() {
    who=$1
    signal=$2
    shift 2
    what="lockstep train --workers 2 $*, the $who with SIG$signal"
    LOCKSTEP_TEST_JOB=$$ "$lockstep" train mnist-mlp --workers 2 --epochs 1 --limit-train 640 --limit-test 100 --verbose 2 "$@" \
        >"$here/out" 2>"$here/err" &
    job=$!
    hit=
    while [ -z "$hit" ] && kill -0 $job 2>/dev/null; do
        for environment in $(members); do
            process=${environment%/environ}
            process=${process#/proc/}
            rank=$(tr '\0' '\n' <"$environment" 2>/dev/null | sed -n 's/^OMPI_COMM_WORLD_RANK=//p; s/^PMI_RANK=//p')
            [ "$process" = $job ] && continue
            case $who$rank in worker1) hit=$process ;; launcher) hit=$process ;; esac
        done
    done
    [ -n "$hit" ] && kill "-$signal" "$hit"
}
# Workers that do not know each other yet, and those that nobody waits for.
before worker STOP --wait-limit 0:03
over 40 "worker 1 (process $hit) is stopped, as by SIGSTOP or a debugger. The job ends here"
before launcher STOP --wait-limit 0:03
over 50 "the launcher (process $hit) on $(uname -n) has been stopped for"
finish
