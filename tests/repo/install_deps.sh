# tools/install-deps calls apt-get only for what is missing, without asking anything, and says what to do where it cannot.
set -eu
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
for tool in sh cat mktemp rm tail env basename printf; do
    ln -s "$(command -v $tool)" "$bin/$tool" 2>/dev/null || true
done
script() { printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"; chmod +x "$bin/$1"; }
# run ARGS...: with only the tools above; what it says is left in $said, its exit status in $code.
run() {
    code=0
    said=$(PATH=$bin BIN=$bin sh tools/install-deps "$@" 2>&1) || code=$?
}
fail() { echo "$1: exit status $code, said: $said"; exit 1; }

script apt-get 'echo "$DEBIAN_FRONTEND apt-get $*" >>"$BIN/calls"'
script id 'echo 0'

script dpkg-query 'echo installed'
run --all
[ "$code" = 0 ] && [ -z "$said" ] && [ ! -e "$bin/calls" ] || fail "everything installed"

script dpkg-query 'case $4 in libhwloc-dev) exit 1;; libjansson-dev) echo config-files;; *) echo installed;; esac'
run
[ "$code" = 0 ] || fail "two missing"
grep -q '^noninteractive apt-get install -y .*libhwloc-dev libjansson-dev $\|^noninteractive apt-get install -y .*libhwloc-dev libjansson-dev$' "$bin/calls" ||
    { said=$(cat "$bin/calls"); fail "two missing"; }
if grep -q zlib1g-dev "$bin/calls"; then fail "asked for what was there"; fi

rm "$bin/calls"
script id 'echo 1000'
run
[ "$code" = 1 ] && [ ! -e "$bin/calls" ] || fail "neither root nor sudo"
case $said in *"apt-get install libhwloc-dev libjansson-dev"*) ;; *) fail "neither root nor sudo" ;; esac

rm "$bin/apt-get" "$bin/dpkg-query"
run
[ "$code" = 1 ] || fail "another system"
case $said in *"packages of Debian and Ubuntu only"*) ;; *) fail "another system" ;; esac
for manager in dnf zypper; do
    script $manager 'exit 1'
    run
    case $said in *"Try: $manager install gcc "*hwloc-devel*libcmocka-devel*) ;; *) fail "$manager" ;; esac
    rm "$bin/$manager"
done

run --nonsense
[ "$code" = 2 ] || fail "an unknown option"
