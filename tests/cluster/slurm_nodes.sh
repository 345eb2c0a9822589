# shellcheck shell=sh disable=SC2154 # what is not set here is set by lib.sh
# A real Slurm of two nodes, n1 and n2, on the two hosts of lib.sh. Run as: TEST.sh LOCKSTEP.
needs="srun salloc sbatch slurmctld slurmd munged mpirun $needs"
. "$(dirname "$0")/lib.sh"

daemon() {
    "$@" >>"$here/log" 2>&1 </dev/null &
}

# until_true SECONDS COMMAND...: waits for it.
until_true() {
    left=$(($1 * 5))
    shift
    until "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ $left -gt 0 ] || return 1
        sleep 0.2
    done
}

give_up() {
    cat "$here/log" >"$here/err"
    wrong "$1"
    exit 1
}

chmod 755 "$here"
mkdir -m 755 "$here/munge"
head -c 1024 /dev/urandom >"$here/munge/key" && chmod 400 "$here/munge/key"
daemon munged --foreground --key-file "$here/munge/key" --socket "$here/munge/socket" --pid-file "$here/munge/pid" \
    --log-file "$here/munge/log" --seed-file "$here/munge/seed"
until_true 10 test -S "$here/munge/socket" || give_up "munged does not start"

cat >"$here/slurm.conf" <<TEXT
ClusterName=lockstep
SlurmctldHost=n1(10.77.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$here/munge/socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
StateSaveLocation=$here/state
SlurmctldPidFile=$here/slurmctld.pid
SlurmctldLogFile=$here/slurmctld.log
SlurmdPidFile=$here/slurmd.%n.pid
SlurmdLogFile=$here/slurmd.%n.log
SlurmdSpoolDir=$here/spool.%n
TmpFS=$here/tmp.%n
GresTypes=gpu
NodeName=n1 NodeAddr=10.77.0.1 CPUs=2 Gres=gpu:2
NodeName=n2 NodeAddr=10.77.0.2 CPUs=2 Gres=gpu:2
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=60 State=UP
TEXT
printf 'Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n' >"$here/gres.conf" # devices to hand out
mkdir "$here/state" "$here/spool.n1" "$here/spool.n2" "$here/tmp.n1" "$here/tmp.n2"
export SLURM_CONF="$here/slurm.conf"
srun --mpi=list 2>&1 | grep -qw pmix || skip "this Slurm has no PMIx plugin"
daemon slurmctld -D
daemon slurmd -D -N n1
daemon "$here/on_n2" slurmd -D -N n2
both_idle() { [ "$(sinfo -h -t idle -o %D)" = 2 ]; }
until_true 40 both_idle || give_up "the two nodes do not come up: $(sinfo 2>&1)"
