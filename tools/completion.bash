# Bash completion for lockstep. It asks the program, whose help is made from its option tables, so that it never lags behind.
_lockstep() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]}
    local command=${COMP_WORDS[1]} help values
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        values=$("$program" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$values --help --version" -- "$word")
        return
    fi
    help=$("$program" "$command" --help 2>/dev/null)
    # A script for a batch system takes the options of what it calls, too.
    case $command in
    batch | slurm)
        [ "$COMP_CWORD" -eq 2 ] && mapfile -t COMPREPLY < <(compgen -W "train scale" -- "$word") && return
        help="$help
$("$program" "${COMP_WORDS[2]}" --help 2>/dev/null)"
        ;;
    help)
        values=$("$program" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
        return
        ;;
    esac
    if [[ $word == -* ]]; then
        values=$(printf '%s\n' "$help" | sed -n 's/^  \(--[a-z0-9-]*\).*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$values --help" -- "$word")
        return
    fi
    if [[ $before == --* ]]; then
        # The values, where the help lists them: fp32|bf16, or a line for each below the option.
        values=$(printf '%s\n' "$help" | sed -n "s/^  $before \([a-z0-9-]*|[a-z0-9|-]*\).*/\1/p" | tr '|' ' ')
        [ -n "$values" ] || values=$(printf '%s\n' "$help" | awk -v option="  $before " '
            index($0, option) == 1 { on = 1; next }
            on && /^  -/ { exit }
            on && /^ +[a-z][a-z0-9-]*  / { print $1 }')
        if [ -n "$values" ]; then
            mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
            return
        fi
        printf '%s\n' "$help" | grep -q "^  $before [A-Z\[]" && compopt -o default && return
    fi
    case $command in
    train | summary | plan | bench | scale | batch | slurm)
        values=$("$program" models 2>/dev/null | sed -n 's/^ *\([a-z][a-z0-9-]*\) .*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$values" -- "$word")
        ;;
    *) compopt -o default ;;
    esac
}
complete -F _lockstep lockstep
