#!/bin/sh
# The batch script that lockstep batch writes (slurm is the same): its requests, its quoting, and what it refuses. slurm.sh runs one.
. "$(dirname "$0")/../cli/lib.sh"

run 0 env -u LOCKSTEP_SRUN_ARGS "$lockstep" slurm train mnist-mlp --epochs 3 --nodes 2 --tasks-per-node=4 \
    --cpus-per-task 20 --time 01:15:00 --account A --qos Q --gres gpu:4 --mem 16G --data "mnist:/some where/it's"
for line in '#SBATCH --job-name=lockstep' '#SBATCH --nodes=2' '#SBATCH --ntasks-per-node=4' '#SBATCH --cpus-per-task=20' \
    '#SBATCH --time=01:15:00' '#SBATCH --account=A' '#SBATCH --qos=Q' '#SBATCH --gres=gpu:4' '#SBATCH --mem=16G'; do
    grep -qxF -- "$line" "$here/out" || wrong "$what: lacks the line $line"
done
says "#!/bin/sh"
grep -q 'partition\|reservation' "$here/out" && wrong "$what: asks for what nobody asked for"
matches '^exec srun --mpi=pmi(x|2) --kill-on-bad-exit=1 --cpus-per-task=20 '

# The shell reads the command back as it was written: run with stand-ins for srun and mpirun that show their words.
mkdir "$here/bin"
for launcher in srun mpirun; do
    printf '#!/bin/sh\nprintf "[%%s]" "$@"\n' >"$here/bin/$launcher"
    chmod +x "$here/bin/$launcher"
done
cp "$here/out" "$here/job"
run 0 env PATH="$here/bin:$PATH" SLURM_NTASKS=8 sh "$here/job"
says "[train][mnist-mlp][--epochs][3][--data][mnist:/some where/it's]"
run 0 "$lockstep" slurm train mnist-mlp --launcher mpirun --job-name "two" --partition p --reservation=r
says "#SBATCH --job-name=two"
says "#SBATCH --partition=p"
says "#SBATCH --reservation=r"
grep -q -e '--cpus-per-task\|--time\|--mem\|--gres\|nvidia' "$here/out" && wrong "$what: asks for what nobody asked for"
cp "$here/out" "$here/job"
run 0 env PATH="$here/bin:$PATH" SLURM_NTASKS=8 sh "$here/job"
matches '\[none\]\[-n\]\[8\]\[/.*\]\[train\]\[mnist-mlp\]$'

# A study asks for the most it compares, and starts its runs itself.
run 0 "$lockstep" slurm scale mnist-mlp mnist-cnn --nodes 1,4,2 --workers-per-node 1,3 --out "a study" --time 10 --cpus-per-task=2
says "#SBATCH --nodes=4"
says "#SBATCH --ntasks-per-node=3"
says "#SBATCH --cpus-per-task=2"
matches "^exec \\\\\$"
matches "^    /.* scale mnist-mlp mnist-cnn --nodes 1,4,2 --workers-per-node 1,3 --out 'a study'\$"
run 0 "$lockstep" slurm scale mnist-mlp --workers 1,2,4 --out study
says "#SBATCH --nodes=1"
says "#SBATCH --ntasks-per-node=4"
refuses 2 "where to?" "$lockstep" slurm scale mnist-mlp --workers 1,2
refuses 2 "2 is there twice" "$lockstep" slurm scale mnist-mlp --workers 2,2 --out study
for option in tasks-per-node launcher; do
    refuses 2 "unknown option --$option" "$lockstep" slurm scale mnist-mlp --workers 2 --out study --$option 2
done
[ -e study ] && wrong "writes a study"

# What a site wants besides, in the order it was given.
printf 'ulimit -s unlimited\nexport A="b c"' >"$here/setup"
run 0 "$lockstep" batch train mnist-mlp --sbatch "--chdir=." --sbatch=--constraint=fast --module gcc/12 --module=openmpi --setup "$here/setup" \
    --mem-per-cpu 900M --output out.%j --error err.%j
for line in '#SBATCH --chdir=.' '#SBATCH --constraint=fast' '#SBATCH --mem-per-cpu=900M' '#SBATCH --output=out.%j' '#SBATCH --error=err.%j' \
    'module load gcc/12 openmpi' 'ulimit -s unlimited' 'export A="b c"'; do
    grep -qxF -- "$line" "$here/out" || wrong "$what: lacks the line $line"
