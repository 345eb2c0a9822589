#!/bin/sh
# Manual pages and the module file: all options are in them, and tools that read them do.
. "$(dirname "$0")/lib.sh"
root=$(cd "$(dirname "$0")/../.." && pwd)

run 0 "$root/tools/manuals" "$lockstep" "$here/man"
for command in $("$lockstep" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    [ "$command" = help ] && continue
    page=$here/man/man1/lockstep-$command.1
    [ -s "$page" ] || wrong "no manual page for $command"
    # Hyphens are written \-.
    sed 's/\\-/-/g' "$page" >"$here/plain"
    for option in $("$lockstep" "$command" --help | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p'); do
        grep -q "^\.B $option\( \|\$\)" "$here/plain" || wrong "the manual page of $command lacks $option"
    done
done
if command -v groff >/dev/null; then
    for page in "$here"/man/man1/*.1; do
        groff -man -Tutf8 -ww "$page" >/dev/null 2>"$here/err" || wrong "$page"
        [ -s "$here/err" ] && wrong "$page has warnings"
    done
fi

if [ -r /usr/share/modules/init/sh ]; then
    run 0 sh -c ". /usr/share/modules/init/sh; module use '$root/packaging/modulefiles/..'; module load modulefiles/0.1.0; echo \"\$PATH\""
    says "/opt/lockstep/bin:"
fi
finish
