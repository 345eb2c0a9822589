#!/bin/sh
# Settings of OpenMP, limits of the system, and what a launcher may have left behind: a sentence or the same result, never a wait.
. "$(dirname "$0")/lib.sh"
small="mnist-cnn --batch-size 32 --limit-train 64 --limit-test 50 --epochs 1 --verbose 2"

# refuses_or_runs COMMAND...: it ends by itself, and says why where it fails.
refuses_or_runs() {
    what=$*
    timeout -k 10 60 "$@" >"$here/out" 2>"$here/err" </dev/null
    got=$?
    [ $got -eq 0 ] || grep -q '^lockstep' "$here/err" || wrong "$what: exit status $got and not a word"
    [ $got -ne 124 ] && [ $got -ne 137 ] || wrong "$what: does not end"
}

# The runtime's teams are as large as kernels were planned for, or the run is refused.
# shellcheck disable=SC2086
{
    run 0 "$lockstep" train $small --threads 2 --replicas 1
    digest=$(sed -n 's/^Weights digest *//p' "$here/out")
    for setting in OMP_DYNAMIC=true OMP_MAX_ACTIVE_LEVELS=0 OMP_NUM_THREADS=1 OMP_THREAD_LIMIT=7 OMP_NESTED=true; do
        run 0 env $setting "$lockstep" train $small --threads 2 --replicas 1
        [ "$(sed -n 's/^Weights digest *//p' "$here/out")" = "$digest" ] || wrong "$what: other weights"
    done
    refuses 1 "2 threads for a replica: OpenMP gives it 1 thread only (OMP_THREAD_LIMIT=1)" \
        env OMP_THREAD_LIMIT=1 "$lockstep" train $small --threads 2 --replicas 1
    refuses 2 "--threads: expected a whole number from 1 to 1024, got '300000'" "$lockstep" train $small --threads 300000
}

# A locale that writes numbers with commas changes neither what is read nor what is written.
if command -v localedef >/dev/null && mkdir "$here/locales" && localedef -i de_DE -f UTF-8 "$here/locales/de_DE.UTF-8" 2>/dev/null; then
    echo '{"lr": 0.125, "epochs": 1}' >"$here/config.json"
    for locale in C de_DE.UTF-8; do
        run 0 env LOCPATH="$here/locales" LC_ALL=$locale "$lockstep" train mnist-mlp --limit-train 256 --limit-test 50 --verbose 2 \
            --optimizer sgd --config "$here/config.json" --record "$here/$locale.json" --metrics "$here/$locale.csv"
        grep -q '"lr": 0.125' "$here/$locale.json" || wrong "$what: another rate in the record"
        sed -n 's/^Weights digest *//p' "$here/out" >"$here/$locale.digest"
        run 0 env LOCPATH="$here/locales" LC_ALL=$locale "$lockstep" report "$here/$locale.json"
    done
    cmp -s "$here/C.digest" "$here/de_DE.UTF-8.digest" || wrong "$what: other weights"
    awk -F, 'NF != 7 { exit 1 }' "$here/de_DE.UTF-8.csv" || wrong "$what: commas in numbers: $(cat "$here/de_DE.UTF-8.csv")"
    rm -r "$here/locales" "$here/config.json" "$here"/C.* "$here"/de_DE*
fi

# What a launcher may have left behind in the environment.
refuses 2 "LOCKSTEP_LAUNCHED=2 is in the environment" env LOCKSTEP_LAUNCHED=2 "$lockstep" train mnist-mlp --workers 2
# shellcheck disable=SC2086
[ -z "$mpirun" ] || run 0 env LOCKSTEP_LAUNCHED=3 "$lockstep" train $small --workers 2
for rank in OMPI_COMM_WORLD_RANK=1 PMI_RANK=1 PMIX_RANK=1; do
    # shellcheck disable=SC2086
    run 2 env $rank "$lockstep" train mnist-mlp --epoch 1
    complains "worker 1: unknown option --epoch"
done

run 1 env OMPI_COMM_WORLD_RANK=1 PMI_RANK=1 "$lockstep" train mnist-mlp --limit-train 128 --data nothing
complains "worker 1: there is no dataset"

