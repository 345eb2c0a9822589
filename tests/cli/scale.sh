#!/bin/sh
# A study: what is refused before anything runs, what is kept, and how it goes on after a timeout, a crash or Ctrl-C.
. "$(dirname "$0")/lib.sh"
cd "$here" || exit 1
unset SLURM_JOB_ID
COLUMNS=1000 # sentences stay whole
export COLUMNS
tiny="--limit-train 500 --limit-test 100 --epochs 2"

# shellcheck disable=SC2086
{
    refuses 2 "which model?" "$lockstep" scale
    refuses 2 "mnist-cnn" "$lockstep" scale mnist-cn --workers 1 --out study
    refuses 2 "mnist-mlp is there twice" "$lockstep" scale mnist-mlp mnist-mlp --workers 1 --out study
    refuses 2 "where to?" "$lockstep" scale mnist-mlp --workers 1
    refuses 2 "how many workers?" "$lockstep" scale mnist-mlp --out study
    refuses 2 "expected whole numbers from 1 to 65536" "$lockstep" scale mnist-mlp --workers 0,1 --out study
    refuses 2 "expected whole numbers from 1 to 65536" "$lockstep" scale mnist-mlp --workers 1, --out study
    for counts in 1,,2 -1 two 1.5 ,1; do
        refuses 2 "expected whole numbers from 1 to 65536" "$lockstep" scale mnist-mlp --workers "$counts" --out study
    done
    refuses 2 "--repeats: expected a whole number" "$lockstep" scale mnist-mlp --workers 1 --repeats 0 --out study
    refuses 2 "2 is there twice" "$lockstep" scale mnist-mlp --workers 1,2,2 --out study
    refuses 2 "--workers-per-node instead" "$lockstep" scale mnist-mlp --nodes 1 --workers 1,2 --out study
    refuses 2 "did you mean --epochs?" "$lockstep" scale mnist-mlp --epoch 1 --workers 1,2 --out study
    refuses 1 "need a Slurm allocation" "$lockstep" scale mnist-mlp --nodes 1,2 --workers-per-node 1 --out study
    refuses 1 "$here/nowhere" "$lockstep" scale mnist-mlp --data "mnist:$here/nowhere" --workers 1 --out study
    refuses 1 "lower --limit-train" \
        "$lockstep" scale mnist-mlp --mode weak --limit-train 1000000 --workers 1,2 --out study
    echo x >file
    refuses 1 "cannot write file/runs: Not a directory" "$lockstep" scale mnist-mlp --workers 1 --out file
    [ -e study ] && wrong "a refused study left something behind"

    # What cannot be trained is said before the first run, and leaves nothing behind.
    refuses 1 "mnist-mlp with 16 workers cannot be trained: 16 workers for 8 micro-batches" \
        "$lockstep" scale mnist-mlp $tiny --workers 1,16 --out study
    refuses 1 "mnist-mlp, momentum 0.5 with 1 worker cannot be trained: the optimizer adam has no momentum" \
        "$lockstep" scale mnist-mlp $tiny --workers 1 --compare "momentum=0.5,0.9" --out study
    refuses 2 "expected nodes x workers" "$lockstep" scale mnist-mlp --layout 1x2,4 --out study
    refuses 2 "2x1 is there twice" "$lockstep" scale mnist-mlp --layout 2x1,2x1 --out study
    refuses 2 "leave --workers" "$lockstep" scale mnist-mlp --layout 1x2 --workers 2 --out study
    refuses 1 "need a Slurm allocation" "$lockstep" scale mnist-mlp --layout 1x2,2x1 --out study
    refuses 2 "'both' is not one of strong, weak, batch-per-worker" "$lockstep" scale mnist-mlp --workers 1 --mode both --out study
    refuses 2 "has nothing to be compared with" "$lockstep" scale mnist-mlp --compare lr=0.1 --out study
    refuses 2 "expected words like lr=0.01,0.02, got 'lr'" "$lockstep" scale mnist-mlp --compare "lr 0.1" --out study
    refuses 2 "unknown option --lrr" "$lockstep" scale mnist-mlp --compare lrr=0.1,0.2 --out study
    refuses 2 "'lr 0.1' is there twice" "$lockstep" scale mnist-mlp --compare lr=0.1,0.1 --out study
    refuses 2 "leave --strategy out and add strategy=allreduce,tree to the words of --compare" \
        "$lockstep" scale mnist-mlp --strategy allreduce,tree --compare lr=0.1,0.2 --out study
    refuses 2 "'trees' is not one of" "$lockstep" scale mnist-mlp --strategy allreduce,trees --workers 1 --out study
    refuses 2 "'trees' is not one of" "$lockstep" scale mnist-mlp --strategy trees --workers 1 --out study
    refuses 2 "'allreduce,tree' is not one of" "$lockstep" train mnist-mlp --strategy allreduce,tree
    refuses 1 "batches of 300 for each of 2 workers are 600 samples, and there are 500" \
        "$lockstep" scale mnist-mlp $tiny --mode batch-per-worker --batch-size 300 --workers 1,2 --out study
    [ -e study ] && wrong "a refused study left something behind"

    run 0 env LC_ALL=C "$lockstep" scale mnist-mlp $tiny --workers 1,2 --out study/ --terminal
    matches '^  2 workers +#+ [0-9.]+$'
    says "ended with the same weights"
    matches '^ +1 +2 +2 +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+$'
    for name in study.json results.csv results.md index.html runs/mnist-mlp-strong-n1-w1-r1.json \
        runs/mnist-mlp-strong-n1-w2-r1.json runs/mnist-mlp-strong-n1-w2-r1.log; do
        [ -s "study/$name" ] || wrong "there is no study/$name"
    done
    grep -q '"workers": 2,' study/runs/mnist-mlp-strong-n1-w2-r1.json || wrong "the run did not have two workers"
    grep -q '"replicas_per_worker": 1,' study/runs/mnist-mlp-strong-n1-w1-r1.json || wrong "not one replica per worker"
    [ "$(wc -l <study/results.csv)" -eq 3 ] || wrong "results.csv should have a head and two rows"

    # The line of a run says what the table says.
    # shellcheck disable=SC2016 # awk's
    line=$(awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["workers"] == 2 { printf "%.3g s per epoch", $at["epoch_seconds"] }' study/results.csv)
    says "[2/2] mnist-mlp, 2 workers: $line, "
    grep -q "<dt>Machine</dt><dd>[0-9]* core" study/index.html || wrong "the page does not say what machine it was"

    # The causes of lost efficiency add up to the loss, four workers on two cores included: what is measured leaves no more than
    # 5 % of the epoch time unexplained.
    run 0 "$lockstep" scale mnist-cnn --limit-train 1500 --no-evaluate --epochs 2 --workers 1,2,4 --out causes
    says "Where the efficiency goes"
    # shellcheck disable=SC2016 # awk's
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        {
            left = $at["lost_unexplained"]
            sum = left + $at["lost_compute"] + $at["lost_exchange"] + $at["lost_wait"] + $at["lost_input"] + $at["lost_serial"]
            lost = 1 - $at["efficiency"]
            if (left == "" || left > 0.05 || left < -0.05 || sum - lost > 1e-6 || lost - sum > 1e-6) exit 1
            rows++
        }
        END { exit rows != 3 }' causes/results.csv >out || wrong "the causes do not explain the loss: $(cat causes/results.csv)"

    # The same again, and more of it: what is there is not run again. Other options are refused, nothing is touched.
    before=$(cat study/runs/*.json | cksum)
    run 0 "$lockstep" scale mnist-mlp $tiny --workers 1,2 --out study
    says "2 of them are done already"
    [ "$(cat study/runs/*.json | cksum)" = "$before" ] || wrong "a run that was done was run again"
    run 0 "$lockstep" scale mnist-mlp $tiny --workers 1,2 --repeats 2 --out study
    says "[3/4] mnist-mlp, 1 worker, repeat 2 of 2: "
    says " to "
    before=$(cat study/study.json study/runs/*.json | cksum)
    refuses 1 "has a study with other options" "$lockstep" scale mnist-mlp $tiny --seed 7 --workers 1,2 --out study
    sed -i 's/"500"/"501"/' study/runs/mnist-mlp-strong-n1-w1-r1.json
    refuses 1 "is the record of another command" "$lockstep" scale mnist-mlp $tiny --workers 1 --out study
    sed -i 's/"lockstep_run": 1/"lockstep_run": 99/' study/runs/mnist-mlp-strong-n1-w1-r1.json
    refuses 1 "is not of record format 1" "$lockstep" scale mnist-mlp $tiny --workers 1 --out study
    run 0 "$lockstep" report study # the other runs are there all the same
    says "mnist-mlp with 1 worker: 1 of 2 runs failed: study/runs/mnist-mlp-strong-n1-w1-r1.json is a record of format 99"
    echo '{"lockstep_study": 99}' >study/study.json
    refuses 1 "not of study format 1" "$lockstep" scale mnist-mlp $tiny --workers 1 --out study

    run 0 "$lockstep" scale mnist-mlp --limit-test 100 --epochs 1 --limit-train 200 --batch-size 64 --mode weak \
        --workers 1,2 --out weak
    grep -q '"global_batch": 128,' weak/runs/mnist-mlp-weak-n1-w2-r1.json || wrong "the batch did not grow"
    grep -q '"train_count": 400,' weak/runs/mnist-mlp-weak-n1-w2-r1.json || wrong "the samples did not grow"
    [ "$(grep -h '"micro_batch": ' weak/runs/*.json | sort -u | wc -l)" -eq 1 ] || wrong "the micro-batch changed"

    # The labs' protocol: the batch grows, the data does not, and the rate goes with the batch where that is asked for. Both curves
    # of accuracy are in one chart, and the time to an accuracy in the table.
    run 0 "$lockstep" scale mnist-mlp --limit-train 1000 --limit-test 200 --epochs 4 --mode batch-per-worker --batch-size 32 \
        --workers 1,2 --compare "lr-scaling=none | lr-scaling=linear lr-base-batch=32" --until-accuracy 0.3 --out protocol
    says "protocol: 4 runs, batch-per-worker"
    says "Batch per worker: the batch, and in some of these rows the learning rate with it, grows"
    says "a test accuracy of 30 % was reached first with "
    says "Time"
    grep -q 'trong scaling' out && wrong "another batch is another work"
    for w in 1 2; do
        record=protocol/runs/mnist-mlp-batch-per-worker-n1-w$w-v2-r1.json
        grep -q "\"global_batch\": $((32 * w))," $record || wrong "the batch did not grow"
        grep -q '"train_count": 1000,' $record || wrong "the samples did grow"
        grep -A1 '"epoch_learning_rate"' $record | grep -q "0.00$w" || wrong "the rate did not grow"
        grep -q '"until_epoch": [1-4],' $record || wrong "the accuracy was not reached, or not noted"
    done
    # A sweep has no scaling to speak of. It runs on all cores.
    run 0 "$lockstep" scale mnist-mlp $tiny --compare "lr=0.001,0.01 precision=fp32" --out sweep
    says "[2/2] mnist-mlp, lr 0.01, precision fp32, 1 worker: "
    says "2 of 2 configurations have no other that did the same work"
    grep -q 'speedup of' out && wrong "a sweep has no speedup"
    run 0 "$lockstep" scale mnist-mlp $tiny --compare "batch-size=64,128 seed=1,2" --out sweep4

    # A list of strategies is a comparison of them.
    run 0 "$lockstep" scale mnist-mlp $tiny --strategy tree,reduce-broadcast --workers 2 --out ways
    says "strategy tree"
    says "strategy reduce-broadcast"
    cat ways/runs/*.json >records
    for name in tree reduce-broadcast; do grep -q "\"strategy\": \"$name\"" records || wrong "nothing was trained with $name"; done
    [ "$(wc -l <sweep4/results.csv)" -eq 5 ] || wrong "two values of two options are four ways"
    # Layouts are how a run's step is asked for.
    run 1 env PATH="$here" SLURM_JOB_ID=17 SLURM_JOB_NUM_NODES=2 SLURM_JOB_END_TIME=$(($(date +%s) + 3600)) \
        "$lockstep" scale mnist-mlp $tiny --layout 1x2,2x1 --out layouts
    complains "2 of 2 runs failed"
    for layout in "-N 1 --ntasks-per-node=2" "-N 2 --ntasks-per-node=1"; do
        grep -q -- "$layout" layouts/study.json || wrong "no step with $layout"
    done

    # A study that knows when it has to be over: a run that is under way stops in time, what cannot be done is not started, and
    # all of that is left for the next time. What is known of runs is what their records say.
    refuses 2 "--time-limit: expected" "$lockstep" scale mnist-mlp $tiny --workers 1 --time-limit 0 --out late
    run 0 "$lockstep" scale mnist-mlp --limit-train 500 --limit-test 100 --epochs 1000000 --workers 1,2 --time-limit 0:12 \
        --out late
    says ", --time-limit 0:12"
    says "[1/2] mnist-mlp, 1 worker: STOPPED for lack of time, after step "
    says "[2/2] mnist-mlp, 2 workers: NOT STARTED for lack of time: it takes at least "
    says "1 of 1 run did not come to the end, stopped by its time limit after step "
    says "For lack of time, 2 of 2 runs are not done; the same command goes on with them."
    grep -q "did not come to the end" late/index.html || wrong "the page takes a stopped run for a whole one"
    before=$(cksum <late/runs/mnist-mlp-strong-n1-w1-r1.json)
    run 1 "$lockstep" scale mnist-mlp --limit-train 500 --limit-test 100 --epochs 1000000 --workers 1 --timeout 1 --out late
    says "[1/1] mnist-mlp, 1 worker: FAILED: it took longer than the 1 s of --timeout"
    [ "$(cksum <late/runs/mnist-mlp-strong-n1-w1-r1.json)" = "$before" ] || wrong "a run that failed took an earlier record with it"

    run 0 "$lockstep" scale mnist-mlp $tiny --workers 1,2 --out soon
    sed -i 's/"total_seconds": [0-9.]*/"total_seconds": 5000.0/' soon/runs/mnist-mlp-strong-n1-w2-r1.json
    sed -i 's/"stopped": null/"stopped": "time limit"/' soon/runs/mnist-mlp-strong-n1-w1-r1.json
    run 0 "$lockstep" scale mnist-mlp $tiny --workers 1,2,4 --time-limit 20 --out soon
    says "1 of them is done already and not run again"
    matches '^\[1/3\] mnist-mlp, 1 worker: NOT STARTED for lack of time: it takes at least 1:23:20 h, and 19:[0-9]+ min are left'
    matches '^\[3/3\] mnist-mlp, 4 workers: NOT STARTED for lack of time: it takes at least 41:40 min, and 19:[0-9]+ min are left'
    run 0 "$lockstep" scale mnist-mlp $tiny --workers 1,2,4 --time-limit 50 --out soon
    matches '^\[1/3\] mnist-mlp, 1 worker: NOT STARTED'
    matches '^\[3/3\] mnist-mlp, 4 workers: [0-9.e-]+ s per epoch'
    says "For lack of time, 1 of 3 runs is not done; the same command goes on with it."
    run 0 "$lockstep" scale mnist-mlp $tiny --workers 1,2,4 --out soon
    matches '^\[1/3\] mnist-mlp, 1 worker: [0-9.e-]+ s per epoch'
    says "ended with the same weights"
    grep -q 'lack of time' out && wrong "a study without a limit lacks time"

    # Without gnuplot tables and page come all the same, with a hint.
    run 0 env PATH="$here" "$lockstep" scale mnist-mlp $tiny --workers 1 --out plain
    says "Speedup"
    complains "gnuplot"
    for name in results.csv results.md index.html charts/phases.gp; do
        [ -s "plain/$name" ] || wrong "there is no plain/$name without gnuplot"
    done
    grep -q "gnuplot" plain/index.html || wrong "the page does not say why it has no charts"
    # A page that cannot be written in the end, for want of room say, leaves the one that was there whole.
    before=$(cksum <plain/index.html)
    run 1 sh -c "trap '' XFSZ; ulimit -f 7; PATH=$here; exec \"\$@\"" sh "$lockstep" scale mnist-mlp $tiny --workers 1 --out plain
    complains "cannot write plain/index.html: File too large"
    says "Where a step's time goes"
    [ "$(cksum <plain/index.html)" = "$before" ] || wrong "the page from before is gone"
    # Where the tables cannot be written in the end, they have been printed, and records are records.
    rm plain/results.csv
    mkdir plain/results.csv
    run 1 "$lockstep" scale mnist-mlp $tiny --workers 1 --out plain
    says "Where a step's time goes"
    complains "cannot write plain/results.csv: Is a directory"
    [ -s plain/runs/mnist-mlp-strong-n1-w1-r1.json ] || wrong "the record is gone"
    # A full disk, for which a limit on the size of files stands, is said before anything runs.
    run 1 sh -c "trap '' XFSZ; ulimit -f 1; exec \"\$@\"" sh "$lockstep" scale mnist-mlp $tiny --workers 1 --out full
    complains "cannot write full/study.json: File too large; name a folder that can be written to with --out"
    [ -e full/study.json ] && wrong "half a study stays behind"

    # Slurm refuses a run: its words, and the study goes on.
    mkdir bin
    cat >bin/srun <<'TEXT'
#!/bin/sh
echo "srun: error: Unable to create step for job 17: Requested node configuration is not available" >&2
exit 1
TEXT
    chmod +x bin/srun
    run 1 env PATH="$here/bin:$PATH" SLURM_JOB_ID=17 SLURM_JOB_END_TIME=$(($(date +%s) + 3600)) \
        "$lockstep" scale mnist-mlp $tiny --workers 2,1 --out refused
    says "the end of Slurm job 17"
    says "[1/2] mnist-mlp, 2 workers: FAILED: srun says: Unable to create step for job 17: Requested node configuration is not available; runs/mnist-mlp-strong-n1-w2-r1.log may say more"
    matches '^\[2/2\] mnist-mlp, 1 worker: [0-9.e-]+ s per epoch'
    complains "1 of 2 runs failed: the tables say why, refused/runs/ has the logs"
    grep -q 'srun says' refused/results.md || wrong "the tables do not say why a row is empty"

    # Too long, and then crashed.
    long="--limit-train 500 --limit-test 100 --epochs 100000 --workers 1"
    run 1 "$lockstep" scale mnist-mlp $long --timeout 1 --out long
    says "FAILED: it took longer than the 1 s of --timeout"
    complains "1 of 1 run failed"
    [ -e long/runs/mnist-mlp-strong-n1-w1-r1.json ] && wrong "a run that was ended left a record"
}

# The process that the study at $1 has started.
child() { tr -d ' ' <"/proc/$1/task/$1/children" 2>/dev/null; }
started() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40; do
        [ -n "$(child "$1")" ] && grep -q '^Epoch' long/runs/*.log && return
        sleep 0.3
    done
    wrong "the run did not begin"
}

[ -r /proc/self/task/$$/children ] || [ -r /proc/$$/task/$$/children ] || finish
rm long/runs/*.log
# shellcheck disable=SC2086
"$lockstep" scale mnist-mlp $long --out long >out 2>err </dev/null &
job=$!
what="a study with a run that crashes"
started $job
kill -ABRT "$(child $job)"
wait $job
status=$?
[ $status -eq 1 ] || wrong "$what: exit status $status"
says "FAILED: it crashed: signal 6"

# A folder that another study is at work in is left alone; once that is gone, however it went, it is not.
rm long/runs/*.log
# shellcheck disable=SC2086
{
    "$lockstep" scale mnist-mlp $long --out long >/dev/null 2>&1 </dev/null &
    job=$!
    started $job
    run_under_way=$(child $job)
    before=$(cksum <long/study.json)
    refuses 1 "another 'lockstep scale' is at work in long (process $job on $(uname -n)): wait until it is done" \
        "$lockstep" scale mnist-mlp $long --out long/
    [ "$(cksum <long/study.json)" = "$before" ] || wrong "the study of another one was changed"
    [ -d "/proc/$run_under_way" ] || wrong "the run of another study was ended"
    kill -KILL $job
    wait $job 2>/dev/null
    run 1 "$lockstep" scale mnist-mlp $long --timeout 1 --out long
    says "FAILED: it took longer"
}

env --default-signal=INT true 2>/dev/null || finish
rm long/runs/*.log
# shellcheck disable=SC2086
env --default-signal=INT "$lockstep" scale mnist-mlp $long --out long >out 2>err </dev/null &
job=$!
what="a study that is interrupted"
started $job
run_under_way=$(child $job)
kill -INT $job
wait $job
status=$?
[ $status -eq 1 ] || wrong "$what: exit status $status"
complains "interrupted with 0 of 1 runs done; the same command goes on from there"
[ -d "/proc/$run_under_way" ] && wrong "$what: its run goes on"
[ -e long/runs/mnist-mlp-strong-n1-w1-r1.json ] && wrong "$what: it left a record"
[ -e long/runs/mnist-mlp-strong-n1-w1-r1.failed ] && wrong "$what: an interrupted run is not a failed one"
finish
