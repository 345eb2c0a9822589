#!/bin/sh
# What plan says, what it refuses, and that training then takes what it said.
. "$(dirname "$0")/lib.sh"

# value KEY...: the number of a path of keys in what the latest command printed as JSON (objects only, one key a line).
total() { awk '/"total": \{/ { on = 1 } on && /"worker":/ { gsub(/[^0-9]/, ""); print; exit }' "$here/out"; }
number() { awk -v key="\"$1\":" '$1 == key { gsub(/[^0-9]/, "", $2); print $2; exit }' "$here/out"; }

run 0 "$lockstep" plan mnist-cnn
for row in "mnist-cnn, input 28x28x1, 10 classes: 690,590 parameters" "a replica    a worker      a host" "Gradients" \
    "Activations" "Program, libraries, kernels" "Total" "training, 16 samples" "In Slurm: --mem="; do
    says "$row"
done
run 0 "$lockstep" plan mnist-cnn --image-size 64 --classes 100 --batch-size 64 --micro-batch 8 --replicas 2 --optimizer sgd
says "input 64x64x1, 100 classes"
says "2 replicas x 1 thread"
says "global batch 64 = 8 micro-batches of 8"
grep -q "Optimizer state" "$here/out" && wrong "sgd without momentum has no state"
run 0 "$lockstep" plan mnist-cnn --micro-batch 8 --replicas 2 --workers 4 --hosts 2
says "4 workers on 2 hosts x 2 replicas"
says "global batch 64 = 8 micro-batches of 8"
# The whole command line of train, as it stands in a script; what has no memory changes nothing.
run 0 "$lockstep" plan mnist-cnn --batch-size 64 --replicas 1
cp "$here/out" "$here/plain"
run 0 "$lockstep" plan mnist-cnn --batch-size 64 --replicas 1 --lr 0.1 --verbose 2 --seed 7 --weights none --save w --record r.json \
    --metrics m.csv --trace t --time-limit 1:00 --schedule cosine
for row in Weights Gradients Activations; do
    [ "$(grep "^$row " "$here/out")" = "$(grep "^$row " "$here/plain")" ] || wrong "$row: what train does with it changes the plan"
done
echo '{"model": "mnist-cnn", "batch-size": 64, "micro-batch": 16, "data": "digits", "verbose": 0}' >"$here/config.json"
run 0 "$lockstep" plan --config "$here/config.json"
says "global batch 64 = 4 micro-batches of 16"
says "Dataset "
run 0 "$lockstep" plan mnist-mlp --config "$here/config.json" --micro-batch 32
says "mnist-mlp, input"
says "global batch 64 = 2 micro-batches of 32"
refuses 2 "cannot read the config file" "$lockstep" plan mnist-cnn --config "$here/none.json"
refuses 2 "--verbose: expected a whole number from 0 to 2, got '3'" "$lockstep" plan mnist-cnn --verbose 3
run 0 "$lockstep" plan --help
says "--memory SIZE"
run 0 "$lockstep" --help
says "plan "

# The largest that fits does, the next one does not.
run 0 "$lockstep" plan mnist-cnn --memory 400M --replicas 1 --json
best=$(number micro_batch)
[ "$(number limit)" = 419430400 ] || wrong "the limit is $(number limit)"
[ "$(total)" -le 419430400 ] || wrong "what is said to fit takes $(total)"
next=$(number next_micro_batch)
[ "$next" = $((best + 1)) ] || wrong "after $best comes $next"
[ "$(number next_bytes)" -gt 419430400 ] || wrong "the next one would fit too"
run 0 "$lockstep" plan mnist-cnn --memory 400M --batch-size 1024 --replicas 2
says "lockstep train mnist-cnn --replicas 2 --data SPEC --batch-size 1024 --micro-batch 512"
says "What if"
matches '^--replicas 1 +1,024 '
# Nobody is sent off with a batch that is larger than any data set because it would fit; and what fits with two replicas fits with one.
run 0 "$lockstep" plan mnist-cnn --memory host --replicas 2
says "lockstep train mnist-cnn --replicas 2 --data SPEC --batch-size 256 --micro-batch 128"
says "Kernels gain nothing from more than 128 samples"
for memory in 300M 1G 3G host; do
    run 0 "$lockstep" plan mnist-cnn --memory $memory --replicas 2
    awk '/^as asked/ { gsub(",", ""); asked = $3 } /^--replicas 1 / { gsub(",", ""); one = $3 }
        END { exit !(asked >= 1 && one >= asked && one <= 4096) }' "$here/out" || wrong "$memory: one replica takes more than two"
done
run 0 "$lockstep" plan mnist-cnn --memory host --batch-size 64 --replicas 1 --data digits
says "fits in this machine's"
says "lockstep train mnist-cnn --replicas 1 --data digits --batch-size 64 --micro-batch 64"
grep -q "The next one" "$here/out" && wrong "no larger micro-batch divides the batch"

