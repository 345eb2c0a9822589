#!/bin/sh
# Training without MPI's launcher: a list of hosts, TF_CONFIG, keys, and what becomes of a job that loses somebody. With LOCKSTEP_TEST_ALL=1 in
# the environment it takes longer: more workers, all strategies, MPI beside it, a death among workers of one host.
. "$(dirname "$0")/lib.sh"

# An address of this machine that no other test has, and ports below those that the system draws.
net=127.$((1 + $$ / 250 % 250)).$((1 + $$ % 250))
unset LOCKSTEP_KEY TF_CONFIG
(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$here/key")
recipe="mnist-mlp --device ref --limit-train 960 --limit-test 100 --epochs 1 --verbose 2 --batch-size 320 --micro-batch 32 --replicas 1"

# list TASKS HOSTS: worker i on host i % HOSTS.
list() {
    i=0
    hosts=
    while [ $i -lt "$1" ]; do
        hosts=$hosts${hosts:+,}$net.$((1 + i % $2)):$((21000 + i))
        i=$((i + 1))
    done
}

digest() { sed -n 's/^Weights digest *//p' "$here/out"; }

# job TASKS HOSTS OPTIONS...: all of them; the first one's output is that of the run.
job() {
    tasks=$1
    list "$1" "$2"
    shift 2
    # shellcheck disable=SC2086
    {
        k=1
        while [ $k -lt "$tasks" ]; do
            timeout -k 10 120 "$lockstep" train $recipe --hosts "$hosts" --task $k --key-file "$here/key" "$@" \
                >"$here/out.$k" 2>"$here/err.$k" </dev/null &
            eval "job_$k=\$!"
            k=$((k + 1))
        done
        run 0 "$lockstep" train $recipe --hosts "$hosts" --task 0 --key-file "$here/key" "$@"
        k=1
        while [ $k -lt "$tasks" ]; do
            eval "wait \$job_$k" || wrong "$what: worker $k: exit status $?: $(cat "$here/err.$k")"
            [ -s "$here/out.$k" ] && wrong "$what: worker $k speaks: $(cat "$here/out.$k")"
            k=$((k + 1))
        done
    }
}
same() { [ "$(digest)" = "$alone" ] || wrong "$what: weights differ from those of one worker ($alone)"; }

# The bits of one worker.
# shellcheck disable=SC2086
run 0 "$lockstep" train $recipe
alone=$(digest)
[ "${#alone}" -eq 64 ] || wrong "one worker trains nothing"
job 3 2 --record "$here/record"
same
says "3 workers on 2 hosts"
says "exchange behind that"
grep -q '"TCP, authenticated, not encrypted"' "$here/record" || wrong "the record does not say that it was TCP"
grep -q "$(cat "$here/key")" "$here/record" && wrong "the key is in the record"
[ -n "${LOCKSTEP_TEST_ALL:-}" ] && {
    for counts in "1 1" "2 1" "2 2" "5 3" "5 1"; do
        # shellcheck disable=SC2086
        job $counts
        same
    done
    for strategy in reduce-broadcast central tree parameter-server; do
        for counts in "5 5" "3 3" "4 2" "2 1"; do
            # shellcheck disable=SC2086
            job $counts --strategy $strategy
            same
        done
    done
    if [ -n "$mpirun" ]; then
        # shellcheck disable=SC2086
        run 0 $mpirun 3 "$lockstep" train $recipe
        same
    fi
}

# What TensorFlow takes from TF_CONFIG, and the key from the environment.
list 2 2
config() { echo "{\"cluster\": {\"chief\": [\"${hosts%,*}\"], \"worker\": [\"${hosts#*,}\"]}, \"task\": {\"type\": \"$1\", \"index\": 0}}"; }
LOCKSTEP_KEY=$(cat "$here/key")
export LOCKSTEP_KEY
# shellcheck disable=SC2086
TF_CONFIG=$(config worker) timeout 60 "$lockstep" train $recipe >"$here/out.1" 2>"$here/err.1" </dev/null &
# shellcheck disable=SC2086
TF_CONFIG=$(config chief) run 0 "$lockstep" train $recipe
wait $! || wrong "the second of TF_CONFIG: $(cat "$here/err.1")"
says "2 workers on 2 hosts"
same
# shellcheck disable=SC2086
TF_CONFIG='{}' run 0 "$lockstep" train $recipe # nobody else
same
refuses 1 "TF_CONFIG is no JSON" env TF_CONFIG='{' "$lockstep" train mnist-mlp
refuses 1 "names no task" env TF_CONFIG='{"cluster": {"worker": ["a:1", "b:1"]}}' "$lockstep" train mnist-mlp
refuses 1 "--strategy parameter-server --servers 1" env TF_CONFIG='{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}}' "$lockstep" train mnist-mlp

# Evaluation together, and exchanges to be measured.
# shellcheck disable=SC2086
run 0 "$lockstep" train $recipe --save "$here/weights.safetensors"
evaluate() { run 0 "$lockstep" evaluate "$here/weights.safetensors" --model mnist-mlp --data digits --limit 500 --device ref "$@"; }
evaluate
grep -v '^Trained' "$here/out" >"$here/alone"
timeout 60 "$lockstep" evaluate "$here/weights.safetensors" --model mnist-mlp --data digits --limit 500 --device ref \
    --hosts "$hosts" --task 1 >"$here/out.1" 2>"$here/err.1" </dev/null &
evaluate --hosts "$hosts" --task 0
wait $! || wrong "the second that evaluates: $(cat "$here/err.1")"
cmp -s "$here/out" "$here/alone" || wrong "$what: other numbers than one worker's"
[ -n "${LOCKSTEP_TEST_ALL:-}" ] && {
    timeout 60 "$lockstep" bench exchange --to 64 --hosts "$hosts" --task 1 >"$here/out.1" 2>"$here/err.1" </dev/null &
    run 0 "$lockstep" bench exchange --to 64 --hosts "$hosts" --task 0
    wait $! || wrong "the second that exchanges: $(cat "$here/err.1")"
    says "2 workers on 2 hosts"
}

# What cannot be.
refuses 2 "which of them is this process? --task says it" "$lockstep" train mnist-mlp --hosts a:1,b:1
refuses 2 "leave out --workers; the list says how many" "$lockstep" train mnist-mlp --hosts a:1,b:1 --task 0 --workers 2
refuses 2 "--task: of which job? --hosts names its workers" "$lockstep" train mnist-mlp --task 0
refuses 1 "Its number is one of 0 to 1, and 2 is given" "$lockstep" train mnist-mlp --hosts a:1,b:1 --task 2
refuses 1 "worker 1 is 'b', which has no port" "$lockstep" train mnist-mlp --hosts a:1,b --task 0
refuses 1 "cannot open the key file $here/none" "$lockstep" train mnist-mlp --hosts a:1,b:1 --task 0 --key-file "$here/none"
cp "$here/key" "$here/open" && chmod 644 "$here/open"
refuses 1 "is open to others (mode 644)" "$lockstep" train mnist-mlp --hosts a:1,b:1 --task 0 --key-file "$here/open"
unset LOCKSTEP_KEY
refuses 1 "there is no key" "$lockstep" train mnist-mlp --hosts a:1,b:1 --task 0
refuses 1 "worker 1: waited 1 s, and 1 of 2 workers has not come: worker 0 ($net.1:21000) cannot be reached: Connection refused" \
    "$lockstep" train mnist-mlp --hosts "$hosts" --task 1 --key-file "$here/key" --wait-limit 0:01

# Another key: both sides say so, and where one of them gave up the right one is let in.
(umask 077 && echo "not the key that the others have" >"$here/other")
# shellcheck disable=SC2086
timeout 60 "$lockstep" train $recipe --hosts "$hosts" --task 0 --key-file "$here/key" >"$here/out.0" 2>"$here/err.0" </dev/null &
first=$!
# shellcheck disable=SC2086
refuses 1 "worker 0 at $net.1:21000 has another key than this worker" "$lockstep" train $recipe --hosts "$hosts" --task 1 --key-file "$here/other"
# shellcheck disable=SC2086
run 0 "$lockstep" train $recipe --hosts "$hosts" --task 1 --key-file "$here/key"
wait $first || wrong "the first: $(cat "$here/err.0")"
grep -q "sent away somebody at .* who says to be worker 1 and has another key; still waiting" "$here/err.0" ||
    wrong "the first says nothing of another key: $(cat "$here/err.0")"
cp "$here/out.0" "$here/out"
same

# Whoever waits while others join has its own number, which TF_CONFIG tells as well, and says at which address the other one is.
list 3 3
IFS=, read -r a b c <<TEXT
$hosts
TEXT
for k in 0 1 2; do
    [ $k -lt 2 ] || sleep 1.5 # the first two find each other, and the second one is stopped
    [ $k -lt 2 ] || kill -STOP "$job_1"
    # shellcheck disable=SC2086
    TF_CONFIG="{\"cluster\": {\"worker\": [\"$a\", \"$b\", \"$c\"]}, \"task\": {\"type\": \"worker\", \"index\": $k}}" \
        "$lockstep" train $recipe --key-file "$here/key" --wait-limit 0:04 >"$here/out.$k" 2>"$here/err.$k" </dev/null &
    eval "job_$k=\$!"
done
wait "$job_0" "$job_2"
kill -KILL "$job_1"
wait "$job_1"
grep -q "worker 0 on [^ ]* has waited for a message from $c for" "$here/err.0" && grep -q '^  worker 0 (process ' "$here/err.0" ||
    wrong "worker 0 does not say for whom it waited: $(cat "$here/err.0")"
list 2 2

# Options on which they do not agree: each says so where it was started.
# shellcheck disable=SC2086
timeout 60 "$lockstep" train $recipe --seed 2 --hosts "$hosts" --task 1 --key-file "$here/key" >"$here/out.1" 2>"$here/err.1" </dev/null &
# shellcheck disable=SC2086
run 1 "$lockstep" train $recipe --hosts "$hosts" --task 0 --key-file "$here/key"
wait $! && wrong "the second goes on with another seed"
complains 'worker 1 has "seed=2"'
grep -q 'worker 1: workers disagree on the options' "$here/err.1" || wrong "the second does not say why it ends: $(cat "$here/err.1")"

# A request to stop that one worker gets is one to all of them. Before they have found each other there is nothing to keep.
stops="--epochs 1000000 --checkpoint $here/ckpt --checkpoint-every 1h"
# shellcheck disable=SC2086
run 143 timeout --preserve-status -s TERM 1 "$lockstep" train $recipe $stops --hosts "$hosts" --task 1 --key-file "$here/key"
: >"$here/out.0"
for k in 0 1; do
    # shellcheck disable=SC2086
    "$lockstep" train $recipe $stops --hosts "$hosts" --task $k --key-file "$here/key" >"$here/out.$k" 2>"$here/err.$k" </dev/null &
    eval "job_$k=\$!"
done
looks=0
until grep -q '^Epoch 2' "$here/out.0" || [ $looks -eq 450 ]; do
    looks=$((looks + 1))
    sleep 0.1
done
# shellcheck disable=SC2154 # eval sets them
kill -TERM "$job_1"
for k in 0 1; do
    eval "wait \$job_$k"
    code=$?
    [ $code -eq 75 ] || wrong "worker $k of two that were asked to stop: exit status $code: $(cat "$here/err.$k")"
done
[ -n "$(find "$here/ckpt" -name manifest.json)" ] || wrong "two workers that were asked to stop keep no checkpoint"

# As where a whole machine stands still, for longer than the limit: nobody was silent, and the job goes on.
stand_still() {
    # shellcheck disable=SC2154 # eval sets them
    all=$(for k in "$job_0" "$job_1" "$job_2"; do ps -o pid= --ppid "$k"; done)
    # shellcheck disable=SC2086
    {
        kill -STOP $all
        sleep "$1"
        kill -CONT $all
        sleep 5
        kill -0 $all 2>/dev/null || wrong "three workers that stood still for $1 s do not go on: $(cat "$here"/err.?)"
    }
}

# One of three is killed or stopped in the middle of training: the others end too, and each says whom it lost, and what it exchanged or waited for.
# loses SIGNAL HOSTS WORKER OPTIONS...
limit=0:04 pause= samples=12000 # of an epoch: longer than it takes to find its beginning, but some asynchronous workers find out at its end alone
loses() {
    signal=$1 on=$2 gone=$3
    shift 3
    list 3 "$on"
    : >"$here/out.0" # what an earlier job wrote is not to be taken for this one's
    for k in 0 1 2; do
        # shellcheck disable=SC2086
        timeout -k 5 60 "$lockstep" train $recipe --limit-train $samples --batch-size 96 --epochs 1000000 --wait-limit $limit --hosts "$hosts" --task $k --key-file "$here/key" "$@" \
            >"$here/out.$k" 2>"$here/err.$k" </dev/null &
        eval "job_$k=\$!"
    done
    looks=0 # where others compute, too, this takes its time
    # An epoch has just begun: what is lost is lost in an exchange, and not in an evaluation.
    until grep -q '^Epoch 1' "$here/out.0" || [ $looks -eq 450 ]; do
        looks=$((looks + 1))
        sleep 0.1
    done
    grep -q '^Epoch 1' "$here/out.0" || wrong "three workers do not begin: $(cat "$here/err.0")"
    eval "victim=\$job_$gone"
    # shellcheck disable=SC2154 # eval sets it
    process=$(ps -o pid= --ppid "$victim" | tr -d ' ')
    [ -z "$pause" ] || stand_still "$pause"
    kill -"$signal" "$process"
    for k in 0 1 2; do
        [ $k -ne "$gone" ] || continue
        eval "wait \$job_$k"
        code=$?
        cp "$here/out.$k" "$here/out" && cp "$here/err.$k" "$here/err"
        [ $code -eq 1 ] || wrong "worker $k of 3 on $on hosts, after $signal of worker $gone ($*): exit status $code"
        # Whoever has the limit reached first, and whoever it waits for, who may only wait for somebody else in turn: it is the lost one that is named.
        grep -qE "worker $gone (on .*(its connection is gone|has not answered)|\(process [0-9]+\) is (gone|stopped))" "$here/err" ||
            wrong "worker $k on $on hosts does not name worker $gone, after $signal of it ($*)"
        grep -qE '(bucket|batch) [0-9]+|the next batch' "$here/err" ||
            wrong "worker $k on $on hosts does not say what it exchanged, after $signal of worker $gone ($*)"
    done
    [ "$signal" = KILL ] || kill -KILL "$process"
    wait "$victim"
}
[ -z "${LOCKSTEP_TEST_ALL:-}" ] || loses KILL 1 1
# Of whom one shares the memory of the one that is stopped, and is waited for itself: it has a quarter of the limit to say so.
limit=0:08
loses STOP 2 2
pause=10
loses STOP 2 2
limit=0:04
loses STOP 3 1 --strategy parameter-server --async
pause=
# One that computes for ever, as it seems from outside: it is neither gone nor stopped, and waited for in memory by a worker that another host waits for.
list 3 2
for k in 0 1 2; do
    # shellcheck disable=SC2086
    timeout -k 5 60 "$lockstep" train mnist-cnn ${recipe#mnist-mlp --device ref} --batch-size 96 --wait-limit $limit --hosts "$hosts" --task $k --key-file "$here/key" \
        --slow worker=0,factor=1000 >"$here/out.$k" 2>"$here/err.$k" </dev/null &
    eval "job_$k=\$!"
done
for k in 1 2; do
    eval "wait \$job_$k"
    grep -qE 'has waited for .*bucket [0-9]+ of [0-9]+.*: worker 0 on [^ ]* has not answered' "$here/err.$k" || wrong "worker $k does not name worker 0, which computes for ever: $(cat "$here/err.$k")"
done
# shellcheck disable=SC2154 # eval sets it
kill -KILL "$(ps -o pid= --ppid "$job_0" | tr -d ' ')"
wait
for signal in KILL STOP; do
    loses $signal 3 1
    # The last of three is the server.
    loses $signal 3 2 --strategy parameter-server
    loses $signal 3 2 --strategy parameter-server --async
    [ $signal = KILL ] || loses $signal 3 1 --strategy parameter-server
    loses $signal 3 1 --strategy parameter-server --async
done
finish
