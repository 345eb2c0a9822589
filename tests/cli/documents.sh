#!/bin/sh
# Options in the documents' commands of the program are options of that command.
. "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.." || exit 1
export COLUMNS=1000

# Commands stand in fenced blocks, going on where a line ends in a backslash, and between backquotes. One a line: COMMAND OPTIONS...
for doc in README.md CONTRIBUTING.md docs/*.md docs/*/*.md; do
    {
        awk '/^ *```/ { inside = !inside; next } inside' "$doc" | sed ':again; /\\$/{N; s/\\\n//; b again;}'
        grep -oE '`[^`]*`' "$doc" | tr -d '`'
    } | grep -oE '(^|[ /])lockstep [a-z]+ .*' | sed 's/^.*lockstep \([a-z]* \)/\1/; s/ #.*//' | sed "s,^,$doc ,"
done >"$here/commands"
[ "$(wc -l <"$here/commands")" -gt 150 ] || { echo "only $(wc -l <"$here/commands") commands found"; failed=1; }

# What each command takes, and a command that is given train's or scale's own.
for command in $(cut -d' ' -f2 "$here/commands" | sort -u); do
    "$lockstep" help "$command" >"$here/$command.help" 2>/dev/null || rm "$here/$command.help"
done
for of in exchange data; do "$lockstep" bench $of --help >>"$here/bench.help"; done # what they measure instead of a network
while read -r doc command rest; do
    [ -e "$here/$command.help" ] || continue # words about the program
    for option in $(printf '%s\n' "$rest" | sed "s/--sbatch=* *\(\"[^\"]*\"\|'[^']*'\)/--sbatch/g" | grep -oE '(^| )--[a-z][a-z0-9-]*' | sort -u); do
        case $command in
        batch | slurm) known="$here/$command.help $here/train.help $here/scale.help" ;;
        bench | plan | scale | check) known="$here/$command.help $here/train.help" ;;
        *) known=$here/$command.help ;;
        esac
        no=--${option#--no-}
        # shellcheck disable=SC2086 # several files
        grep -qE -e "(^|[ ,(])($option|$no|--no-${option#--})([ ,=)]|\$)" $known ||
            [ "$option" = --help ] || { echo "$doc: lockstep $command has no $option"; failed=1; }
    done
done <"$here/commands"
finish
