# Bash completion for lockstep.
_lockstep() {
    local program
    program=$(readlink -f "$(type -P "${COMP_WORDS[0]}")") || return
    mapfile -t COMPREPLY < <(sh "${program%/*}/../share/lockstep/complete" "$program" "${COMP_WORDS[@]:1:COMP_CWORD}")
    case ${COMPREPLY[*]} in
    /) COMPREPLY=() && compopt -o default ;;
    *:) compopt -o nospace ;;
    esac
}
complete -F _lockstep lockstep
