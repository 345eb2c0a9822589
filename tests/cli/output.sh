#!/bin/sh
# What one sees: Keras's verbosity levels, the result table, the record, the config file.
. "$(dirname "$0")/lib.sh"
small="mnist-mlp --limit-train 640 --limit-test 100 --epochs 2"

# shellcheck disable=SC2086
{
    run 0 "$lockstep" train $small --verbose 0
    [ -s "$here/out" ] && wrong "--verbose 0 is not silent"

    run 0 "$lockstep" train $small --verbose 2
    matches '^5/5 - [0-9]+s - loss: [0-9]+\.[0-9]{4} - accuracy: [01]\.[0-9]{4}$'
    says "Epoch 1/2"
    says "Epoch 2/2"
    says "mnist-mlp: 101,770 parameters; digits: 640 samples to train on, 100 to test on"
    says "global batch 128 = "
    for line in "Time to read the data" "Time per gradient update" "Time per epoch" "Images per second" "Test loss" \
        "Test accuracy" "Total run time" "Peak memory" "Weights digest"; do
        says "$line"
    done

    # The mean time of an update is what its phases add up to; a median would stand above parts of another whole.
    awk '/^Time per gradient update/ { mean = $5 }
        /^  load, forward, backward/ { sum = $4 + $5 + $6 }
        /^  exchange, wait, update/ { sum += $4 + $5 + $6 }
        /^  serial parts/ { sum += $3 }
        END { exit !(mean > 0 && sum - mean < 0.05 * mean + 0.05 && mean - sum < 0.05 * mean + 0.05) }' "$here/out" ||
        wrong "the phases do not add up to the time of an update"
    # The digest is that of an instruction set, which stands below it.
    grep -A1 '^Weights digest' "$here/out" | grep -qE '^  on +cpu: oneDNN [0-9.]+( and tiles)?, [a-z0-9_]+$' ||
        wrong "does not say what the digest depends on"
    # What the updates are made with.
    says "adam, learning rate 0.001"
    run 0 "$lockstep" train $small --verbose 2 --batch-size 64 --lr 0.01 --lr-scaling linear --lr-base-batch 16 \
        --warmup-epochs 1 --schedule cosine
    says "adam, learning rate 0.04 (0.01 x 64 / 16), warm-up of 1 epoch, cosine"

    # Nothing wraps in a terminal of 80 columns, and in narrower ones not what is drawn over.
    if command -v script >/dev/null; then
        for columns in 80 40 24; do
            run 0 env -u COLUMNS script -qec "stty cols $columns; exec \"$lockstep\" train $small --validate --schedule cosine" /dev/null
            tr '\r' '\n' <"$here/out" | sed 's/ *$//' >"$here/lines"
            grep -q '^1/5' "$here/lines" || wrong "no live line"
            awk -v most=$columns 'length > most && (most == 80 || /^[0-9]+\/5/) { exit 1 }' "$here/lines" ||
                wrong "a line is longer than $columns columns"
        done
        rm "$here/lines"
    fi

    run 0 "$lockstep" train $small --record "$here/run.json" --no-evaluate
    matches '^5/5 \[={30}\] - [0-9]+s - loss: [0-9.]+ - accuracy: [0-9.]+ - [0-9]+ images/s$'
    grep -q 'Test' "$here/out" && wrong "--no-evaluate evaluates"
    for key in lockstep_run model parameters workers replicas_per_worker threads_per_replica global_batch micro_batch \
        precision strategy optimizer seed read_seconds step_seconds_median epoch_seconds images_per_second train_loss \
        train_accuracy test_loss test_accuracy total_seconds peak_rss_bytes planned_bytes weights_digest phases load forward backward \
        exchange update command_line versions options; do
        grep -q "\"$key\": " "$here/run.json" || wrong "the record lacks $key"
    done
    grep -q '"test_loss": null' "$here/run.json" || wrong "a loss that was not measured is in the record"
    [ "$(ls "$here")" = "$(printf 'err\nout\nrun.json')" ] || wrong "temporary files stay behind"
    if command -v python3 >/dev/null; then
        python3 -m json.tool "$here/run.json" >/dev/null || wrong "the record is not JSON"
    fi

    run 0 "$lockstep" train $small --validate --record "$here/run.json"
    [ "$(grep -cE -- '- val_loss: [0-9.]+ - val_accuracy: [01]\.[0-9]{4} - [0-9]+ images/s$' "$here/out")" -eq 2 ] ||
        wrong "not two epochs with their validation"
    digest=$(sed -n 's/^Weights digest *//p' "$here/out")
    loss=$(sed -n 's/.*- val_loss: \([0-9.]*\) .*/\1/p' "$here/out" | tail -n 1)
    [ "$(sed -n 's/^Test loss *//p' "$here/out")" = "$loss" ] || wrong "the last validation is not the test at the end"
    grep -A2 '"epoch_val_loss": \[' "$here/run.json" | grep -q '[0-9][.][0-9]' || wrong "no validation in the record"
    run 0 "$lockstep" train $small --validate --no-evaluate --verbose 2 # that one only says: no more than this
    matches '^5/5 - [0-9]+s - loss: [0-9.]+ - accuracy: [0-9.]+ - val_loss: [0-9.]+ - val_accuracy: [0-9.]+$'
    [ "$(sed -n 's/^Weights digest *//p' "$here/out")" = "$digest" ] || wrong "another display changes the weights"
    run 0 "$lockstep" train $small
    [ "$(sed -n 's/^Weights digest *//p' "$here/out")" = "$digest" ] || wrong "validation changes the weights"
    grep -q val_ "$here/out" && wrong "validates though nobody asked"

    # A record that cannot be written in the end is printed instead, and said to be missing.
    [ -w /dev/full ] && {
        run 1 "$lockstep" train $small --verbose 0 --record /dev/full
        says '"weights_digest": '
        complains "cannot write"
    }

    # A result that cannot be written is no success, whichever command has it and however many workers do.
    [ -w /dev/full ] && {
        run 0 "$lockstep" train $small --verbose 0 --save "$here/weights"
        evaluates="evaluate $here/weights --model mnist-mlp --data digits --limit 100"
        for command in "--version" "models" "plan mnist-mlp" "train $small" "$evaluates" ${mpirun:+"train $small --workers 2" \
            "$evaluates --workers 2" "check --workers 2" "bench exchange --to 64 --workers 2"}; do
            what="lockstep $command >/dev/full"
            "$lockstep" $command >/dev/full 2>"$here/err" </dev/null
            got=$?
            [ $got -eq 1 ] || wrong "$what: exit status $got"
            complains "lockstep: cannot write to the standard output: No space left on device"
        done
        # Nor is it lost where whoever reads it takes their time.
        [ -z "$mpirun" ] || [ "$("$lockstep" train $small --workers 2 2>"$here/err" | { sleep 3 && grep -c '^Weights digest'; })" = 1 ] ||
            wrong "a slow reader does not get the result of two workers"
        rm "$here/weights"
    }

    echo '{"model": "mnist-mlp", "epochs": 1, "limit-train": 128, "limit-test": 50, "shuffle": false, "verbose": 2}' \
        >"$here/config.json"
    run 0 "$lockstep" train --config "$here/config.json" --limit-train 256
    says "Epoch 1/1"
    says "digits: 256 samples to train on, 50 to test on"

    # Weights that are saved and taken again are the same to the bit, and a rate of 0 leaves them so.
    run 0 "$lockstep" train $small --verbose 0 --save "$here/weights" --record "$here/saved.json"
    digest=$(sed -n 's/.*"weights_digest": "\(.*\)".*/\1/p' "$here/saved.json")
    run 0 "$lockstep" train $small --verbose 2 --weights "$here/weights" --optimizer sgd --lr 0 --seed 7
    says "weights from $here/weights: 4 of 4 parameters"
    says "Weights digest  $digest"
    run 0 "$lockstep" train $small --verbose 2 --weights "$here/weights" --weights-by-name --classes 11 --record "$here/run.json"
    says "weights from $here/weights: 2 of 4 parameters, the others drawn from the seed"
    grep -q '"weights-by-name": true' "$here/run.json" || wrong "the record does not say where the weights came from"
    case $(ls "$here") in *weights.*) wrong "temporary files stay behind" ;; esac
    # Weights that cannot be written in the end cost neither the table nor the record.
    [ -w /dev/full ] && {
        run 1 "$lockstep" train $small --verbose 2 --save /dev/full --record "$here/full.json"
        says "Weights digest"
        complains "cannot write the weights /dev/full: No space left on device"
        grep -q '"weights_digest"' "$here/full.json" || wrong "the record is lost with the weights"
    }
}
# Where there is no test set there is no evaluation; what was trained is told, and saved.
run 0 "$lockstep" train mnist-mlp --data synthetic:28x28x1,10,640,0 --epochs 1 --save "$here/weights"
says "synthetic:28x28x1,10,640,0: 640 samples to train on, 0 to test on"
says "Weights digest"
grep -q "^Test" "$here/out" && wrong "$what: results of a test set that there is not"
[ -s "$here/weights" ] || wrong "$what: weights are not saved"
refuses 1 "no test set to evaluate on after each epoch" "$lockstep" train mnist-mlp --data synthetic:28x28x1,10,640,0 --validate
finish
