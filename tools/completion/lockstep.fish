# Fish completion for lockstep.
function __lockstep_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l program (realpath (command -s $words[1]))
    set -l values (sh (dirname $program)/../share/lockstep/complete $program $words[2..-1])
    if test "$values" = /
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $values
    end
end
complete -c lockstep -f -a '(__lockstep_complete)'
