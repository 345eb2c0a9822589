#!/bin/sh
# Two hosts that talk over TCP without MPI, and a link that in the middle of training swallows everything: nobody says that the other host is
# gone, and both workers find out within their limit and name each other. tcp_hosts.sh, by hand, has more of such jobs.
# shellcheck disable=SC2034,SC2154 # lib.sh uses and sets some
needs=""
. "$(dirname "$0")/lib.sh"
(umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$here/key")
hosts=n1:21000,n2:21000
recipe="mnist-mlp --limit-train 640 --limit-test 100 --epochs 1000000 --verbose 2 --wait-limit 0:05"

# start TASK WORDS...: a worker in the background, on the host that the words lead to.
start() {
    task=$1
    shift
    # shellcheck disable=SC2086 # words
    timeout -k 5 100 "$@" "$lockstep" train $recipe --hosts $hosts --task "$task" --key-file "$here/key" >"$here/out.$task" 2>"$here/err.$task" </dev/null &
    eval "job_$task=\$!"
}
# names TASK OTHER: the worker has ended in failure, and its sentence is about the other one.
names() {
    eval "wait \$job_$1"
    code=$?
    cp "$here/out.$1" "$here/out" && cp "$here/err.$1" "$here/err"
    what="worker $1 over a link that is cut"
    [ $code -eq 1 ] || wrong "$what: exit status $code, expected 1"
    grep -qE "$2 .*(has acknowledged nothing for|its connection is gone)|$2 has not answered" "$here/err" || wrong "$what: does not name $2"
}

start 1 "$here/on_n2"
start 0 env
i=0
while [ $i -lt 200 ] && ! grep -q '^Epoch 2' "$here/out.0"; do
    i=$((i + 1))
    sleep 0.2
done
grep -q '^Epoch 2' "$here/out.0" || wrong "two hosts train nothing in 40 s"
ip neigh replace 10.77.0.2 lladdr 02:00:00:00:00:01 dev v1 nud permanent
ip -n n2 neigh replace 10.77.0.1 lladdr 02:00:00:00:00:02 dev v2 nud permanent
names 1 "worker 0 on n1"
names 0 "worker 1 on n2"
finish
