#!/bin/sh
# Workers on two hosts with nothing but TCP over a 1 Gbit/s link between them: the weights of one worker, and its speed.
needs="mpirun tc"
. "$(dirname "$0")/lib.sh"

# The link. Not every kernel can slow one down; then it is as fast as it is.
limit="root tbf rate 1gbit burst 256k latency 50ms"
# shellcheck disable=SC2086
tc qdisc add dev v1 $limit 2>/dev/null && "$here/on_n2" tc qdisc add dev v2 $limit && speed="1 Gbit/s"

# In the place of ssh: options, the host, and what to run there.
cat >"$here/agent" <<TEXT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
shift
exec "$here/on_n2" sh -c "\$*"
TEXT
chmod +x "$here/agent"

recipe="mnist-cnn --limit-train 1500 --limit-test 200 --batch-size 512 --micro-batch 64 --epochs 1 --verbose 2"
link_mca="--mca plm_rsh_agent $here/agent --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include 10.77.0.0/24"
# two_hosts WORKERS OPTIONS...: half the workers on each host.
two_hosts() {
    n=$1
    shift
    before=$(sent)
    # shellcheck disable=SC2086
    run 0 mpirun $link_mca --mca oob_tcp_if_include 10.77.0.0/24 --bind-to none --quiet \
        --host "n1:$((n / 2)),n2:$((n / 2))" -n "$n" "$lockstep" train $recipe "$@"
    says "$n workers on 2 hosts"
    crossed=$(($(sent) - before))
}

# Three steps, each of which carries every gradient of 690,590 parameters across once or more.
# shellcheck disable=SC2086
for precision in fp32 bf16; do
    timeout 60 "$lockstep" train $recipe --precision $precision >"$here/out" 2>"$here/err"
    if grep -q "needs a CPU with native bfloat16" "$here/err"; then
        echo "$precision left out: this CPU has none"
        continue
    fi
    alone=$(digest)
    [ "${#alone}" -eq 64 ] || wrong "one worker trains nothing"
    for strategy in allreduce reduce-broadcast central tree parameter-server; do
        for workers in 2 4; do
            case $strategy-$precision-$workers in
            allreduce-* | reduce-* | *-fp32-4) ;;
            *) continue ;;
            esac
            two_hosts $workers --precision $precision --strategy $strategy
            same "$alone"
            [ "$crossed" -gt 4000000 ] || wrong "$what: only $crossed bytes crossed the link"
            what="$what, in buckets"
            grep -q '^  exchange behind that .* in 1[0-9] buckets' "$here/out" || wrong "$what: not as many as expected"
            echo "$precision, $strategy, $workers workers on 2 hosts over ${speed:-an unlimited link}:" \
                "$(sed -n 's/^Images per second *//p' "$here/out") images/s, $((crossed / 1000000)) MB sent by n1"
        done
    done
done

# Gradients in bf16: other weights, the same ones for any number of workers. Half of the bytes stay away, as sums and their
# total are all that is sent.
# shellcheck disable=SC2086
timeout 60 "$lockstep" train $recipe --compress bf16 >"$here/out" 2>"$here/err"
alone=$(digest)
for strategy in allreduce reduce-broadcast; do
    two_hosts 2 --strategy $strategy
    all=$crossed
    [ "$(digest)" != "$alone" ] || wrong "$what: gradients in bf16 change nothing"
    for workers in 2 4; do
        two_hosts $workers --strategy $strategy --compress bf16
        same "$alone"
        share=$((100 * crossed / all))
        [ $share -lt 60 ] || wrong "$what: $crossed bytes crossed the link, $all without"
        echo "bf16 gradients, $strategy, $workers workers on 2 hosts: $((crossed / 1000000)) MB sent by n1, $share % of those without"
    done
done

# Other sizes of buckets, on any number of replicas, with a norm over all of them: the same weights.
# shellcheck disable=SC2086
for options in "--bucket-size 0.05 --replicas 2" "--bucket-size 1000" "--bucket-size 0.7 --comm-cores 1"; do
    for norm in "" "--clip-norm 0.02"; do
        timeout 60 "$lockstep" train $recipe $norm >"$here/out" 2>"$here/err"
        alone=$(digest)
        two_hosts 2 $options $norm
        same "$alone"
    done
done

