#!/bin/sh
# lockstep bench on several hosts whose links are slow, as root:
#     HOSTS=4 RATE=1gbit sh tests/cluster/bench_hosts.sh build/release/lockstep exchange --from 1024 --to 65536
#     HOSTS=8 RATE=100mbit sh tests/cluster/bench_hosts.sh build/release/lockstep mnist-cnn --batch-size 256 --algorithm halving
#
#     TRANSPORT=tcp HOSTS=4 sh tests/cluster/bench_hosts.sh build/release/lockstep exchange --algorithm halving
#
# HOSTS hosts made of namespaces of this machine, each with a worker of one replica and a link of RATE in both directions, in tc's words, to a switch.
# They share this machine's cores: where those are fewer than hosts, the wire has to be so slow that it is what is measured. What follows the
# program are words of lockstep bench. With TRANSPORT=tcp the workers talk as with --hosts, without MPI. Last comes what each host has sent, in MB, and how many
# segments again: no host should send much more than another.
# shellcheck disable=SC2034,SC2154 # lib.sh uses and sets some
needs="mpirun tc"
[ "$1" = --inside ] || { LOCKSTEP_WORDS=$(shift && echo "$*") && export LOCKSTEP_WORDS; }
. "$(dirname "$0")/lib.sh"
hosts=${HOSTS:-4}

# in HOST COMMAND...: runs it in the network of that host, 1 being the one that this runs on.
in_network() {
    case $1 in
    1) shift && "$@" ;;
    *) net=$1 && shift && nsenter --net=/run/netns/n"$net" "$@" ;;
    esac
}
limit="root tbf rate ${RATE:-1gbit} burst 256k latency 50ms"
ip netns add switch && ip -n switch link add bridge type bridge && ip -n switch link set bridge up || skip "this system has no bridge"
list='' named=''
i=1
while [ $i -le "$hosts" ]; do
    [ $i -le 2 ] || { ip netns add n$i && echo "10.77.0.$i n$i" >>"$here/hosts"; }
    ip link add w$i type veth peer name p$i netns switch || exit 1
    [ $i -eq 1 ] || ip link set w$i netns n$i
    # shellcheck disable=SC2086 # words
    {
        in_network $i ip address add 10.78.0.$i/24 dev w$i && in_network $i ip link set w$i up && in_network $i ip link set lo up &&
            ip -n switch link set p$i master bridge up && in_network $i tc qdisc add dev w$i $limit &&
            nsenter --net=/run/netns/switch tc qdisc add dev p$i $limit
    } || skip "this system cannot slow a link down"
    list=$list${list:+,}n$i:1 named=$named${named:+,}10.78.0.$i:21000
    i=$((i + 1))
done
cat >"$here/agent" <<'TEXT'
#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
exec nsenter --net=/run/netns/"$host" unshare --uts sh -c 'hostname "$0" && exec sh -c "$*"' "$host" "$@"
TEXT
chmod +x "$here/agent"

echo "$LOCKSTEP_WORDS: $hosts hosts, ${RATE:-1gbit} each"
if [ "${TRANSPORT:-mpi}" = tcp ]; then
    (umask 077 && head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$here/key")
    i=$hosts
    while [ "$i" -gt 1 ]; do
        # shellcheck disable=SC2086 # words
        nsenter --net=/run/netns/n"$i" unshare --uts sh -c 'hostname "$0" && exec "$@"' "n$i" \
            "$lockstep" bench $LOCKSTEP_WORDS --hosts "$named" --task $((i - 1)) --key-file "$here/key" >"$here/out.$i" 2>&1 &
        i=$((i - 1))
    done
    # shellcheck disable=SC2086 # words
    "$lockstep" bench $LOCKSTEP_WORDS --hosts "$named" --task 0 --key-file "$here/key" || exit
else
    # shellcheck disable=SC2086 # words
    mpirun --mca plm_rsh_agent "$here/agent" --mca plm_rsh_no_tree_spawn 1 --mca btl tcp,self --mca pml ob1 --mca btl_tcp_if_include 10.78.0.0/24 \
        --mca oob_tcp_if_include 10.78.0.0/24 --mca mpi_yield_when_idle 1 --bind-to none --quiet --host "$list" -n "$hosts" \
        "$lockstep" bench $LOCKSTEP_WORDS || exit
fi
i=1
while [ $i -le "$hosts" ]; do
    again=$(in_network $i awk '$1 == "Tcp:" && $13 != "RetransSegs" { print $13 }' /proc/net/snmp)
    in_network $i awk -v n=$i -v again="$again" '$1 == "w" n ":" { printf "n%d sent %.1f MB, %d segments again\n", n, $10 / 1e6, again }' /proc/net/dev
    i=$((i + 1))
done
