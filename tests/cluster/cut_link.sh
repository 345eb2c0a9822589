#!/bin/sh
# Two hosts of two workers each that talk over TCP without MPI, and a link that in the middle of training swallows everything: nobody says that the other host is
# gone, and all workers find out within their limit and name one of the other host, and the bucket. tcp_hosts.sh, by hand, has more of such jobs.
# shellcheck disable=SC2034,SC2154 # lib.sh uses and sets some
needs=""
. "$(dirname "$0")/lib.sh"
(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$here/key")
hosts=n1:21000,n1:21001,n2:21000,n2:21001
# One long epoch: at the ends of epochs something else is exchanged, too.
recipe="mnist-mlp --data digits --limit-train 50000 --limit-test 50 --batch-size 64 --micro-batch 8 --epochs 1000 --replicas 1 --bucket-size 0.1 --wait-limit 0:05"

# start TASK WORDS...: a worker in the background, on the host that the words lead to.
start() {
    task=$1
    shift
    # shellcheck disable=SC2086 # words
    timeout -k 5 100 "$@" "$lockstep" train $recipe --hosts $hosts --task "$task" --key-file "$here/key" >"$here/out.$task" 2>"$here/err.$task" </dev/null &
    eval "job_$task=\$!"
}
# names TASK HOST: the worker has ended in failure, and its sentence is about one of the other host, and about a bucket.
names() {
    eval "wait \$job_$1"
    code=$?
    cp "$here/out.$1" "$here/out" && cp "$here/err.$1" "$here/err"
    what="worker $1 over a link that is cut"
    [ $code -eq 1 ] || wrong "$what: exit status $code, expected 1"
    grep -qE "worker [0-3] on $2 .*(has acknowledged nothing for|its connection is gone)|worker [0-3] on $2 has not answered" "$here/err" || wrong "$what: does not name one of $2"
    grep -qE "bucket [0-9]+ of [0-9]+" "$here/err" || wrong "$what: does not name the bucket"
}

start 3 "$here/on_n2"
start 2 "$here/on_n2"
start 1 env
start 0 env
i=0
while [ $i -lt 200 ] && [ "$(sent)" -lt 20000000 ]; do
    i=$((i + 1))
    sleep 0.2
done
[ "$(sent)" -ge 20000000 ] || wrong "two hosts train nothing in 40 s"
ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:01 dev v1 nud permanent
ip -n n2 neigh replace 10.77.0.1 lladdr 02:00:00:00:00:02 dev v2 nud permanent
names 0 n2
names 1 n2
names 2 n1
names 3 n1
finish
