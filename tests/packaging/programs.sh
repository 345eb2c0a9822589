#!/bin/sh
# Programs against the installed library, shared and static, by pkg-config and by CMake, in one language. Each defines every name that
# the library keeps to itself: a function that ends the program.
#     programs.sh C|CXX|Fortran COMPILER PREFIX INSIDE FOLDER CC CMAKE PKG-CONFIG NM [TWO WORKERS' LAUNCHER...]
# INSIDE is the archive with all names of the library.
# shellcheck disable=SC2086 # words on purpose
set -eu
language=$1 compiler=$2 prefix=$3 inside=$4 build=$5 cc=$6 cmake=$7 pkg_config=$8 nm=$9
shift 9
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "WRONG: $*"; exit 1; }
if [ -z "$compiler" ] || ! command -v "$compiler" >/dev/null; then
    echo "skipped: no compiler for $language here; tools/install-deps --test installs one"
    exit 77
fi
rm -rf "$build"
mkdir -p "$build"
export LC_ALL=C
PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name lockstep.pc)")${PKG_CONFIG_PATH:+:$PKG_CONFIG_PATH}
export PKG_CONFIG_PATH
lib=$("$pkg_config" --variable=libdir lockstep)

# What the headers declare, either library shows, and nothing else but compilers' own locks (clang's .gomp_critical_user_.var).
echo '#include <lockstep/lockstep.h>' >"$build/all.c"
"$cc" -E -P -I"$prefix/include" "$build/all.c" | grep -oE '\bls_[a-z0-9_]+\(' | tr -d '(' | sort -u >"$build/declared"
[ "$(wc -l <"$build/declared")" -gt 200 ] || fail "the headers declare next to nothing"
"$nm" -D --defined-only "$lib/liblockstep.so" | awk '$3 !~ /^\./ { print $3 }' | sort >"$build/shared.names"
"$nm" -g --defined-only "$lib/liblockstep.a" | awk 'NF == 3 && $3 !~ /^\./ { print $3 }' | sort >"$build/static.names"
for kind in shared static; do
    diff "$build/declared" "$build/$kind.names" || fail "the $kind library shows other names than the headers declare"
done
"$nm" -g --defined-only "$inside" | awk 'NF == 3 && $3 !~ /\./ { print $3 }' | sort -u | comm -23 - "$build/declared" >"$build/own"
grep -qvx 'ls_.*' "$build/own" && [ "$(wc -l <"$build/own")" -gt 500 ] || fail "names of the library's own were not found"
{
    echo '#include <stdlib.h>'
    sed 's/.*/void &(void);\nvoid &(void) { abort(); }/' "$build/own"
} >"$build/own.c"
"$cc" -c "$build/own.c" -o "$build/own.o"

case $language in
C) source=$here/train.c flags="-std=c11 -Wall -Wextra -pedantic -Werror" ;;
CXX)
    cp "$here/train.c" "$build/train.cpp"
    source=$build/train.cpp flags="-std=c++11 -Wall -Wextra -pedantic -Werror"
    ;;
Fortran) source=$here/train.f90 flags="-Wall -J$build $("$pkg_config" --variable=fortran lockstep)" ;;
esac

# expect NAME: one weights' digest, whichever program trains.
expect() {
    "$build/$1" >"$build/output" || fail "$1 ends with status $?"
    grep -Eqx 'weights [0-9a-f]{64}' "$build/output" || fail "$1 prints no digest"
    [ -e "$build/digest" ] || cp "$build/output" "$build/digest"
    cmp "$build/digest" "$build/output" || fail "$1 has another digest"
}
# The dynamic linker finds the library by itself.
unset LD_LIBRARY_PATH
shared=$("$pkg_config" --cflags --libs lockstep)
static=$("$pkg_config" --cflags --libs lockstep-static)
"$compiler" $flags "$source" "$build/own.o" -rdynamic $shared -o "$build/by-pkg-config"
"$compiler" $flags "$source" "$build/own.o" $static -o "$build/by-pkg-config-static"
readelf -d "$build/by-pkg-config" | grep -q 'NEEDED.*liblockstep\.so\.[0-9]' || fail "not linked with the SONAME"
readelf -d "$build/by-pkg-config-static" | grep -q 'NEEDED.*liblockstep' && fail "not linked with the static library"
expect by-pkg-config
expect by-pkg-config-static

"$cmake" -S "$here/project" -B "$build/cmake" -DLANGUAGE="$language" "-DCMAKE_${language}_COMPILER=$compiler" \
    -Dsource="$source" -Dextra="$build/own.o" -DCMAKE_PREFIX_PATH="$prefix" >"$build/log" 2>&1 &&
    "$cmake" --build "$build/cmake" >>"$build/log" 2>&1 || { cat "$build/log"; fail "CMake"; }
expect cmake/shared
expect cmake/static

if [ "$language" = Fortran ]; then
    # Each struct has C's size.
    module=$("$pkg_config" --variable=fortran lockstep)
    sed -n 's/^  type, bind(C) :: //p' "$module" >"$build/structs"
    {
        echo '#include <lockstep/lockstep.h>'
        echo '#include <stdio.h>'
        echo 'int main(void) {'
        sed 's/.*/    printf("%zu &\\n", sizeof(&));/' "$build/structs"
        echo '}'
    } >"$build/sizes.c"
    {
        echo 'program sizes'
        echo '  use lockstep'
        awk '{ print "  type(" $1 ") :: v" NR }' "$build/structs"
        awk "{ print \"  print '(i0, 1x, a)', c_sizeof(v\" NR \"), \\\"\" \$1 \"\\\"\" }" "$build/structs"
        echo 'end program'
    } >"$build/sizes.f90"
    "$cc" -I"$prefix/include" "$build/sizes.c" -o "$build/sizes"
    "$compiler" -J"$build" "$module" "$build/sizes.f90" -o "$build/sizes-fortran" $shared
    "$build/sizes" >"$build/sizes.wanted"
    "$build/sizes-fortran" | diff "$build/sizes.wanted" - || fail "structs of the module have other sizes than C's"
    [ "$(wc -l <"$build/sizes.wanted")" -gt 40 ] || fail "structs were not found"
    # The example, alone and as two workers.
    "$compiler" -Wall -J"$build" "$module" "$prefix/share/doc/lockstep/examples/surrogate.f90" -o "$build/surrogate" $shared
    "$build/surrogate" >"$build/one"
    grep -q '^workers 1: largest error 0\.000' "$build/one" || fail "surrogate: $(cat "$build/one")"
    if [ $# -gt 0 ]; then
        "$@" "$build/surrogate" >"$build/two"
        grep -q '^workers 2' "$build/two" || fail "surrogate alone where there are two: $(cat "$build/two")"
        [ "$(grep ^weights "$build/one")" = "$(grep ^weights "$build/two")" ] || fail "surrogate: other bits with two workers"
    fi
fi
