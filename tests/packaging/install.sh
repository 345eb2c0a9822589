#!/bin/sh
# What 'make install' puts somewhere, what the program says of it there, and that 'make uninstall' takes all of it away.
#     install.sh BUILD FOLDER CMAKE BUILD-TYPE
set -eu
build=$1 prefix=$2 cmake=$3 type=$4
root=$(cd "$(dirname "$0")/../.." && pwd)
fail() { echo "WRONG: $*"; exit 1; }
rm -rf "$prefix"
"$cmake" --install "$build" --prefix "$prefix" >/dev/null
for file in bin/lockstep include/lockstep/lockstep.h share/man/man1/lockstep-train.1 share/lockstep/lockstep.f90 \
    share/doc/lockstep/LICENSE share/doc/lockstep/README.md share/doc/lockstep/CHANGES.md share/doc/lockstep/docs/networks.md \
    share/doc/lockstep/examples/own_loop.c share/doc/lockstep/examples/networks/residual.net \
    share/bash-completion/completions/lockstep share/zsh/site-functions/_lockstep share/fish/vendor_completions.d/lockstep.fish; do
    [ -s "$prefix/$file" ] || fail "$file is not installed"
done
find "$prefix" -name '*test*' -o -name 'bench_*' -o -name '*inside*.a' | grep . && fail "these are not for users"
lib=$(dirname "$(find "$prefix" -name liblockstep.a)")
if [ "$type" = Release ]; then
    for file in "$prefix/bin/lockstep" "$lib/liblockstep.so" "$lib/liblockstep.a"; do
        readelf -S "$file" | grep -q '\.debug_info' && fail "$file has debug information"
    done
fi
# Documents that sentences name are there.
"$prefix/bin/lockstep" --version | sed -n 's/^documents: //p' >"$prefix/said"
[ -e "$(cat "$prefix/said")/networks.md" ] || fail "documents are said to be in $(cat "$prefix/said")"
"$prefix/bin/lockstep" train mnist-mlp --weights imagenet 2>"$prefix/said" && fail "weights of nowhere"
[ -e "$(grep -o '/[^ ]*\.md' "$prefix/said")" ] || fail "$(cat "$prefix/said")"
rm "$prefix/said"

make -s -C "$root" uninstall BUILD="$build" >/dev/null
find "$prefix" ! -type d | grep . && fail "left behind"
find "$prefix" -type d -name '*lockstep*' | grep . && fail "folders left behind"
rm -rf "$prefix"
