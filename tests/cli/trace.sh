#!/bin/sh
# 'lockstep train --trace' and what 'lockstep report' says of it: all workers in one file, also of hosts that share no folder;
# folders that cannot be written to, a disk that is full in the end.
. "$(dirname "$0")/lib.sh"
hosts=${2:-}  # the library that makes hosts of processes (fake_hosts.c), where there is one
small="mnist-mlp --limit-train 640 --limit-test 100 --batch-size 64 --micro-batch 16 --epochs 2"

# shellcheck disable=SC2086
{
    run 0 "$lockstep" train $small --replicas 1 --no-evaluate
    digest=$(grep '^Weights digest' "$here/out")
    run 0 "$lockstep" train $small --replicas 2 --no-evaluate --trace "$here/one"
    says "$digest"
    matches "^Trace +$here/one/trace.json$"
    [ "$(ls "$here/one")" = trace.json ] || wrong "there is more than the trace in its folder"
    run 0 "$lockstep" report "$here/one"
    says "one: mnist-mlp on digits, 1 worker on 1 host x 2 replicas, fp32, allreduce"
    says "Recorded: steps 1 to 10 of the 10 of each epoch, in 2 epochs."
    matches '^  replica 1( +[0-9]+\.[0-9]{3}){9}$'
    matches '^  dense backward weights +[0-9.]+ +[0-9.]+ %$'
    says "Exchange: "
    matches 'straggler'

    # A record of the same run has its slowest layers, and so has the page about it. Which layer that is, the machine and what
    # else runs on it decide; the trace says so, too.
    run 0 "$lockstep" train $small --trace "$here/few/" --trace-steps 3 --verbose 0 --record "$here/run.json"
    slowest=$(grep -A2 '"slowest_layers": \[' "$here/run.json" | sed -n 's/.*"name": "\(.*\)".*/\1/p')
    run 0 "$lockstep" report "$here/few"
    first=$(sed -n '/^The slowest layers/{n;s/^  \(.*[a-z]\)  *[0-9.]*  *[0-9.]* %$/\1/p;}' "$here/out")
    case $first in
    *" "*) ;; # a layer and its pass
    *) wrong "$what: the trace names no slowest layer, but '$first'" ;;
    esac
    [ "$slowest" = "$first" ] || wrong "$what: the record has '$slowest' as the slowest layer, its trace '$first'"
    (cd "$here" && "$lockstep" report run.json --out page >page.out 2>page.err) || wrong "no report of the record"
    grep -q "Of the layers, $slowest took most" "$here/page.out" || wrong "the report names no slowest layer"
    grep -q "<td class=\"name\">$slowest</td>" "$here/page/index.html" || wrong "the page has no slowest layers"
    run 0 "$lockstep" train $small --trace "$here/few/" --trace-steps 3 --verbose 0
    [ -s "$here/out" ] && wrong "--verbose 0 is not silent"
    run 0 "$lockstep" report "$here/few/trace.json"
    says "Recorded: steps 3 to 5 of the 10 of each epoch, in 2 epochs."

    if [ -n "$hosts" ] && "$lockstep" train $small --workers 3 --verbose 0 --no-evaluate --epochs 1 >"$here/out" 2>&1; then
        # Workers that count as two hosts: everything travels in messages, clocks are compared.
        run 0 env LOCKSTEP_TEST_HOSTS=2 LD_PRELOAD="$hosts" "$lockstep" train $small --workers 3 --replicas 1 --no-evaluate --trace "$here/three"
        says "$digest"
        says "3 workers on 2 hosts"
        run 0 "$lockstep" report "$here/three"
        for worker in 0 1 2; do
            matches "^  worker $worker on [^ ]+( +[0-9]+\.[0-9]{3}){9}$"
        done
        says "clocks agree to"
        if command -v python3 >/dev/null; then
            run 0 python3 - "$here/three/trace.json" <<'TEXT'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
steps = {}
for e in events:
    if e.get("cat") == "step": steps.setdefault(e["args"]["step"], {})[e["pid"]] = (e["ts"], e["ts"] + e["dur"])
assert sorted(steps) == list(range(1, 21)), sorted(steps)
for number, workers in steps.items():
    assert sorted(workers) == [1, 2, 3], workers
    # They meet in every step: on one clock, each begins before any other ends.
    assert max(w[0] for w in workers.values()) < min(w[1] for w in workers.values()), (number, workers)
assert {e["name"] for e in events if e.get("cat") == "exchange"} >= {"exchange gradients", "gather weights", "sum gradients"}
TEXT
        fi
    fi

    # Refused before training begins.
    echo >"$here/file"
    for where in "$here/file" "$here/file/x" "$here/file/none/x"; do
        refuses 1 "cannot write the trace $where/trace.json: " "$lockstep" train $small --trace "$where"
    done
    mkdir -p "$here/taken/trace.json"
    refuses 1 "cannot write the trace $here/taken/trace.json: Is a directory" "$lockstep" train $small --trace "$here/taken"
    refuses 2 "--trace-steps" "$lockstep" train $small --trace "$here/x" --trace-steps 0

    # The disk is full in the end: the result is printed and recorded all the same.
    if [ -w /dev/full ]; then
        mkdir "$here/full"
        ln -s /dev/full "$here/full/trace.json"
        run 1 "$lockstep" train $small --replicas 1 --no-evaluate --trace "$here/full" --record "$here/run.json"
        says "$digest"
        complains "cannot write the trace $here/full/trace.json: No space left on device. Training itself is done"
        grep -q weights_digest "$here/run.json" || wrong "no record"
    fi

    # Reporting.
    refuses 2 "report it by itself" "$lockstep" report "$here/one" "$here/few"
    refuses 2 "leave out --out" "$lockstep" report "$here/one" --out "$here/out-folder"
    head -c 20000 "$here/one/trace.json" >"$here/half.json"
    refuses 1 "it is not a whole trace" "$lockstep" report "$here/half.json"
}
finish
