#!/bin/sh
# lockstep check: every line says OK or what to do, and small or odd surroundings are told as such.
. "$(dirname "$0")/lib.sh"
checks="MPI|Launcher|Slurm|Kernels|bfloat16|Accelerators|Cores|Memory|Shared memory|Bandwidth|Exchange|Disk|Open files"
unset DNNL_MAX_CPU_ISA
mkdir "$here/cwd" "$here/bin"
cd "$here/cwd" || exit 1

# A stand-in for srun, so that an installed one does not matter: it offers what $here/plugins says.
printf '#!/bin/sh\ncat "%s"\n' "$here/plugins" >"$here/bin/srun"
chmod +x "$here/bin/srun"
printf 'MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: pmix_v4\n' >"$here/plugins"
PATH=$here/bin:$PATH

run 0 env COLUMNS=80 "$lockstep" check
for line in MPI Launcher Slurm Kernels bfloat16 Accelerators Cores Memory "Shared memory" Bandwidth Exchange Disk \
    "Open files"; do
    matches "^(OK|WARN)  +$line  +[^ ]"
done
[ "$(grep -cE "^(OK|WARN|FAIL)  +($checks)  " "$here/out")" -eq 13 ] || wrong "not one line for each check"
[ "$(grep -c '^WARN' "$here/out")" -eq "$(grep -c '^ *-> ' "$here/out")" ] || wrong "a warning does not say what to do"
says "Ready to train"
says "oneDNN"
matches 'Bandwidth +[0-9]+\.[0-9] GB/s'
awk 'length > 80 { exit 1 }' "$here/out" || wrong "wider than 80 columns"
[ -z "$(ls)" ] || wrong "leaves files behind: $(ls)"

# An instruction set held down takes bfloat16 away, and the line says what holds it. This passes on any x86 processor.
case $(uname -m) in
x86_64)
    run 0 env DNNL_MAX_CPU_ISA=AVX2 "$lockstep" check
    matches '^WARN  bfloat16 '
    says "Unset DNNL_MAX_CPU_ISA"
    ;;
esac

# Few open files, a folder one cannot write to, one core of several.
run 0 sh -c 'ulimit -n 200; "$1" check' sh "$lockstep"
matches '^WARN  Open files  +at most 200$'
says "ulimit -n 4096"
if [ -d /proc/self ]; then
    run 0 sh -c 'cd /proc && "$1" check' sh "$lockstep"
    matches '^WARN  Disk  +cannot write to this folder: '
fi
if command -v taskset >/dev/null && [ "$(nproc)" -gt 1 ]; then
    run 0 taskset -c 0 "$lockstep" check
    matches '^WARN  Cores  +1 core: CPU 0 '
fi

if command -v python3 >/dev/null; then
    run 0 "$lockstep" check --json
    python3 - "$here/out" <<'EOF' || wrong "the JSON is not what it should be"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["lockstep_check"] == 1 and r["usable"] is True and r["failures"] == 0 and len(r["checks"]) == 13, r
assert all((c["to_do"] is None) == (c["status"] == "OK") for c in r["checks"]), r["checks"]
w, = r["workers"]
assert w["cores"] >= 1 and w["bandwidth_bytes_per_second"] > 1e8 and w["memory_bytes"] > 1e8, w
assert w["exchange_seconds"] is None, w
EOF
fi
refuses 2 "unexpected word 'x'" "$lockstep" check x
[ -n "$mpirun" ] || finish

# Several workers: one of them speaks, and they are compared.
run 0 "$lockstep" check --workers 2
matches '^OK +MPI +.*MPI_THREAD_[A-Z]+'
matches '^(OK|WARN) +Exchange +[0-9]+\.[0-9]+ GB/s'
matches '^ +1  [^ ]'
[ "$(grep -c '^lockstep ' "$here/out")" -eq 1 ] || wrong "more than one worker speaks"
[ -z "$(ls)" ] || wrong "leaves files behind: $(ls)"
if command -v python3 >/dev/null; then
    run 0 "$lockstep" check --workers 2 --json
    python3 - "$here/out" <<'EOF' || wrong "the JSON of two workers is not what it should be"
import json, sys
r = json.load(open(sys.argv[1]))
assert [w["worker"] for w in r["workers"]] == [0, 1], r
assert all(w["exchange_seconds"] > 0 for w in r["workers"]), r
EOF
fi