# MPI starts by itself then, and has no process beside this one that could be lost, and take this one with it without a word.
if [ -r "/proc/$$/task/$$/children" ]; then
    what="train with PMI_RANK=0"
    PMI_RANK=0 "$lockstep" train mnist-mlp --epochs 1000000 --verbose 2 >"$here/out" 2>"$here/err" </dev/null &
    process=$!
    looks=0
    until grep -q '^Epoch 1' "$here/out" || [ $looks -eq 300 ]; do
        looks=$((looks + 1))
        sleep 0.1
    done
    beside=$(for k in $(cat "/proc/$process/task/$process/children"); do tr '\0' ' ' <"/proc/$k/cmdline"; done)
    [ $looks -lt 300 ] && [ -z "$beside" ] || wrong "$what: beside it: '$beside'"
    kill -TERM $process
    wait $process
fi

# A closed stream is nowhere, not the next file that is opened.
what="train --metrics >&-"
# shellcheck disable=SC2086
"$lockstep" train mnist-mlp --limit-train 256 --limit-test 50 --epochs 2 --metrics "$here/run.csv" >&- 2>"$here/err" </dev/null ||
    wrong "$what: exit status $?"
[ "$(wc -l <"$here/run.csv")" -eq 3 ] || wrong "$what: the metrics have lines of something else: $(cat "$here/run.csv")"
# shellcheck disable=SC2086
"$lockstep" train mnist-mlp --epochs 0 --metrics "$here/run.csv" >&- 2>&- <&- && wrong "$what: takes --epochs 0"

# What no machine can do is refused before anything is started or taken.
refuses 1 "100 workers for 8 micro-batches of 16 in a global batch of 128" "$lockstep" train mnist-mlp --workers 100
refuses 1 "9 workers for 8 micro-batches" "$lockstep" bench mnist-mlp --workers 9
refuses 1 "out of memory" "$lockstep" bench mnist-mlp --input-shape 65536x65536x1
refuses 1 "are more than any memory" "$lockstep" bench mnist-mlp --input-shape 65536x65536x1 --batch-size 1000000000
refuses 2 "are more than any memory" "$lockstep" bench mnist-mlp --input-shape 65536x65536x65536
for batch in 4611686018427387904 9223372036854775807 1000000001; do
    refuses 2 "--batch-size: expected a whole number from 1 to 1000000000, got '$batch'" "$lockstep" train mnist-mlp --batch-size $batch
    refuses 2 "--batch-size: expected a whole number from 1 to 1000000000, got '$batch'" "$lockstep" bench mnist-mlp --batch-size $batch
done
refuses 1 "must be at least 0 and less than 1e30" "$lockstep" train mnist-mlp --optimizer sgd --lr 1e38

# Pipes that nobody writes to, or reads from.
mkfifo "$here/pipe"
refuses 2 "cannot read the config file $here/pipe: it is a pipe or a device, and nothing came out of it" "$lockstep" train mnist-mlp --config "$here/pipe"
refuses 1 "cannot read $here/pipe" "$lockstep" report "$here/pipe"
run 1 "$lockstep" train mnist-mlp --limit-train 128 --epochs 1 --verbose 0 --metrics "$here/pipe"
complains "cannot write the metrics $here/pipe"
chmod 600 "$here/pipe"
refuses 1 "cannot read the key file $here/pipe" "$lockstep" train mnist-mlp --hosts 127.0.0.1:21000,127.0.0.2:21000 --task 0 --key-file "$here/pipe"
echo '{"epochs": 1, "limit-train": 128, "limit-test": 50}' >"$here/pipe" &
run 0 "$lockstep" train mnist-mlp --config "$here/pipe" --verbose 2 # somebody does
says "digits: 128 samples to train on"
wait
rm "$here/pipe"

# A file that may not grow is a failed write, not a death.
what="train under ulimit -f"
(
    ulimit -f 2
    exec "$lockstep" train mnist-mlp --limit-train 128 --epochs 1 --verbose 0 --save "$here/weights"
) >"$here/out" 2>"$here/err" && wrong "$what: says that it saved them"
complains "cannot write the weights $here/weights"

# Processor time that is used up is told, also where the system would kill at once (the soft limit is the hard one).
if ! grep -qaE '__(asan|tsan|msan)_init' "$lockstep"; then
    what="train under ulimit -t"
    (
        ulimit -t 1
        exec "$lockstep" train mnist-cnn --replicas 1 --epochs 1000 --verbose 0
    ) >"$here/out" 2>"$here/err" && wrong "$what: ends well"
    complains "has used the processor time it may have (ulimit -t)"
fi

