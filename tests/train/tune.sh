#!/bin/sh
# Buckets and algorithm from a measurement: told, recorded, kept for the next job, and never to be seen in the weights.
# usage: tune.sh LOCKSTEP FAKE_HOSTS
set -u
lockstep=$1 hosts=$2
. "$(dirname "$0")/hosts.sh"
XDG_CACHE_HOME=$out/cache
export XDG_CACHE_HOME
# Of 4 MB just so.
cat >"$out/wide.net" <<TEXT
network wide
input 28x28x1
classes 10
flatten
dense units=1300 activation=relu
dense units=classes
TEXT
recipe="$out/wide.net --data digits --limit-train 64 --limit-test 10 --epochs 1 --batch-size 32 --micro-batch 8 --replicas 1"

# says WORDS: of the record of the latest run, on one line.
says() {
    tr -d ' \n' <"$out/run.json" | grep -q "$1" && return
    echo "the record does not say $1" >&2
    grep -A 6 tuned "$out/run.json" >&2
    failed=1
}

expected=$(digest 1 --workers 1) || exit 1
[ -d "$out/cache" ] && echo "one host was measured" >&2 && failed=1
compare 2 --workers 2
says '"tuned":{"source":"measured","bucket_megabytes":[0-9.]*,"bucket_seconds":[0-9.e-]*,"bytes_per_second":[1-9]'
compare 2 --workers 2
says '"tuned":{"source":"cached"'
for file in "$out"/cache/lockstep/exchange-*.json; do echo "{" >"$file"; done
compare 2 --workers 2 --bucket-size 1
says '"tuned":{"source":"measured","bucket_megabytes":1[.0]*,'
compare 2 --workers 2 --tune off
tr -d ' \n' <"$out/run.json" | grep -q '"tuned":' && echo "measured although that was off" >&2 && failed=1

# A core for the exchange, of four that hwloc is told of: one that is left over; one that is not asked for; and by what the exchange takes of the
# processor, which an earlier job seems to have measured.
export HWLOC_SYNTHETIC="numa:1 core:4 pu:1"
compare 2 --workers 2
says '"comm_cores":1,'
says "onethatisleftoveristheexchange's"
compare 2 --workers 2 --comm-cores 0
says '"comm_cores":0,'
recipe="$out/wide.net --data digits --limit-train 96 --limit-test 10 --epochs 1 --batch-size 48 --micro-batch 4"
expected=$(digest 2 --workers 2 --comm-cores 0) || exit 1
for seconds in 1e-12 9e-4; do
    sed -i "s/\"processor_seconds\": [1-9][0-9.e-]*/\"processor_seconds\": $seconds/" "$out"/cache/lockstep/exchange-*.json
    compare 2 --workers 2
    case $seconds in
    1e-12) says '4coresperworker.*;theexchangesharesthem,asmeasured.*"comm_cores":0,.*"tuned":{"source":"cached"' ;;
    9e-4) says '3coresperworker.*;onemorefortheexchange,asmeasured.*"comm_cores":1,.*"tuned":{"source":"cached"' ;;
    esac
done
exit $failed
