#!/bin/sh
# Communication that fails on one worker, while all compute: the job ends, and says which bucket it was. Nobody waits for ever, neither the
# other workers of its host nor other hosts.
# usage: broken_exchange.sh LOCKSTEP FAKE_HOSTS
set -u
lockstep=$1 hosts=$2
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK 2>/dev/null
failed=0
[ -f "$hosts" ] || { echo "there is no library $hosts: nothing would break" && exit 1; }
# Where one worker of a host sends and receives for the others, these are 0 and 2; the server is worker 3. Of what breaks on worker 1, worker 0 reads in the
# memory of their host, and speaks first: with the sentence of worker 1, who is the cause, and before that one does, unless the machine stalls.
for options in "0 1 2 --strategy allreduce" "0 2 --strategy reduce-broadcast" "0 2 --strategy allreduce --clip-norm 1" "0 2 --strategy allreduce --compress bf16" "0 2 --strategy tree" \
    "1 3 --strategy parameter-server"; do
    workers=${options%% --*} options=--${options#* --}
    for worker in $workers; do
        for _ in 1 2 3; do
            # shellcheck disable=SC2086 # several words
            LD_PRELOAD=$hosts LOCKSTEP_TEST_HOSTS=2 LOCKSTEP_TEST_BREAKS=$worker:5 timeout -k 5 40 \
                "$lockstep" train mnist-mlp --data digits --limit-train 1024 --limit-test 50 --epochs 2 --batch-size 64 --micro-batch 8 \
                --workers 4 --replicas 1 --bucket-size 0.3 --verbose 0 $options >"$out/log" 2>&1
            code=$?
            [ "$worker" -eq 1 ] || break
            grep -q "worker 0: .*worker 1 of this host has failed: bucket [0-9]* of [0-9]*: .*look for a message with worker 3: " "$out/log" && break
            code=0
        done
        if [ $code -eq 0 ] || [ $code -ge 124 ]; then
            echo "$options, worker $worker: exit status $code"
            cat "$out/log"
            failed=1
        elif ! grep -q "bucket [0-9]* of [0-9]*: .*look for a message with worker [0-3]: " "$out/log"; then
            echo "$options, worker $worker: does not say what failed, and of which bucket"
            cat "$out/log"
            failed=1
        fi
    done
done
# Lanes that wait for totals, since a norm comes first: the third bucket's or a later one's fail.
LD_PRELOAD=$hosts LOCKSTEP_TEST_HOSTS=2 LOCKSTEP_TEST_BREAKS_TOTAL=2:9 timeout -k 5 40 \
    "$lockstep" train mnist-mlp --data digits --limit-train 1024 --limit-test 50 --epochs 2 --batch-size 64 --micro-batch 8 \
    --workers 4 --replicas 1 --bucket-size 0.1 --verbose 0 --strategy allreduce --compress bf16 --clip-norm 1 >"$out/log" 2>&1
code=$?
if [ $code -eq 0 ] || [ $code -ge 124 ] || ! grep -q "bucket [0-9]* of [0-9]*: .*\(wait\|look\) for a message with worker [0-3]: " "$out/log"; then
    echo "totals that are waited for by lanes: exit status $code"
    cat "$out/log"
    failed=1
fi
# Asynchronous training: a push or pull says of which batch, and a server whom it was serving. Of a batch a worker asks for four messages of one server,
# the last of them for its push, and a server for as many of a worker (the second one for three), and for one of each before there is any batch.
for case in "0:4 (push of|pull for) batch [0-9]+: .*wait for a message with worker 3: |the next batch: .*wait for a message with worker 3: " \
    "3:40 serving .*batch [0-9]+ (of|by) worker [0-2].*: .*(look|wait) for a message with worker [0-2]: " \
    "3:20 serving slice 1 of 2, .*batch [0-9]+ (of|by) worker [02].*: .*(look|wait) for a message with worker [02]: "; do
    case $case in *slice*) servers=2 ;; *) servers=1 ;; esac
    LD_PRELOAD=$hosts LOCKSTEP_TEST_HOSTS=2 LOCKSTEP_TEST_BREAKS_ASYNC=${case%% *} timeout -k 5 40 \
        "$lockstep" train mnist-mlp --data digits --limit-train 1024 --limit-test 50 --epochs 2 --batch-size 64 --micro-batch 8 \
        --workers 4 --replicas 1 --verbose 0 --strategy parameter-server --async --servers $servers >"$out/log" 2>&1
    code=$?
    if [ $code -eq 0 ] || [ $code -ge 124 ] || ! grep -qE "${case#* }" "$out/log"; then
        echo "asynchronous, $case: exit status $code"
        cat "$out/log"
        failed=1
    fi
done
exit $failed
