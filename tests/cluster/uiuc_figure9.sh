#!/bin/sh
# Figure 9 of the UIUC report, by hand: one network on one and on two nodes of a real Slurm, joined by a link of RATE (1gbit),
# from sbatch to the page. The two nodes share the cores of this machine
# (nothing is bound, so two workers on two nodes have one each), and four workers need four of them.
#     RATE=1gbit DATA=mnist:DIR OUT=figure9 sh tests/cluster/uiuc_figure9.sh build/release/lockstep
# OUT is an absolute path to a new folder: the study.
needs="tc"
. "$(dirname "$0")/slurm_nodes.sh"

limit="root tbf rate ${RATE:-1gbit} burst 256k latency 50ms"
# shellcheck disable=SC2086 # the limit is several words
tc qdisc add dev v1 $limit && "$here/on_n2" tc qdisc add dev v2 $limit || skip "this system cannot slow a link down"

run 0 "$lockstep" batch scale mnist-cnn --data "${DATA:-digits}" --layout 1x1,1x2,2x1,2x2 --batch-size 1024 --lr-scaling linear \
    --warmup-epochs 1 --schedule cosine --no-bind --epochs "${EPOCHS:-5}" --repeats "${REPEATS:-3}" --out "$OUT" --time 00:50:00 --job-name figure9
cp "$here/out" "$here/job.slurm"
sbatch -Q --wait --chdir "$here" "$here/job.slurm" || wrong "the job failed"
cat "$here"/figure9.*.out
cat "$here"/figure9.*.err >&2
finish