# A link that swallows everything: nobody says that the other host is gone, and still the workers of each end by themselves, and say so.
LOCKSTEP_TEST_JOB=$$
export LOCKSTEP_TEST_JOB
# What n2 says does not come over such a link: each worker writes into a file of its own.
cat >"$here/speaks" <<TEXT
#!/bin/sh
exec "$lockstep" "\$@" 2>"$here/err.\$OMPI_COMM_WORLD_RANK"
TEXT
chmod +x "$here/speaks"
# shellcheck disable=SC2086
timeout -k 5 120 mpirun $link_mca --mca oob_tcp_if_include 10.77.0.0/24 --bind-to none --quiet --host n1:1,n2:1 -n 2 -x LOCKSTEP_TEST_JOB \
    "$here/speaks" train mnist-cnn --limit-train 6400 --limit-test 100 --epochs 1000000 --verbose 2 --wait-limit 0:08 \
    >"$here/out" 2>"$here/err" </dev/null &
job=$!
unset LOCKSTEP_TEST_JOB
what="train on two hosts over a link that is then cut"
workers() {
    for process in /proc/[0-9]*; do
        case $(readlink "$process/exe") in *lockstep) echo "${process#/proc/}" ;; esac
    done
}
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    grep -q '^Epoch 2' "$here/out" && break
    sleep 0.5
done
[ "$(workers | wc -l)" -eq 2 ] || wrong "$what: expected two workers, found: $(workers)"
ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:01 dev v1 nud permanent
ip -n n2 neigh replace 10.77.0.1 lladdr 02:00:00:00:00:02 dev v2 nud permanent
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25; do
    [ -n "$(workers)" ] || break
    sleep 1
done
[ -z "$(workers)" ] || wrong "$what: workers wait for ever: $(workers)"
# On each host: who has waited, for which bucket, and for whom.
for worker in 0 1; do
    cp "$here/err.$worker" "$here/err"
    what="worker $worker on two hosts over a link that is then cut"
    other=$((1 - worker)) bucket="((votes of other hosts (before|after) )?bucket [0-9]+ of [0-9]+)"
    grep -qE "worker $worker on n$((worker + 1)) has waited for $bucket for " "$here/err" || wrong "$what: does not say for what"
    complains ": worker $other on n$((other + 1)) has not answered; look at that host and at the network. The job ends here"
    grep -qE "^  worker $worker \(process [0-9]+\): exchange and update, step [0-9]+ of epoch [0-9]+, for .*, waiting for $bucket \(worker $other\)" "$here/err" ||
        wrong "$what: does not say what its workers did"
done
what="train on two hosts over a link that is then cut"
kill -KILL $(ps -o pid= --ppid $job) 2>/dev/null # mpirun waits for the other host in its own time
wait $job 2>/dev/null
ip neigh del 10.77.0.2 dev v1
ip -n n2 neigh del 10.77.0.1 dev v2

# One timeline of both, though the clock of n2 is a thousand seconds ahead: in every step each worker begins before any other ends.
if unshare --time --monotonic 1000 --fork true 2>/dev/null && command -v python3 >/dev/null; then
    sed -i 's/ unshare --uts / unshare --uts --time --monotonic 1000 --fork /' "$here/on_n2"
    grep -q monotonic "$here/on_n2" || wrong "the clock of n2 is right"
    two_hosts 2 --trace "$here/trace"
    run 0 "$lockstep" report "$here/trace"
    matches '^  worker 0 on n1 '
    matches '^  worker 1 on n2 '
    matches "^The hosts' clocks agree to [0-9]{1,5} microseconds or better"
    run 0 python3 - "$here/trace/trace.json" <<'TEXT'
import json, sys
trace = json.load(open(sys.argv[1]))
error = 1e6 * trace["otherData"]["clock_error_seconds"]
steps = {}
for e in trace["traceEvents"]:
    if e.get("cat") == "step": steps.setdefault(e["args"]["step"], []).append((e["ts"], e["ts"] + e["dur"]))
assert len(steps) == 3, steps
for number, workers in steps.items():
    assert len(workers) == 2 and max(w[0] for w in workers) < min(w[1] for w in workers) + 2 * error, (number, workers)
TEXT
else
    echo "no clock put wrong: this system has no time namespaces"
fi
finish