# The worker that differs is named. Kernels that differ would train other bits, which is refused.
# shellcheck disable=SC2016 # for the shell of each worker
odd='rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}; [ "$rank" = 1 ] || exec "$1" check; shift; exec "$@" check'
if [ "$(uname -m)" = x86_64 ]; then
    # shellcheck disable=SC2086
    run 1 $mpirun 3 sh -c "$odd" sh "$lockstep" env DNNL_MAX_CPU_ISA=SSE41 "$lockstep"
    matches '^FAIL  Workers  +kernels: worker 1 \('
    complains "lockstep check: cannot train like this"
fi
if command -v taskset >/dev/null && [ "$(nproc)" -gt 1 ]; then
    # shellcheck disable=SC2086
    run 0 $mpirun 2 sh -c "$odd" sh "$lockstep" taskset -c 1 "$lockstep"
    matches '^WARN  Workers  +cores: worker 1 \('
fi

# What a killed job has left is named, what a running one has is not.
if unshare -m true 2>/dev/null && unshare -m mount -t tmpfs -o size=64m none /dev/shm 2>/dev/null; then
    # shellcheck disable=SC2016
    run 0 unshare -m sh -c 'mount -t tmpfs -o size=1g none /dev/shm && head -c 3000000 /dev/zero >/dev/shm/vader_segment.x.1 &&
        touch -d "1 hour ago" /dev/shm/vader_segment.x.1 && "$1" check' sh "$lockstep"
    matches '^WARN  Shared memory  +/dev/shm has .* 1 file of ended jobs'
    says "/dev/shm/vader_segment.x.1"
    # shellcheck disable=SC2016
    run 0 unshare -m sh -c 'mount -t tmpfs -o size=1g none /dev/shm && head -c 3000000 /dev/zero >/dev/shm/other && "$1" check' sh "$lockstep"
    grep -q 'ended jobs' "$here/out" && wrong "$what: takes any file for a job's"
fi
# A /dev/shm too small for what workers share makes training impossible; that takes a mount of one's own to show.
if unshare -m true 2>/dev/null && unshare -m mount -t tmpfs -o size=8m none /dev/shm 2>/dev/null; then
    run 1 unshare -m sh -c 'mount -t tmpfs -o size=8m none /dev/shm && "$1" check --workers 2' sh "$lockstep"
    matches '^WARN  Shared memory  +/dev/shm has only 8\.4 MB'
    matches '^FAIL  MPI  +workers are not started: /dev/shm has only 8\.4 MB'
    complains "see what is marked FAIL (MPI)"
    run 0 unshare -m sh -c 'mount -t tmpfs -o size=8m none /dev/shm && "$1" check' sh "$lockstep"
fi

# A share of processor time that a control group allows: as many cores as that takes. A pretended one is mounted in the place of the real ones.
if unshare -m mount -t tmpfs none /sys/fs/cgroup 2>/dev/null; then
    # shellcheck disable=SC2016
    run 0 unshare -m sh -c 'mount -t tmpfs none /sys/fs/cgroup && cd /sys/fs/cgroup && echo cpu >cgroup.controllers && echo "50000 100000" >cpu.max &&
        export COLUMNS=200 && "$1" check && exec "$1" train mnist-linear --limit-train 256 --limit-test 8 --epochs 1 --batch-size 64 --micro-batch 8 --verbose 2' \
        sh "$lockstep"
    matches '^WARN  Cores  +1 core: a control group allows the time of 0\.5 of [0-9]+ processors'
    matches '^1 worker on 1 host x 1 replica x 1 thread \(1 core.*; a control group allows the time of 0\.5 of [0-9]+ cores?\)'
fi

# Slurm: inside an allocation, without the plugin, and as a task that cannot find the others.
run 0 env COLUMNS=100 SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 "$lockstep" check
matches '^OK +Slurm +inside job 7 on 2 nodes; --workers starts them with srun --mpi=pmi(x|2)'
run 1 env SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 "$lockstep" check
matches '^FAIL  MPI  +srun started 2 tasks'
complains "see what is marked FAIL (MPI)"
printf 'MPI plugin types are...\n\tnone\n' >"$here/plugins"
run 0 env SLURM_JOB_ID=7 "$lockstep" check
matches '^WARN  Slurm '
says "srun --mpi=list"
finish
