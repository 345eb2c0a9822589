#!/bin/bash
# What completion offers as it is installed, in bash, and in zsh and fish where they are: completion.sh PREFIX
prefix=$1
export PATH=$prefix/bin:$PATH
failed=0
# offers EXPECTED WORDS...: for the last word; bash's are those of a whole line.
offers() {
    local expected=$1 got
    shift
    COMP_WORDS=(lockstep "$@") COMP_CWORD=$#
    _lockstep 2>/dev/null
    got=${COMPREPLY[*]}
    [ "$got" = "$expected" ] || { echo "WRONG: bash, completing '$*': $got"; failed=1; }
    if command -v zsh >/dev/null; then
        # shellcheck disable=SC2016 # zsh's
        got=$(zsh -fc '
            file=$1; shift; words=(lockstep "$@") CURRENT=$(($# + 1))
            compadd() { shift 3; [ $# = 0 ] || print -r -- $@ }; compset() { :; }; _files() { :; }
            f() { source $file }; f' zsh "$prefix/share/zsh/site-functions/_lockstep" "$@" | tr '\n' ' ')
        [ "$(tr ' ' '\n' <<<"$got" | sort | xargs)" = "$(tr ' ' '\n' <<<"$expected" | sort | xargs)" ] ||
            { echo "WRONG: zsh, completing '$*': $got"; failed=1; }
    fi
    if command -v fish >/dev/null && [ -n "$expected" ]; then
        got=$(HOME=/nonexistent fish -c "source '$prefix/share/fish/vendor_completions.d/lockstep.fish'; complete -C 'lockstep $*'" 2>/dev/null |
            cut -f 1 | sort | xargs)
        [ "$got" = "$(tr ' ' '\n' <<<"$expected" | sort | xargs)" ] || { echo "WRONG: fish, completing '$*': $got"; failed=1; }
    fi
}
. "$prefix/share/bash-completion/completions/lockstep"
offers "summary scale slurm" s
offers "--lr --lr-scaling --lr-base-batch --lr-scale" train mnist-cnn --lr
offers "fp32 bf16 fp16" train mnist-cnn --precision ""
offers "sgd adam adamw lars lamb" train mnist-cnn --optimizer ""
offers "mnist-cnn mnist-mlp mnist-linear" train mnist
offers "train scale" batch ""
offers "--sbatch" batch train --sb
offers "--schedule-rise" batch train mnist-cnn --schedule-r
offers "lstm lstm-lm lstm-lm-mini" train lst
offers "mnist: moving-digits" train mnist-cnn --data m
offers "tar: tfrecord: text:" data t
offers "" train mnist-cnn --data mnist:
offers "" evaluate x
# Networks, each of which the program knows, and no word of their descriptions.
COMP_WORDS=(lockstep train "") COMP_CWORD=2
_lockstep 2>/dev/null
[ ${#COMPREPLY[@]} -gt 30 ] || { echo "WRONG: ${#COMPREPLY[@]} networks"; failed=1; }
for model in "${COMPREPLY[@]}"; do
    lockstep models --export "$model" >/dev/null || { echo "WRONG: '$model' is no network"; failed=1; }
done
exit $failed
