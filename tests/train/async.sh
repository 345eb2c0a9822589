#!/bin/sh
# Asynchronous training: with a staleness of 0, or one computing worker, it has the weights and losses of synchronous training; whatever else it does, its
# log of pushes says, and a replay of that has the same weights, on fewer workers and on more. What does not go together is refused with what to do.
# usage: async.sh LOCKSTEP FAKE_HOSTS [full]
# shellcheck disable=SC2086 # $ps is several words
set -u
lockstep=$1 hosts=$2 full=${3-}
. "$(dirname "$0")/hosts.sh"
ps="--strategy parameter-server --async --replicas 1"

recipe="mnist-mlp --device ref --data digits --limit-train 300 --limit-test 50 --epochs 2 --batch-size 32 --micro-batch 8"
expected=$(digest 1 --replicas 1) || exit 1
compare 1 --workers 1 $ps --push-log "$out/one.log"
[ -z "$full" ] || compare 1 --workers 2 $ps
[ -z "$full" ] || compare 1 --workers 3 $ps --staleness 0
compare 2 --workers 5 $ps --staleness 0 --servers 2
base=$recipe
if [ -n "$full" ]; then
    compare 1 --workers 1 $ps --replay "$out/one.log"
    recipe="$base --optimizer lamb --clip-norm 0.05"
    expected=$(digest 1 --replicas 1) || exit 1
    compare 1 --workers 3 $ps --staleness 0
fi
recipe="$base --optimizer sgd --momentum 0.9 --momentum-correction --schedule cosine --compress bf16"
expected=$(digest 1 --replicas 1) || exit 1
compare 2 --workers 3 $ps --staleness 0

# bounded LOG N: no push of it is staler, and some is stale at all where N is not 0.
bounded() {
    awk -v n="$2" 'NF == 5 && $1 ~ /^[0-9]+$/ { s = $2 - 1 - $5; if (s > most) most = s; pushes++ }
        END { if (pushes == 0 || most > n) { print "a staleness of " most " in " pushes " pushes, and not up to " n; exit 1 } }' "$1" || failed=1
}

# One server: any number of workers may replay it, and of servers.
recipe=$base
expected=$(digest 1 --workers 4 $ps --slow worker=1,factor=3 --push-log "$out/four.log") || exit 1
compare 1 --workers 1 $ps --replay "$out/four.log"
compare 2 --workers 3 $ps --replay "$out/four.log" --push-log "$out/again.log"
[ -z "$full" ] || compare 1 --workers 5 $ps --replay "$out/four.log" --servers 2
# Several servers, which are pulled from at different times: as many of both. A bound.
recipe="$base --delay-compensation 0.04"
expected=$(digest 2 --workers 5 $ps --servers 2 --staleness 2 --push-log "$out/two.log") || exit 1
bounded "$out/two.log" 2
compare 2 --workers 5 $ps --servers 2 --replay "$out/two.log"
grep -q '"digest_depends_on_timing": false' "$out/run.json" || { echo "a replay is said to depend on timing" >&2 && failed=1; }

# A checkpoint after every epoch, and not of the first one only.
"$lockstep" train $base $ps --workers 3 --replicas 1 --epochs 3 --verbose 0 --checkpoint "$out/kept" --checkpoint-every 1epochs --keep 9 >"$out/log" 2>&1 ||
    { cat "$out/log" >&2 && failed=1; }
[ -d "$out/kept/epoch-0003" ] || { echo "no checkpoint after epoch 3: $(ls "$out/kept")" >&2 && failed=1; }

# refuses WORDS OPTIONS...
refuses() {
    words=$1
    shift
    timeout -k 5 60 "$lockstep" train $base --verbose 0 --replicas 1 "$@" >"$out/log" 2>&1
    code=$?
    if [ $code -eq 0 ] || [ $code -ge 124 ] || ! grep -q "$words" "$out/log"; then
        echo "$*: exit status $code, and not the words: $words" >&2
        cat "$out/log" >&2
        failed=1
    fi
}
refuses "choose parameter-server to train asynchronously" --async
refuses "a bound on staleness is for asynchronous training" --strategy parameter-server --staleness 1
refuses "each of 2 servers sees only its slice of a push: ask for one server" --workers 4 $ps --servers 2 --clip-norm 1
refuses "leave the size of buckets" $ps --bucket-size 1
refuses "delay compensation is for gradients in fp32" $ps --delay-compensation 1 --compress bf16
refuses "there are workers 0 to 0" --slow worker=1,factor=3
refuses "is said as worker=2,factor=3" --slow worker:1
refuses "so it takes as many and 3 workers beside them" --delay-compensation 0.04 $ps --replay "$out/two.log"
refuses "is of another training: it has \"lr=-1\", and this one has \"lr=0.5\"" $ps --lr 0.5 --replay "$out/four.log"
refuses "could not open the log of pushes" $ps --replay "$out/none.log"
sed 's/^0 7 [0-9]* /0 7 8 /; s/^0 6 [0-9]* /0 6 8 /' "$out/four.log" >"$out/bad.log"
refuses "is there twice" $ps --replay "$out/bad.log"
refuses "could not write the log of pushes" $ps --push-log "$out/none/a.log"
mkfifo "$out/pipe"
refuses "could not write the log of pushes" $ps --push-log "$out/pipe"

# A log that ends early ends the training there.
head -n 12 "$out/one.log" >"$out/short.log"
"$lockstep" train $base $ps --replay "$out/short.log" >"$out/log" 2>&1 || { cat "$out/log" >&2 && failed=1; }
grep -q "8/10" "$out/log" || { echo "a log of 8 pushes does not end training after 8 steps" >&2 && cat "$out/log" >&2 && failed=1; }
exit $failed
