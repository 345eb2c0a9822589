#!/bin/sh
# Lockstep under a real Slurm of two nodes: srun steps, an allocation in which it starts its workers itself, batch scripts;
# each gives the weights of one worker.
. "$(dirname "$0")/slurm_nodes.sh"

export COLUMNS=1000 # sentences stay whole
recipe="mnist-cnn --limit-train 2000 --limit-test 500 --batch-size 512 --micro-batch 64 --epochs 1 --verbose 2"
# trained WORKERS HOSTS: the latest command did, to the weights of one worker.
trained() {
    says "$1 workers on $2 host"
    same "$alone"
    echo "$what: $(sed -n 's/^Images per second *//p' "$here/out") images/s"
}

# shellcheck disable=SC2086 # the recipe is several words
{
    run 0 "$lockstep" train $recipe
    alone=$(digest)
    [ "${#alone}" -eq 64 ] || wrong "one worker trains nothing"

    run 0 srun -N2 -n2 --mpi=pmix "$lockstep" train $recipe --record "$here/run.json"
    trained 2 2
    grep -q '"hosts": 2' "$here/run.json" || wrong "$what: the record does not have two hosts"

    # What the cluster can do, both hosts compared.
    for check in "srun -N2 -n2 --mpi=pmix $lockstep check" "salloc -Q -N2 -n2 $lockstep check --workers 2"; do
        run 0 $check
        says ", 2 workers on 2 hosts"
        matches '^OK +MPI +.*MPI_THREAD_'
        matches '^OK +Slurm +'
        matches '^OK +Exchange|^WARN +Exchange'
        matches '^(OK|WARN) +Workers +'
        matches '^ +0  n1 '
        matches '^ +1  n2 '
    done

    # Inside an allocation it becomes srun, also with more workers than tasks were asked for.
    run 0 salloc -Q -N2 -n2 "$lockstep" train $recipe --workers 2
    trained 2 2
    run 0 salloc -Q -N2 -n2 "$lockstep" train $recipe --workers 4 --strategy reduce-broadcast
    trained 4 2

    # The job's end, which Slurm knows to the second: training stops before it, and so does a study.
    long="mnist-mlp --limit-train 2000 --limit-test 500 --epochs 1000000"
    cat >"$here/ends.sh" <<'TEXT'
scontrol update JobId="$SLURM_JOB_ID" EndTime=now+30seconds && exec "$@"
TEXT
    began=$(date +%s)
    run 0 salloc -Q -N2 -n2 --time=5 sh "$here/ends.sh" "$lockstep" train $long --workers 2 --record "$here/run.json"
    [ $(($(date +%s) - began)) -le 30 ] || wrong "$what: knows nothing of the job's end"
    matches 'Stopped after step [0-9]+ of 16 in epoch [0-9]+ of 1000000, to be over in time \(the end of Slurm job [0-9]+\)'
    matches '^to be over by .*, the end of Slurm job [0-9]+$'
    began=$(date +%s)
    run 0 salloc -Q -N2 --ntasks-per-node=2 --time=5 sh "$here/ends.sh" "$lockstep" scale $long --workers 2,1 --out "$here/late"
    [ $(($(date +%s) - began)) -le 30 ] || wrong "$what: knows nothing of the job's end"
    says "[1/2] mnist-mlp, 2 workers: STOPPED for lack of time"
    says "[2/2] mnist-mlp, 1 worker: NOT STARTED for lack of time"

    # In a batch script too.
    printf '#!/bin/sh\n%s\n' "\"$lockstep\" train $recipe --workers 2" >"$here/job.sh"
    run 0 sbatch -Q --wait -N2 -n2 -o "$here/job.out" -e "$here/job.err" "$here/job.sh"
    cp "$here/job.out" "$here/out" && cp "$here/job.err" "$here/err"
    what="sbatch of lockstep train --workers 2"
    trained 2 2

    # The scripts it writes itself, with the devices it was given.
    for launcher in srun mpirun; do
        run 0 "$lockstep" slurm train $recipe --nodes 2 --tasks-per-node 2 --cpus-per-task 1 --time 00:05:00 --gres gpu:2 \
            --job-name by-$launcher --launcher $launcher
        cp "$here/out" "$here/job.slurm"
        run 0 sbatch --test-only "$here/job.slurm"
        run 0 sbatch -Q --wait --chdir "$here" "$here/job.slurm"
        cat "$here/by-$launcher".*.out >"$here/out" && cat "$here/by-$launcher".*.err >"$here/err"
        what="sbatch of lockstep slurm train --launcher $launcher"
        trained 4 2
        matches "^Job: +by-$launcher, number [0-9]+\$"
        matches '^Nodes: +2 \(n\[1-2\]\)$'
        matches '^Tasks: +4, 2 on each node$'
        matches '^Devices: +2 on each node, here number 0,1$'
    done

    # A study over nodes, as steps of a batch job.
    grid="${recipe% --verbose*} --nodes 1,2 --workers-per-node 1,2"
    run 0 "$lockstep" slurm scale $grid --out "$here/study" --job-name grid
    cp "$here/out" "$here/job.slurm"
    run 0 sbatch -Q --wait --chdir "$here" "$here/job.slurm"
    cat "$here/grid".*.out >"$here/out" && cat "$here/grid".*.err >"$here/err"
    what="sbatch of lockstep slurm scale"
    matches '^Tasks: +4, 2 on each node$'
    grep -q '<td>2</td><td>2</td><td>4</td>' "$here/study/index.html" || wrong "$what: the page has no row of 2 nodes x 2 processes"
    grep -q 'Slurm: job [0-9]*, on n\[1-2\]' "$here/study/index.html" || wrong "$what: the page does not name the job"
    says "[4/4] mnist-cnn, 4 workers on 2 nodes: "
    says "ended with the same weights, bit for bit"
    records="$here/study/runs/mnist-cnn-strong"
    grep -q '"hosts": 1,' "$records-n1-w2-r1.json" || wrong "$what: 2 workers are not on 1 node"
    grep -q '"hosts": 2,' "$records-n2-w2-r1.json" || wrong "$what: 2 workers are not on 2 nodes"
    grep -q "\"weights_digest\": \"$alone\"" "$records-n2-w4-r1.json" || wrong "$what: other weights"
    run 1 salloc -Q -N2 -n2 "$lockstep" scale ${recipe% --verbose*} --nodes 3 --workers-per-node 1 --out "$here/more"
    complains "3 nodes asked for, and this Slurm allocation has 2"
    # More workers on a node than the allocation has cores there: Slurm refuses that run, the study goes on.
    run 1 salloc -Q -N2 -n2 "$lockstep" scale ${recipe% --verbose*} --nodes 1 --workers-per-node 2,1 --out "$here/refused"
    matches '^\[1/2\] mnist-cnn, 2 workers: FAILED: srun says: .*; runs/mnist-cnn-strong-n1-w2-r1\.log may say more'
    matches '^\[2/2\] mnist-cnn, 1 worker: [0-9.]+ s per epoch'

    # A signal to the tasks is a request to stop to all workers; without checkpoints it ends them.
    for each in "75 --checkpoint $here/asked" "143 --replicas 1"; do
        : >"$here/out"
        srun -N2 -n2 --mpi=pmix "$lockstep" train $long --verbose 2 ${each#* } >"$here/out" 2>"$here/err" </dev/null &
        step=$!
        what="SIGTERM to the tasks of lockstep train ${each#* }"
        until_true 60 grep -q '^Epoch 2' "$here/out" || wrong "$what: does not begin"
        scancel --signal=TERM "$(squeue -h -o %i)"
        wait $step
        got=$?
        [ $got -eq "${each%% *}" ] || wrong "$what: exit status $got"
    done
    [ -n "$(find "$here/asked" -name manifest.json)" ] || wrong "workers that were asked to stop keep no checkpoint"

    # The end of a job costs time, never work: stopped before it, requeued, its tasks on a node killed, requeued again.
    kept="${recipe% --epochs*} --epochs 16 --replicas 1 --verbose 2"
    run 0 srun -N2 -n2 --mpi=pmix "$lockstep" train $kept
    untouched=$(digest)
    cat >"$here/first" <<'TEXT'
if [ "${SLURM_RESTART_COUNT:-0}" -eq 0 ]; then scontrol update JobId="$SLURM_JOB_ID" EndTime=now+12seconds; fi
TEXT
    run 0 "$lockstep" batch train $kept --checkpoint "$here/ckpt" --checkpoint-every 10steps --nodes 2 --job-name kept --output kept.out \
        --error kept.err --time 00:05:00 --setup "$here/first"
    cp "$here/out" "$here/job.slurm"
    run 0 sbatch --parsable --chdir "$here" "$here/job.slurm"
    job=$(cat "$here/out")
    state() { scontrol show job "$job" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p'; }
    is() { [ "$(state)" = "$1" ]; }
    resumed() { [ "$(grep -c '^resumed from' "$here/kept.out")" -ge "$1" ]; }
    # again N: it is in the queue for the N-th time, and what Slurm makes jobs wait there for is left out.
    again() {
        until_true 60 is PENDING || wrong "$what: is not requeued"
        sleep 4 # until its last step is off the nodes
        scontrol update JobId="$job" StartTime=now
        until_true 60 resumed "$1" || wrong "$what: does not go on"
    }
    what="a job that ends before its training"
    until_true 30 is RUNNING || wrong "$what: does not begin"
    again 1
    grep -q '^The same command with --resume goes on from there' "$here/kept.out" || wrong "$what: was not stopped in time"
    sleep 2
    for process in $(pgrep -f "train mnist-cnn.*--checkpoint $here/ckpt "); do
        [ "$(cat "/proc/$process/comm" 2>/dev/null)" = lockstep ] && kill -KILL "$process" && break
    done
    until_true 25 is FAILED || wrong "$what: does not end when a task is killed, but is $(state)"
    run 0 scontrol requeue "$job"
    again 2
    until_true 90 is COMPLETED || wrong "$what: does not end, but is $(state)"
    tail -n 3 "$here/kept.out" >"$here/out" && cp "$here/kept.err" "$here/err"
    same "$untouched"

    # A node that goes away for good, with its daemon and its tasks, in a job that Slurm leaves the other one: going on with the workers that are left.
    cat >"$here/goes.sh" <<'TEXT'
here=$1
shift
"$@" >"$here/goes.out" 2>"$here/goes.err" &
until grep -qs '^Epoch 3' "$here/goes.out"; do kill -0 $! || exit; sleep 0.2; done
kill -KILL "$(cat "$here/slurmd.n2.pid")"
for process in /proc/[0-9]*; do
    case $(cat "$process/comm" 2>/dev/null) in slurmstepd | lockstep) ;; *) continue ;; esac
    [ "$(readlink "$process/ns/uts")" = "$(readlink /proc/self/ns/uts)" ] || kill -KILL "${process#/proc/}"
done
scontrol update NodeName=n2 State=DOWN Reason=test
wait $!
TEXT
    run 0 salloc -Q --no-kill -N2 -n2 sh "$here/goes.sh" "$here" "$lockstep" train $kept --workers 2 --checkpoint "$here/goes" \
        --checkpoint-every 2steps --restarts 2
    what="a training that loses a node"
    cp "$here/goes.out" "$here/out" && cp "$here/goes.err" "$here/err"
    complains "1 of the job's 2 nodes is gone: going on with 1 worker"
    grep -q '^resumed from' "$here/out" || wrong "$what: begins anew"
    same "$untouched"
    daemon "$here/on_n2" slurmd -D -N n2
    scontrol update NodeName=n2 State=RESUME
    until_true 40 both_idle || wrong "$what: the node does not come back"

    # The five labs, each by its script, with so little data that it takes seconds: from sbatch to the page.
    lab() {
        name=$1
        shift
        kind=$1
        shift
        run 0 "$lockstep" batch "$kind" --job-name "$name" --output "$name.out" --time 00:05:00 "$@"
        cp "$here/out" "$here/job.slurm"
        run 0 sbatch -Q --wait --chdir "$here" "$here/job.slurm"
        [ ! -e "$here/$name.out" ] || cp "$here/$name.out" "$here/out"
        what="sbatch of the lab $name"
    }
    page() {
        run 0 "$lockstep" report "$@" --out "$here/page"
        [ -s "$here/page/index.html" ] || wrong "$what: no page"
    }
    small="--limit-train 16 --limit-test 8 --batch-size 8 --micro-batch 4 --optimizer sgd --lr 0.01 --verbose 2"
    lab bsc train resnet50v2 --data shapes $small --epochs 2 --cpus-per-task 2 --record "$here/bsc.json"
    matches '^2/2 - [0-9]+s - loss: '
    page "$here/bsc.json"
    says "An epoch of 16 samples took"
    lab upc scale resnet20v2 resnet50v2 --data shapes ${small% --verbose*} --epochs 2 --mode batch-per-worker --batch-size 4 \
        --lr-scaling linear --lr-base-batch 4 --workers 1,2 --out "$here/upc"
    says "[4/4] resnet50v2, 2 workers: "
    says "Batch per worker: the batch, and with it the learning rate, grows with the workers"
    page "$here/upc"
    lab uiuc scale mnist-cnn --limit-train 1024 --limit-test 100 --epochs 2 --batch-size 512 --micro-batch 64 --layout 1x1,1x2,2x1,2x2 \
        --until-accuracy 0.1 --out "$here/uiuc"
    says "[4/4] mnist-cnn, 4 workers on 2 nodes: "
    says "ended with the same weights, bit for bit"
    page "$here/uiuc"
    lab tud train resnet56 --data shapes --augment flip,crop --normalize dataset --limit-train 64 --limit-test 16 --epochs 1 --verbose 2 \
        --nodes 2 --tasks-per-node 2 --record "$here/tud.json"
    says "4 workers on 2 hosts"
    page "$here/tud.json"
    lab prace train mnist-linear --limit-train 1024 --limit-test 100 --epochs 2 --optimizer sgd --warmup-epochs 1 --nodes 2 --verbose 2 \
        --array "lr=0.1,0.2 momentum=0.9" --output "prace.%a.out" --sbatch "--comment=sweep"
    for task in 0 1; do
        grep -q '^Test accuracy' "$here/prace.$task.out" || wrong "$what: task $task trains nothing"
    done
    page "$here/prace.0.json" "$here/prace.1.json"
    says "lr 0.2"

    # What goes wrong is said once, by one worker, and the job ends.
    run 1 srun -Q -N2 -n2 --mpi=none "$lockstep" train $recipe
    complains "use \`srun --mpi=pmix\`"
    # srun ends the other worker, and which of the two exit statuses becomes its own is a matter of luck.
    run 0 salloc -Q -N2 -n2 sh -c "! \"$lockstep\" train $recipe --workers 2 --data mnist:$here/nowhere"
    complains "$here/nowhere"
    [ "$(grep -c '^lockstep' "$here/err")" -eq 1 ] || wrong "$what: should say one sentence, once"
    run 2 srun -Q -N2 -n2 --mpi=pmix "$lockstep" train $recipe --workers 3
    complains "--workers 3, but the launcher started 2 workers"
}
[ "$failed" -eq 0 ] || tail -n 40 "$here/log"
finish