done
sh -n "$here/out" || wrong "$what: is no script"

# A training with checkpoints goes back to the queue where it was stopped before its end, and on from there.
run 0 "$lockstep" batch train mnist-mlp --checkpoint ckpt --time 01:00:00
for line in '#SBATCH --requeue' '#SBATCH --open-mode=append' 'exit $status'; do
    grep -qxF -- "$line" "$here/out" || wrong "$what: lacks the line $line"
done
matches '^srun .*'
matches ' train mnist-mlp --checkpoint ckpt --resume$'
cp "$here/out" "$here/job"
mkdir "$here/ends"
for status in 0 1 75; do
    printf '#!/bin/sh\nexit %s\n' $status >"$here/ends/srun"
    printf '#!/bin/sh\necho "requeued: $*"\n' >"$here/ends/scontrol"
    chmod +x "$here/ends/srun" "$here/ends/scontrol"
    [ $status -eq 75 ] && ends=0 || ends=$status
    run $ends env PATH="$here/ends:$PATH" SLURM_JOB_ID=17 sh "$here/job"
    if [ $status -eq 75 ]; then says "requeued: requeue 17"; else grep -q requeued "$here/out" && wrong "$what: is requeued after $status"; fi
done
run 75 env PATH="$here/ends:$PATH" SLURM_JOB_ID=17 SLURM_RESTART_COUNT=1000 sh "$here/job"
refuses 2 "the tasks would keep their checkpoints in one folder" "$lockstep" batch train mnist-mlp --checkpoint ckpt --array lr=0.1,0.2
run 0 "$lockstep" batch train mnist-mlp --system pbs --checkpoint ckpt --time 01:00:00
says "submit this script again, and it goes on."

# Cores that the run has no use for are said, on the standard error and in the script.
run 0 "$lockstep" batch train mnist-mlp --cpus-per-task 20
complains "each worker asks for 20 cores and uses 16: a step of 128 samples in micro-batches of 16, over 1 worker, makes 8 replicas of 2 threads; ask for fewer,"
grep -q '^# Note: each worker asks for 20 cores' "$here/out" || wrong "$what: the script does not say it"
run 0 "$lockstep" batch train mnist-mlp --cpus-per-task 29 --batch-size 1024 --tasks-per-node 4
complains "each worker asks for 29 cores and uses 28: a step of 1024 samples in micro-batches of 128, over 4 workers, makes 2 replicas of 14 threads"
run 0 "$lockstep" batch scale mnist-mlp --workers 1,2 --out s --cpus-per-task 4
complains "uses 1: it has 1 replica; ask for fewer, or give --replicas 4"
for fits in "--cpus-per-task 8" "--cpus-per-task 4 --tasks-per-node 2" "--cpus-per-task 20 --micro-batch 4 --batch-size 256" \
    "--cpus-per-task 56" "--cpus-per-task 160 --tasks-per-node 4"; do
    # shellcheck disable=SC2086
    run 0 "$lockstep" batch train mnist-mlp $fits
    [ -s "$here/err" ] && wrong "$what: warns of nothing"
done
refuses 2 "16 workers for 8 micro-batches" "$lockstep" batch train mnist-mlp --nodes 2 --tasks-per-node 8

# A home folder is not lost between quotes.
# shellcheck disable=SC2088 # what the shell does not expand is what is tested
run 0 env HOME=/my/own "$lockstep" batch train mnist-mlp --data mnist:~/d --record '~/r.json' --save=~/w
grep -q 'train mnist-mlp --data mnist:/my/own/d --record /my/own/r.json --save=/my/own/w$' "$here/out" || wrong "$what: keeps the ~"

# A sweep as a job array: each task its words and its record.
run 0 "$lockstep" batch train mnist-mlp --array "lr=0.01,0.02 remat=true" --job-name sweep
says "#SBATCH --array=0-1"
says "#SBATCH --output=%x.%A_%a.out"
cp "$here/out" "$here/job"
run 0 env PATH="$here/bin:$PATH" SLURM_ARRAY_TASK_ID=1 sh "$here/job"
says "[train][mnist-mlp][--lr][0.02][--remat][--record][sweep.1.json]"
run 1 env PATH="$here/bin:$PATH" SLURM_ARRAY_TASK_ID=2 sh "$here/job"
refuses 2 "unknown option --lrr" "$lockstep" batch train mnist-mlp --array "lrr=1,2"
refuses 2 "--array is for train" "$lockstep" batch scale mnist-mlp --workers 1 --out s --array "lr=1,2"