# MPI's files in shared memory may not grow either: Open MPI would wait for ever.
for alone in "OMPI_COMM_WORLD_SIZE=2" "PMI_RANK=0"; do
    what="bench under ulimit -f, with $alone"
    (
        ulimit -f 2
        exec timeout -k 10 60 env "$alone" "$lockstep" bench mnist-linear --steps 2 --batch-size 64 --micro-batch 16
    ) >"$here/out" 2>"$here/err" </dev/null
    complains "(ulimit -f): raise that limit"
done

# A study's files are not led elsewhere by links in a folder that others write to.
mkdir "$here/study"
ln -s "$here/elsewhere" "$here/study/.lock"
refuses 1 "cannot write $here/study/.lock" "$lockstep" scale mnist-mlp --workers 1 --epochs 1 --limit-train 128 --out "$here/study"
rm "$here/study/.lock"
ln -s "$here/elsewhere" "$here/study/study.json.new"
mkdir -p "$here/study/runs"
ln -s "$here/elsewhere" "$here/study/runs/mnist-mlp-strong-n1-w1-r1.log"
run 0 "$lockstep" scale mnist-mlp --workers 1 --epochs 1 --limit-train 128 --limit-test 50 --out "$here/study"
[ -e "$here/elsewhere" ] && wrong "a study wrote to where a link led"

# Memory that workers share is there before they ask MPI for it together: one of them alone would fail, and the others wait. Of sizes around
# 64 MB, Docker's, each is refused or enough. Sanitizers want more addresses than any limit leaves.
if [ -n "$mpirun" ] && ! grep -qaE '__(asan|tsan|msan)_init' "$lockstep"; then
    for kilobytes in 180000 220000 260000 300000 360000 400000; do
        # shellcheck disable=SC2016
        refuses_or_runs sh -c 'ulimit -v "$1"; exec "$0" train mnist-cnn --limit-train 256 --limit-test 50 --epochs 1 --workers 2' \
            "$lockstep" $kilobytes
        # Below what Open MPI maps when it starts, it may say so, crash or wait for ever; it is not begun.
        [ $kilobytes -gt 260000 ] || [ "$got" -eq 0 ] || complains "(ulimit -v)"
        [ $kilobytes -lt 360000 ] || [ "$got" -eq 0 ] || wrong "$what: it is enough"
    done
fi
if [ -n "$mpirun" ] && unshare -m mount -t tmpfs -o size=64m none /dev/shm 2>/dev/null; then
    for megabytes in 57 60 64 67 70 74 80 86; do
        # shellcheck disable=SC2016
        refuses_or_runs unshare -m sh -c 'mount -t tmpfs -o size="$1"m none /dev/shm
            exec "$0" train mnist-cnn --limit-train 256 --limit-test 50 --epochs 1 --workers 2' "$lockstep" $megabytes
        [ "$got" -eq 0 ] || complains "/dev/shm has only"
    done
fi

# A control group that allows less memory than training takes: a sentence before it begins, not a kill; the plan says it, too.
group=
leave() {
    [ -z "$group" ] || rmdir "$group"
    rm -rf "$here"
}
# limited BYTES: a group beside this process's own or below the root, with so much memory and no swap. Status 1 where none can be made.
limited() {
    for folder in "/sys/fs/cgroup/memory$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)" /sys/fs/cgroup/memory \
        "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)" /sys/fs/cgroup; do
        case $folder in /sys/fs/cgroup/memory*) names="memory.limit_in_bytes memory.memsw.limit_in_bytes" ;; *) names="memory.max memory.swap.max" ;; esac
        # shellcheck disable=SC2086
        set -- "$1" $names
        mkdir "$folder/lockstep-test.$$" 2>/dev/null || continue
        group=$folder/lockstep-test.$$
        if [ -w "$group/$2" ] && echo "$1" >"$group/$2" && { [ ! -w "$group/$3" ] ||
            echo "$(case $3 in *memsw*) echo "$1" ;; *) echo 0 ;; esac)" >"$group/$3"; } &&
            sh -c 'echo $$ >"$0/cgroup.procs"' "$group"; then
            return 0
        fi 2>/dev/null
        rmdir "$group"
        group=
    done
    return 1
}
trap leave EXIT
if grep -qaE '__(asan|tsan|msan)_init' "$lockstep"; then
    echo "SKIPPED: sanitizers' own memory does not fit in a control group this small"
