#!/bin/sh
# Two hosts over a 1 Gbit/s link without MPI: the weights of one worker, and the end of a job whose link goes away or that loses a worker. By
# hand: sh tests/cluster/tcp_hosts.sh build/release/lockstep
needs="tc"
. "$(dirname "$0")/lib.sh"
limit="root tbf rate 1gbit burst 256k latency 50ms"
# shellcheck disable=SC2086
tc qdisc add dev v1 $limit 2>/dev/null && "$here/on_n2" tc qdisc add dev v2 $limit && speed="1 Gbit/s"

(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$here/key")
strategies=${STRATEGIES:-allreduce reduce-broadcast tree parameter-server}
recipe="mnist-cnn --limit-train 1500 --limit-test 200 --batch-size 512 --micro-batch 64 --epochs 1 --verbose 2"

# start TASK HOST OPTIONS...: a worker in the background.
start() {
    task=$1 on=
    [ "$2" = n2 ] && on=$here/on_n2
    shift 2
    # shellcheck disable=SC2086
    timeout -k 5 120 $on "$lockstep" train $recipe --hosts "$hosts" --task "$task" --key-file "$here/key" "$@" \
        >"$here/out.$task" 2>"$here/err.$task" </dev/null &
    eval "job_$task=\$!"
}
# end TASK STATUS: waits for it, and takes its output for that of the latest command.
end() {
    eval "wait \$job_$1"
    code=$?
    cp "$here/out.$1" "$here/out" && cp "$here/err.$1" "$here/err"
    [ $code -eq "$2" ] || wrong "$what: worker $1: exit status $code, expected $2"
}

timeout 60 "$lockstep" train $recipe >"$here/out" 2>"$here/err"
alone=$(digest)
[ "${#alone}" -eq 64 ] || wrong "one worker trains nothing"
for strategy in $strategies; do
    for hosts in n1:21000,n2:21000 n1:21000,n1:21001,n2:21000,n2:21001; do
        what="$strategy, $hosts"
        before=$(sent)
        case $hosts in
        *21001*)
            start 3 n2 --strategy $strategy
            start 2 n2 --strategy $strategy
            start 1 n1 --strategy $strategy
            ;;
        *) start 1 n2 --strategy $strategy ;;
        esac
        start 0 n1 --strategy $strategy
        case $hosts in
        *21001*)
            end 3 0
            end 2 0
            ;;
        esac
        end 1 0
        end 0 0
        says "workers on 2 hosts"
        same "$alone"
        crossed=$(($(sent) - before))
        [ $crossed -gt 4000000 ] || wrong "$what: only $crossed bytes crossed the link"
        echo "$what over ${speed:-an unlimited link}: $(sed -n 's/^Images per second *//p' "$here/out") images/s," \
            "$((crossed / 1000000)) MB sent by n1"
    done
done

# A link that swallows everything: nobody says that the other host is gone. Both sides find out, and name each other.
hosts=n1:21000,n2:21000
recipe="mnist-mlp --limit-train 640 --limit-test 100 --epochs 1000000 --verbose 2"
what="two hosts over a link that is then cut"
start 1 n2 --wait-limit 0:08
start 0 n1 --wait-limit 0:08
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    grep -q '^Epoch 2' "$here/out.0" && break
    sleep 0.5
done
ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:01 dev v1 nud permanent
ip -n n2 neigh replace 10.77.0.1 lladdr 02:00:00:00:00:02 dev v2 nud permanent
since=$(date +%s)
end 1 1
grep -qE "worker 0 on n1 .*(has acknowledged nothing for|its connection is gone)|worker 0 on n1 has not answered" "$here/err" || wrong "$what: worker 1 does not name worker 0"
cat "$here/err"
end 0 1
grep -qE "worker 1 on n2 .*(has acknowledged nothing for|its connection is gone)|worker 1 on n2 has not answered" "$here/err" || wrong "$what: worker 0 does not name worker 1"
cat "$here/err"
[ $(($(date +%s) - since)) -lt 30 ] || wrong "$what: it took $(($(date +%s) - since)) s"
ip neigh del 10.77.0.2 dev v1
ip -n n2 neigh del 10.77.0.1 dev v2

# A worker that dies there.
what="two hosts, of which one loses its worker"
start 1 n2
start 0 n1
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    grep -q '^Epoch 2' "$here/out.0" && break
    sleep 0.5
done
kill -KILL $(ps -o pid= --ppid "$job_1") 2>/dev/null
end 0 1
complains "worker 1 on n2 (10.77.0.2:"
complains "its connection is gone"
cat "$here/err"
wait "$job_1"
finish