# PBS, with a stand-in for what it gives a job.
run 0 "$lockstep" batch train mnist-mlp --system pbs --nodes 2 --tasks-per-node 4 --cpus-per-task 1 --mem 8G --gres gpu:2 --time 10 \
    --account A --partition q --pbs "-W umask=022" --job-name p
for line in '#PBS -N p' '#PBS -l select=2:ncpus=4:mpiprocs=4:mem=8G:ngpus=2' '#PBS -l walltime=00:10:00' '#PBS -A A' '#PBS -q q' \
    '#PBS -W umask=022'; do
    grep -qxF -- "$line" "$here/out" || wrong "$what: lacks the line $line"
done
grep -q SLURM "$here/out" && wrong "$what: speaks of Slurm"
cp "$here/out" "$here/job"
for node in n1 n1 n1 n1 n2 n2 n2 n2; do echo $node; done >"$here/nodes"
run 0 env PATH="$here/bin:$PATH" PBS_O_WORKDIR="$here" PBS_NODEFILE="$here/nodes" PBS_JOBID=1 sh "$here/job"
matches '\[none\]\[(--hostfile|-f)\]\[/[^]]*/nodes\]\[-n\]\[8\]\[/.*\]\[train\]\[mnist-mlp\]\[--time-limit\]\[0:540\]$'
run 0 "$lockstep" batch train mnist-mlp --system=pbs --array "lr=1,2"
says '#PBS -J 0-1'
refuses 2 "--qos is Slurm's" "$lockstep" batch train mnist-mlp --system pbs --qos q
refuses 2 "--sbatch: this script is for PBS" "$lockstep" batch train mnist-mlp --system pbs --sbatch "--chdir=."
refuses 2 "a study over several nodes takes Slurm's steps" \
    "$lockstep" batch scale mnist-mlp --system pbs --layout 1x2,2x1 --out s
refuses 2 "'lsf' is not one of slurm, pbs" "$lockstep" batch train mnist-mlp --system lsf

for size in 16X 16GB G -1 0G 1.5G ""; do
    refuses 2 "--mem" "$lockstep" slurm train mnist-mlp --mem "$size"
done
refuses 2 "give one of them" "$lockstep" slurm train mnist-mlp --mem 1G --mem-per-cpu 1G
refuses 2 "expected one line that begins with an option" "$lockstep" slurm train mnist-mlp --sbatch "chdir"
refuses 2 "--sbatch needs a value" "$lockstep" slurm train mnist-mlp --sbatch
refuses 2 "--setup: cannot read" "$lockstep" slurm train mnist-mlp --setup "$here/none"
refuses 2 "a batch script for what?" "$lockstep" slurm
refuses 2 "not for 'bench'" "$lockstep" slurm bench mnist-mlp
refuses 2 "which model?" "$lockstep" slurm train --nodes 2
refuses 2 "unknown option --node" "$lockstep" slurm train mnist-mlp --node 2
refuses 2 "--epochs" "$lockstep" slurm train mnist-mlp --epochs many
refuses 2 "--nodes: expected a whole number from 1" "$lockstep" slurm train mnist-mlp --nodes 0
refuses 2 "--nodes needs a value" "$lockstep" slurm train mnist-mlp --nodes
refuses 2 "--workers 3: leave it out" "$lockstep" slurm train mnist-mlp --workers 3
refuses 2 "--time: expected a time" "$lockstep" slurm train mnist-mlp --time soon
refuses 2 "--account 'a; b': a batch script takes" "$lockstep" slurm train mnist-mlp --account "a; b"
refuses 2 "'qsub' is not one of srun, mpirun" "$lockstep" slurm train mnist-mlp --launcher qsub
# What is to go to srun does not go to the shell.
run 0 env LOCKSTEP_SRUN_ARGS='--mpi=pmix $(touch /tmp/x) ;id' "$lockstep" slurm train mnist-mlp --epochs 1
says "exec srun --mpi=pmix '\$(touch' '/tmp/x)' ';id' --kill-on-bad-exit=1"
finish
