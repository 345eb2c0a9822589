# shellcheck shell=sh disable=SC2034,SC2154 # some of what is set here is for the tests, and they set $needs
# Two hosts, n1 and n2, made of namespaces of this machine and joined by a link. Run as: TEST.sh LOCKSTEP.
#
# A test that includes this starts itself again in namespaces of its own: processes, mounts, network, host name. They go with
# its first process, however that ends, so nothing stays behind, and what runs on the machine outside is neither seen nor
# disturbed. The test itself runs on n1.
skip() {
    echo "skipped: $*"
    exit 77
}

# enter SCRIPT LOCKSTEP: $needs are the programs without which the test is skipped.
enter() {
    [ "$(id -u)" = 0 ] || skip "making hosts of namespaces needs root"
    PATH=$PATH:/usr/sbin:/sbin
    for tool in unshare nsenter mount ip $needs; do
        command -v "$tool" >/dev/null || skip "there is no $tool here; on Debian and Ubuntu, tools/install-deps --all installs it"
    done
    namespaces="--fork --kill-child --pid --mount-proc --mount --net --uts"
    # shellcheck disable=SC2086 # the options are words
    {
        unshare $namespaces true 2>/dev/null || skip "this system lets nobody make namespaces, as most containers"
        exec unshare $namespaces sh "$1" --inside "$2"
    }
}
[ "$1" = --inside ] || enter "$0" "$1"
shift
trap 'exit 130' INT TERM # the first process of a namespace has to ask for them

# Folders in memory, gone with the namespace.
mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /dev/shm && mkdir /run/netns /run/lock || exit 1
# What an exchange costs is measured on these links: kept numbers of others would stand in for it.
TMPDIR=/run XDG_CACHE_HOME=/run/cache
export TMPDIR XDG_CACHE_HOME
. "${cluster:-$(dirname "$0")}/../cli/lib.sh"

# $here/on_n2 COMMAND...: runs it on the other host.
cat >"$here/on_n2" <<'TEXT'
#!/bin/sh
# (ip netns exec would hide the control groups, which slurmd looks for.)
exec nsenter --net=/run/netns/n2 unshare --uts sh -c 'hostname n2 && exec "$@"' n2 "$@"
TEXT
chmod +x "$here/on_n2"
{
    printf '127.0.0.1 localhost\n10.77.0.1 n1\n10.77.0.2 n2\n' >"$here/hosts" && mount --bind "$here/hosts" /etc/hosts &&
        hostname n1 && ip netns add n2 && ip link add v1 type veth peer name v2 netns n2 &&
        ip address add 10.77.0.1/24 dev v1 && ip -n n2 address add 10.77.0.2/24 dev v2 &&
        ip link set lo up && ip link set v1 up && ip -n n2 link set lo up && ip -n n2 link set v2 up
} >"$here/out" 2>"$here/err" || {
    wrong "two hosts cannot be set up"
    exit 1
}

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Warnings of virtual machines, as in tools/mpirun.
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_btl_base_warn_component_unused=0 HWLOC_HIDE_ERRORS=2

# Bytes that have left n1.
sent() { awk '$1 == "v1:" { print $10 }' /proc/net/dev; }
digest() { sed -n 's/^Weights digest *//p' "$here/out"; }
# same DIGEST: the latest run has it.
same() { [ "$(digest)" = "$1" ] || wrong "$what: weights differ from those of one worker ($1)"; }
