#!/bin/sh
# Metrics for other tools: --metrics and --tensorboard, from one worker and from two, on a good disk and on a full one.
. "$(dirname "$0")/lib.sh"
small="mnist-mlp --limit-train 640 --limit-test 100 --epochs 3 --verbose 0"

# shellcheck disable=SC2086
{
    run 0 "$lockstep" train $small --metrics "$here/one.csv" --tensorboard "$here/new/board"
    [ "$(wc -l <"$here/one.csv")" -eq 4 ] || wrong "not a head and a line per epoch"
    [ "$(head -n 1 "$here/one.csv")" = epoch,accuracy,loss,learning_rate,steps,seconds,images_per_second ] ||
        wrong "$(head -n 1 "$here/one.csv")"
    for part in train validation; do
        [ "$(find "$here/new/board/$part" -name 'events.out.tfevents.*.v2' -size +0 | wc -l)" -eq 1 ] ||
            wrong "no events in $part/"
    done
    [ "$(grep -ac batch_loss "$here"/new/board/train/*)" -ge 1 ] || wrong "no losses of steps"
    run 0 "$lockstep" train $small --tensorboard "$here/board" --tensorboard-every 0 --no-evaluate
    grep -aq batch_loss "$here"/board/train/* && wrong "losses of steps that nobody asked for"
    [ -e "$here/board/validation" ] && wrong "a run that nothing is written to"

    if [ -n "$mpirun" ]; then # the sums are those over all workers, and one of them writes
        run 0 "$lockstep" train $small --workers 2 --replicas 1 --validate --metrics "$here/two.csv" --tensorboard "$here/two"
        [ "$(find "$here/two" -type f | wc -l)" -eq 2 ] || wrong "not one file for each part"
        [ "$(cut -d, -f1-3 "$here/one.csv")" = "$(cut -d, -f1-3 "$here/two.csv")" ] || wrong "two workers, other metrics"
        [ "$(sed -n 's/,.*//; $p' "$here/two.csv")" = 2 ] || wrong "epochs begin with 0"
        sed -n 2p "$here/two.csv" | grep -qE '^0,0\.[0-9]+,[0-9.]+,0\.[0-9]+,[0-9.]+,0\.001,5,' || wrong "no validation"
    fi

    # What cannot be written is said before training; what is there stays when the run cannot begin.
    echo >"$here/file"
    refuses 1 "cannot write the metrics $here/none/m.csv: No such file or directory" \
        "$lockstep" train $small --metrics "$here/none/m.csv"
    refuses 1 "cannot make the folder $here/file/train: Not a directory" \
        "$lockstep" train $small --tensorboard "$here/file"
    refuses 1 "$here/nowhere" "$lockstep" train $small --data "mnist:$here/nowhere" --metrics "$here/one.csv"
    [ -s "$here/one.csv" ] || wrong "an earlier file is gone though nothing was trained"

    # A disk that is full in between (a limit on the size of files stands for it): training goes on, its results are there, and
    # the exit status tells.
    cat >"$here/full.sh" <<'TEXT'
trap '' XFSZ
{ (ulimit -f 1 && exec "$@"); echo "exit status $?"; } | cat
TEXT
    run 0 sh "$here/full.sh" "$lockstep" train ${small% --epochs*} --epochs 40 --metrics "$here/full.csv" \
        --tensorboard "$here/full"
    says "exit status 1"
    says "Weights digest"
    says "Epoch 40/40"
    complains "cannot write the metrics $here/full.csv: File too large"
    complains "cannot write the TensorBoard events $here/full/train/events"
    complains "training is done, but its metrics are not complete"
    [ "$(grep -c '^lockstep' "$here/err")" -eq 3 ] || wrong "should say one sentence for each, and one at the end"
}
finish