elif limited 80000000; then
    # shellcheck disable=SC2016
    printf '#!/bin/sh\necho $$ >"%s/cgroup.procs"\nexec "$@"\n' "$group" >"$here/inside"
    chmod +x "$here/inside"
    big="mnist-cnn --data digits --batch-size 64 --micro-batch 16 --replicas 1 --limit-train 256 --limit-test 50"
    # shellcheck disable=SC2086
    {
        run 0 "$here/inside" "$lockstep" plan $big
        says "Not on this machine as it is: a host needs"
        says "(its control group's limit)"
        refuses 1 "(its control group's limit): use a smaller micro-batch" "$here/inside" "$lockstep" train $big --epochs 1 --verbose 0
        [ -z "$mpirun" ] ||
            refuses 1 "the workers of this host" "$here/inside" "$lockstep" train $big --epochs 1 --verbose 0 --workers 2
        run 0 "$lockstep" plan $big
        grep -q "Not on this machine" "$here/out" && wrong "$what: it would fit outside of the group"
    }
    # One in which the data just fit: what comes after them is refused or, where nobody could know, killed, which somebody says.
    mkdir "$here/idx"
    printf '\0\0\10\3\0\1\21\160\0\0\0\34\0\0\0\34' >"$here/idx/train-images-idx3-ubyte" # 70,000 of 28 x 28
    head -c 54880000 /dev/zero >>"$here/idx/train-images-idx3-ubyte"
    printf '\0\0\10\1\0\1\21\160' >"$here/idx/train-labels-idx1-ubyte"
    head -c 70000 /dev/zero >>"$here/idx/train-labels-idx1-ubyte"
    printf '\0\0\10\3\0\0\0\12\0\0\0\34\0\0\0\34' >"$here/idx/t10k-images-idx3-ubyte"
    head -c 7840 /dev/zero >>"$here/idx/t10k-images-idx3-ubyte"
    printf '\0\0\10\1\0\0\0\12' >"$here/idx/t10k-labels-idx1-ubyte"
    head -c 10 /dev/zero >>"$here/idx/t10k-labels-idx1-ubyte"
    for megabytes in 57 59 61 65 70; do
        rmdir "$group" && limited ${megabytes}000000 || break
        sed -i "s,>.*/cgroup.procs,>\"$group/cgroup.procs," "$here/inside"
        what="train in a control group of $megabytes MB"
        "$here/inside" "$lockstep" train mnist-cnn --data "mnist:$here/idx" --limit-train 64 --epochs 1 --verbose 0 --replicas 1 \
            >"$here/out" 2>"$here/err"
        got=$?
        [ $got -ne 137 ] || sleep 0.5 # what says it comes after the end
        echo "$what: exit status $got: $(cut -c 1-100 "$here/err" | head -n 1)"
        [ $got -eq 0 ] || [ "$(grep -c '^lockstep train: ' "$here/err")" -eq 1 ] || wrong "$what: exit status $got, and not one sentence"
    done
    rm -r "$here/idx"
else
    echo "SKIPPED: no control group with a limit of memory can be made here"
fi

# Workers that run other commands, or a timeline on some of them only.
if [ -n "$mpirun" ]; then
    # shellcheck disable=SC2016,SC2086
    refuses 1 "command=" $mpirun 2 sh -c \
        'command=train; [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || command=bench; exec "$0" $command mnist-mlp' "$lockstep"
    # shellcheck disable=SC2016,SC2086
    refuses 1 "trace=" $mpirun 2 sh -c \
        'set --; [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 0 ] || set -- --trace trace; exec "$0" train mnist-mlp --epochs 1 "$@"' "$lockstep"
    # One that has ended before the others began to wait for it, which launchers take for all being well; with a script in between, too.
    for how in 'exec "$0" train mnist-mlp' '"$0" train mnist-mlp; exit $?'; do
        what="--version beside train by '$how'"
        # shellcheck disable=SC2016,SC2086
        timeout -k 10 60 $mpirun 3 sh -c '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 1 ] || exec "$0" --version; sleep 1; '"$how" \
            "$lockstep" >"$here/out" 2>"$here/err" </dev/null
        got=$? # 1, or that of a worker which is ended with the one that spoke
        [ $got -eq 1 ] || [ $got -eq 137 ] || wrong "$what: exit status $got"
        complains "has waited for all workers to join the job for "
        complains "of the 3 workers that were started on this host, 1 ended without joining, as one does that runs another command"
    done
fi
finish
