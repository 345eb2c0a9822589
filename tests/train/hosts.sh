# shellcheck shell=sh disable=SC2154 # $lockstep, $hosts, $recipe and $expected are set by who includes this
# Trainings on workers that count as several hosts (fake_hosts.c), compared by digest and exact losses.
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK 2>/dev/null
failed=0
[ -f "$hosts" ] || { echo "there is no library $hosts: nothing would be sent" && exit 1; }

# digest HOSTS OPTIONS...: trains with workers in so many groups, and prints the digest and the exact losses.
digest() {
    n=$1
    shift
    # shellcheck disable=SC2086 # several words
    LD_PRELOAD=$hosts LOCKSTEP_TEST_HOSTS=$n timeout -k 5 120 "$lockstep" train $recipe --verbose 0 --record "$out/run.json" "$@" >"$out/log" 2>&1 || {
        cat "$out/log" >&2
        return 1
    }
    grep -E '^ *"(hosts|weights_digest|train_loss|test_loss|test_accuracy)"' "$out/run.json" | tr -d '\n' | sed "s/\"hosts\": $n/\"hosts\": all/"
}

# compare HOSTS OPTIONS...: against $expected.
compare() {
    got=$(digest "$@") || failed=1
    if [ "$got" = "$expected" ]; then
        echo "ok: hosts, options: $*"
    else
        echo "DIFFERS: hosts, options: $*: $got, expected $expected" >&2
        failed=1
    fi
}
