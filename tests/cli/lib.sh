# shellcheck shell=sh disable=SC2034 # lockstep and mpirun are for the tests
# What the tests of the program share. Run as: TEST.sh LOCKSTEP MPIRUN..., the second and following being the words that start
# processes by hand (tools/mpirun MPIEXEC), left out where the build has no MPI.
set -u
lockstep=$1
shift
mpirun=$*
here=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-cli.XXXXXX")
trap 'rm -rf "$here"' EXIT
# Tests may run as root, and have been told twice.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
unset LOCKSTEP_LAUNCHED LOCKSTEP_STARTED LOCKSTEP_TERMINAL LOCKSTEP_TRACE
failed=0

wrong() {
    failed=1
    echo "WRONG: $*"
    echo "--- stdout"
    cat "$here/out"
    echo "--- stderr"
    cat "$here/err"
}

# run STATUS COMMAND...: runs it and expects the exit status.
run() {
    want=$1
    shift
    what=$*
    timeout -k 10 120 "$@" >"$here/out" 2>"$here/err" </dev/null
    got=$?
    [ "$got" -eq "$want" ] || wrong "$what: exit status $got, expected $want"
}

# says TEXT: the latest command's standard output has it; complains TEXT: its standard error.
says() { grep -qF -- "$1" "$here/out" || wrong "$what: does not print '$1'"; }
matches() { grep -qE -- "$1" "$here/out" || wrong "$what: prints nothing that matches '$1'"; }
complains() { grep -qF -- "$1" "$here/err" || wrong "$what: does not say '$1'"; }

# refuses STATUS SENTENCE COMMAND...: fails with exactly one line, the sentence in it, and prints nothing else.
refuses() {
    sentence=$2
    status=$1
    shift 2
    run "$status" "$@"
    complains "$sentence"
    [ "$(grep -c '^lockstep' "$here/err")" -eq 1 ] || wrong "$what: should say one sentence, once"
    [ -s "$here/out" ] && wrong "$what: prints something before it fails"
}

finish() { exit $failed; }
