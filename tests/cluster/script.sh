#!/bin/sh
# The batch script that lockstep slurm writes: its requests, its quoting, and what it refuses. slurm.sh runs one.
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
