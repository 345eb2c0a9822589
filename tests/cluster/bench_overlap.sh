#!/bin/sh
# How much of an exchange over a link is hidden behind backward and the next forward, as root:
#     RATE=1gbit PAIRS=3 BENCH="resnet50v2 --input-shape 128x128x3 --batch-size 32" sh tests/cluster/bench_overlap.sh build/release/lockstep
#
# Two hosts made of namespaces of this machine, each with one half of its cores, a link of RATE between them in tc's words (1gbit, 400mbit), a worker with one
# replica on each. (Where they shared the cores, both replicas would be bound to the same one.)
# In turn, PAIRS times: gradients exchanged in buckets behind backward and the next forward, and all of them between the two. Prints of each run the median time of a step and
# what a replica waits for the exchange, and of the pairs the share of that which the buckets have hidden (nobody waits for it), and which they have saved (the step is shorter by it: what exchanging takes
# of the core that computes is not). BUCKETS and AFTER are options of the
# first and of the second run: BUCKETS="--compress bf16" AFTER="--compress none" compares those, AFTER=--no-early-forward
# what the next forward hides of what backward does not. With BENCH="exchange [OPTIONS]" it
# runs that once over the link.
# shellcheck disable=SC2154,SC2086 # lib.sh sets some; BENCH is words
needs="mpirun tc python3 taskset"
. "$(dirname "$0")/lib.sh"
limit="root tbf rate ${RATE:-1gbit} burst 256k latency 50ms"
tc qdisc add dev v1 $limit && "$here/on_n2" tc qdisc add dev v2 $limit || skip "this system cannot slow a link down"
half=$(($(nproc) / 2)) cores1='' cores2=''
[ "$half" -eq 0 ] || { cores1="taskset -c 0-$((half - 1))" && cores2="taskset -c $half-$((2 * half - 1))"; }
cat >"$here/agent" <<TEXT
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
shift
exec "$here/on_n2" $cores2 sh -c "\$*"
TEXT
chmod +x "$here/agent"

# over_link ARGUMENTS...: the program, with a worker on each host.
over_link() {
    $cores1 mpirun --mca plm_rsh_agent "$here/agent" --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include 10.77.0.0/24 \
        --mca oob_tcp_if_include 10.77.0.0/24 --bind-to none --quiet --host n1:1,n2:1 -n 2 "$lockstep" "$@"
}

# bench NAME OPTIONS...: one run, its figures in $here/NAME, one line of "step exchange hidden" in milliseconds each.
bench() {
    name=$1
    shift
    over_link bench $BENCH --replicas 1 --no-floor --json "$@" >"$here/out" 2>"$here/err" || {
        cat "$here/err"
        exit 1
    }
    python3 -c '
import json, sys
r = json.load(sys.stdin)
p = r["phases_ms"]
print(r["step_ms"], p["exchange"] + p["update"], r["exchange_hidden_ms"], p["forward"], p["backward"])' <"$here/out" >>"$here/$name"
    tail -n 1 "$here/$name" | awk -v n="$name" '{ printf "%-7s step %8.1f ms, forward %7.1f, backward %7.1f, waits for exchange and update %7.1f, hidden %7.1f\n", n, $1, $4, $5, $2, $3 }'
}
: "${BENCH:?the words of lockstep bench: a model and its options}"
echo "$BENCH over ${RATE:-1gbit}"
case $BENCH in
exchange*)
    over_link bench $BENCH
    exit
    ;;
esac
i=0
while [ $i -lt "${PAIRS:-3}" ]; do
    bench buckets ${BUCKETS:-}
    bench after ${AFTER:---bucket-size 1000000}
    i=$((i + 1))
done
paste "$here/buckets" "$here/after" | awk '{ printf "pair: step %.2f times as fast; of the exchange %.0f %% hidden, %.0f %% saved\n", $6 / $1, 100 * (1 - $2 / $7), 100 * ($6 - $1) / $7 }'