# Made again in backward, activations are at most half of what they are when kept.
activations() { awk '/"activations": \{/ { on = 1 } on && /"replica":/ { gsub(/[^0-9]/, ""); print; exit }' "$here/out"; }
for precision in fp32 bf16; do
    # bf16 is not for every machine
    "$lockstep" plan resnet20 --precision $precision >/dev/null 2>&1 || continue
    run 0 "$lockstep" plan resnet50v2 --image-size 128 --micro-batch 32 --replicas 1 --precision $precision --json
    kept=$(activations)
    run 0 "$lockstep" plan resnet50v2 --image-size 128 --micro-batch 32 --replicas 1 --precision $precision --json --remat
    [ $((2 * $(activations))) -le "$kept" ] || wrong "with --remat activations take $(activations) of $kept bytes"
done

refuses 1 "mnist-cnn does not fit in 10M (10.5 MB): with micro-batches of 1 sample a worker of 1 replica needs" \
    "$lockstep" plan mnist-cnn --memory 10M --replicas 1
least=$(sed -n 's/.*--memory \([0-9]*M\) is the least.*/\1/p' "$here/err")
run 0 "$lockstep" plan mnist-cnn --memory "$least" --replicas 1
says "The largest micro-batch with which a worker fits in $least"
refuses 2 "which model?" "$lockstep" plan
refuses 2 "mnist-cnn" "$lockstep" plan mnist-cn
refuses 2 "--memory: expected an amount of memory as 16G, 900M or 1.5T" "$lockstep" plan mnist-cnn --memory lots
refuses 2 "got '0'" "$lockstep" plan mnist-cnn --memory 0
refuses 2 "got '16GB'" "$lockstep" plan mnist-cnn --memory 16GB
refuses 2 "leave --micro-batch out" "$lockstep" plan mnist-cnn --memory 1G --micro-batch 8
refuses 2 "--hosts 3 for 2 workers" "$lockstep" plan mnist-cnn --workers 2 --hosts 3
refuses 1 "micro-batch of 130 samples is larger than the global batch" "$lockstep" plan mnist-cnn --batch-size 100 --micro-batch 130
run 0 "$lockstep" plan mnist-cnn --batch-size 100 --micro-batch 30
says "global batch 100 = 4 micro-batches of 30"
says "training, the last of a step, 10 samples"
refuses 1 "9 workers for 8 micro-batches" "$lockstep" plan mnist-cnn --batch-size 64 --micro-batch 8 --workers 9
refuses 1 "digits" "$lockstep" plan mnist-cnn --data digit
refuses 2 "unknown option --memroy; did you mean --memory?" "$lockstep" plan mnist-cnn --memroy 1G

# What a step is made of, of any worker of any job.
job="--workers 4 --hosts 2 --replicas 1 --batch-size 64 --micro-batch 8 --program"
run 0 "$lockstep" plan mnist-mlp $job --worker 3
says "lane 0: run forward micro-batch 6"
says "{4-5}, gradients of lane 3.0"
says "to rank 1, tag 0 from message 0 {4-7}"
run 0 "$lockstep" plan mnist-mlp $job --worker 3 --json
python3 -c 'import json, sys
tasks = json.load(open(sys.argv[1]))
updated = [t for t in tasks if t["task"] == "update"]
assert updated and all(sum(2 ** i["node"][1] for i in t["inputs"]) >= 8 for t in updated), updated' "$here/out" ||
    wrong "the program of worker 3 in JSON does not update from all micro-batches"
run 0 "$lockstep" plan mnist-mlp --workers 1024 --hosts 1024 --replicas 1 --batch-size 1024 --micro-batch 1 --program --worker 1023
refuses 1 "no worker 4 among 4" "$lockstep" plan mnist-mlp $job --worker 4
refuses 2 "leave one of them out" "$lockstep" plan mnist-mlp $job --memory 1G
refuses 2 "say --program, too" "$lockstep" plan mnist-mlp --worker 1

# What training takes is within 5 % of what the plan says. Sanitizers have memory of their own; so has a system that gives every
# thread's stack a huge page.
grep -qaE '__(asan|tsan|msan)_init' "$lockstep" && finish
grep -qs '\[always\]' /sys/kernel/mm/transparent_hugepage/enabled && finish

close() {
    run 0 "$lockstep" plan "$@" --json
    planned=$(total)
    run 0 "$lockstep" train "$@" --epochs 1 --verbose 0 --record "$here/record.json"
    peak=$(sed -n 's/.*"peak_rss_bytes": \([0-9]*\).*/\1/p' "$here/record.json")
    [ $((100 * planned)) -ge $((95 * peak)) ] && [ $((100 * planned)) -le $((105 * peak)) ] ||
        wrong "$*: planned $planned bytes, took $peak"
}
close mnist-cnn --batch-size 256 --micro-batch 128 --replicas 2 --data digits --limit-train 1024 --limit-test 256
close resnet20 --batch-size 128 --micro-batch 64 --replicas 1 --optimizer sgd --momentum 0.9 --data digits --image-size 32 \
    --limit-train 256 --limit-test 64
close resnet20 --batch-size 128 --micro-batch 64 --replicas 1 --optimizer sgd --momentum 0.9 --data digits --image-size 32 \
    --limit-train 256 --limit-test 64 --remat
cifar=${LOCKSTEP_DATA:-}/cifar-10-batches-py
[ -d "$cifar" ] && close resnet20 --batch-size 64 --micro-batch 32 --replicas 1 --data "cifar10:$cifar" --limit-train 256 --limit-test 64
[ -n "$mpirun" ] && close mnist-mlp --batch-size 512 --micro-batch 128 --replicas 1 --workers 2 --data digits
finish
