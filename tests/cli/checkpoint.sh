#!/bin/sh
# Checkpoints as a user has them: a training that is ended at any time and goes on, with any number of workers, ends with the weights of
# one that nobody touched; what is wrong with a checkpoint, or with the wish to go on from it, is a sentence.
. "$(dirname "$0")/lib.sh"
small="mnist-mlp --limit-train 1280 --limit-test 200 --batch-size 64 --micro-batch 8 --epochs 4 --replicas 1 --optimizer adam --schedule cosine --warmup-epochs 1 --no-bind"
ckpt=$here/ckpt

digest_of() { sed -n 's/^Weights digest *//p' "$here/out"; }
same() {
    now=$(digest_of)
    [ "$now" = "$digest" ] || wrong "$what: the weights are $now, not $digest"
}
log_of() { cut -d, -f1-3,6,7 "$1"; } # of metrics, without times, and without what is found by evaluating
names() { (cd "$ckpt" && echo *); }

# begins OPTIONS...: a training without end, until its second epoch; $process is it.
begins() {
    : >"$here/out" # what another run wrote is not to be taken for this one's
    # shellcheck disable=SC2086 # several words
    "$lockstep" train $small --epochs 1000000 --schedule constant --checkpoint "$ckpt" --checkpoint-every 1h "$@" >"$here/out" 2>"$here/err" &
    process=$!
    tries=0
    until grep -q 'Epoch 2' "$here/out" || [ $tries -ge 300 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
}

# shellcheck disable=SC2086 # several words
{
    run 0 "$lockstep" train $small --validate --metrics "$here/whole.csv"
    digest=$(digest_of)

    # Taking them changes nothing; the last two epochs' are there, and the best.
    run 0 "$lockstep" train $small --checkpoint "$ckpt"
    same
    matches '^Checkpoints +4 written, of [0-9.]+ MB; training paused [0-9.]+ ms for each$'
    [ "$(names)" = "epoch-0003 epoch-0004" ] || wrong "$what: keeps $(names)"
    [ "$(cd "$ckpt/epoch-0004" && echo *)" = "first_moment.safetensors manifest.json second_moment.safetensors state.json weights.safetensors" ] ||
        wrong "$what: a checkpoint has other files"
    [ -z "$(find "$ckpt" -name '.*' ! -path "$ckpt")" ] || wrong "$what: leaves something behind"
    # One that is over has nothing left to do, and says what it came to.
    run 0 "$lockstep" train $small --checkpoint "$ckpt" --resume --record "$here/run.json"
    same
    says "resumed from $ckpt/epoch-0004: epoch 5"
    grep -q "\"resumed_from\": \"$ckpt/epoch-0004\"" "$here/run.json" || wrong "$what: its record does not say from where"

    # From each epoch's end, and from the middle of one; the log goes on as it was.
    rm -rf "$ckpt"
    run 0 "$lockstep" train $small --checkpoint "$ckpt" --checkpoint-every 7steps --keep 100 --keep-epochs 1,2
    same
    steps=$(cd "$ckpt" && echo step-*)
    [ "$(names)" = "epoch-0001 epoch-0002 epoch-0004 $steps" ] || wrong "$what: took $(names)"
    [ "$steps" = "$(printf 'step-%09d ' 7 14 21 28 35 42 49 56 63 70 77 | sed 's/ $//')" ] || wrong "$what: took $steps"
    first=step-000000007 last=step-000000077
    cp -r "$ckpt" "$here/all"
    for from in epoch-0001 $first step-000000042 $last; do
        rm -rf "$here/one"
        mkdir "$here/one"
        cp -r "$here/all/$from" "$here/one"
        run 0 "$lockstep" train $small --checkpoint "$here/one" --resume --validate --metrics "$here/rest.csv"
        same
        says "resumed from $here/one/$from: epoch "
        [ "$(log_of "$here/rest.csv")" = "$(log_of "$here/whole.csv")" ] || wrong "$what: its log is another one"
    done
    if [ -n "$mpirun" ]; then
        for layout in "2 parameter-server" "3 tree" "5 reduce-broadcast"; do
            rm -rf "$here/one"
            mkdir "$here/one"
            cp -r "$here/all/$first" "$here/one"
            run 0 "$lockstep" train $small --checkpoint "$here/one" --resume --workers "${layout% *}" --strategy "${layout#* }"
            same
        done
    fi

    # Where there is none yet it begins.
    run 0 "$lockstep" train $small --checkpoint "$here/none" --resume
    same
    # Asked to stop: the step is finished, a checkpoint written, and it says how to go on.
    rm -rf "$ckpt"
    begins
    kill -TERM $process
    wait $process
    [ $? -eq 75 ] || wrong "a training that was asked to stop does not end with 75"
    what="a training that was asked to stop"
    matches '^Stopped after step [0-9]+ of 20 in epoch [0-9]+ of 1000000, as asked to\.$'
    says "The same command with --resume goes on from there."
    [ "$(names | wc -w)" -eq 1 ] || wrong "$what: left $(names)"

    # So it is with several workers, whose launcher has nothing to add; and where a time limit stops them.
    if [ -n "$mpirun" ]; then
        rm -rf "$ckpt"
        begins --workers 2
        kill -TERM $process
        wait $process
        [ $? -eq 75 ] || wrong "workers that were asked to stop do not end with 75"
        what="workers that were asked to stop"
        matches '^Stopped after step [0-9]+ of 20 in epoch [0-9]+ of 1000000, as asked to\.$'
        matches '^Weights digest '
        complains "finishing the step and writing a checkpoint; asked once more, it ends at once"
        [ "$(grep -vc '^Starting workers as root' "$here/err")" -eq 1 ] || wrong "$what: somebody says more"
        run 75 "$lockstep" train $small --epochs 1000000 --schedule constant --workers 2 --checkpoint "$ckpt" --resume --time-limit 0:04
        says "The same command with --resume goes on from there."
        [ "$(grep -vc '^Starting workers as root' "$here/err")" -eq 0 ] || wrong "$what: somebody says more"
    fi

    # A worker dies: all start again from the newest.
    if [ -n "$mpirun" ]; then
        rm -rf "$ckpt"
        long="$small --epochs 160 --schedule constant"
        run 0 "$lockstep" train $long --workers 2 --no-evaluate
        digest=$(digest_of)
        "$lockstep" train $long --workers 2 --no-evaluate --checkpoint "$ckpt" --checkpoint-every 50steps --restarts 3 >"$here/out" 2>"$here/err" &
        process=$!
        for kill in 1 2; do
            tries=0
            until [ -n "$(ls "$ckpt" 2>/dev/null)" ] || [ $tries -ge 300 ]; do
                sleep 0.1
                tries=$((tries + 1))
            done
            sleep 0.$((kill * 3))
            victim=$(pgrep -f "train mnist-mlp.*--checkpoint $ckpt " | sort -n | tail -n 1)
            [ -n "$victim" ] && [ "$victim" != $process ] && kill -KILL "$victim"
            sleep 1
        done
        wait $process
        got=$?
        what="a training whose workers were killed"
        [ $got -eq 0 ] || wrong "$what: exit status $got"
        same
        complains "starting the workers again, from the newest checkpoint (restart 1 of 3)"
    fi

    # Another recipe is another training, unless that is what is wanted.
    cp -r "$here/all" "$here/kept"
    refuses 1 "was made by another recipe (--seed 42 -> 43, --lr unset -> 0.5)" "$lockstep" train $small --checkpoint "$here/kept" --resume --lr 0.5 --seed 43
    refuses 1 "has checkpoints of an earlier training, the newest epoch-0004" "$lockstep" train $small --checkpoint "$here/kept"
    run 0 "$lockstep" train $small --epochs 6 --schedule polynomial --resume-from "$here/all/epoch-0002" --checkpoint "$here/branch"
    says "not as it was there: --epochs 4 -> 6, --schedule cosine -> polynomial"
    refuses 1 "--checkpoint $here/branch has checkpoints already" "$lockstep" train $small --epochs 6 --schedule polynomial --resume-from "$here/all/epoch-0002" --checkpoint "$here/branch"
    run 0 "$lockstep" train $small --epochs 6 --schedule polynomial --resume-from "$here/all/epoch-0002" --checkpoint "$here/branch" --resume
    says "resumed from $here/branch/epoch-0006: epoch 7"
    # Lookahead may begin there: slow weights are the weights first, and half way to the fast ones after an epoch of 20 steps.
    if command -v python3 >/dev/null; then
        from="$small --epochs 3 --resume-from $here/all/epoch-0002"
        run 0 "$lockstep" train $from --save "$here/fast.safetensors"
        run 0 "$lockstep" train $from --save "$here/slow.safetensors" --lookahead 20 --lookahead-step 0.5
        run 0 python3 - "$here/all/epoch-0002/weights.safetensors" "$here/fast.safetensors" "$here/slow.safetensors" <<'TEXT'
import array, struct, sys
def values(path):
    data = open(path, "rb").read()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    return array.array("f", data[begin:])
first, fast, slow = map(values, sys.argv[1:])
assert max(abs(a - b) for a, b in zip(first, fast)) > 1e-3
assert max(abs((a + b) / 2 - c) for a, b, c in zip(first, fast, slow)) < 1e-6
TEXT
    fi
    refuses 1 "its optimizer is adam, and here it is sgd" "$lockstep" train mnist-mlp --optimizer sgd --resume-from "$here/all/epoch-0002"
    refuses 1 "cannot be gone on with: its global batch, in the middle of an epoch," "$lockstep" train $small --batch-size 32 --resume-from "$here/all/$first"
    refuses 1 "its remainder of an epoch, in the middle of one, is kept, and here it is dropped" "$lockstep" train $small --drop-remainder --resume-from "$here/all/$first"
    refuses 1 "its network is mnist-mlp, and here it is mnist-cnn" "$lockstep" train mnist-cnn --resume-from "$here/all/epoch-0002"
    refuses 1 "was trained on other samples than these" "$lockstep" train $small --checkpoint "$here/kept" --resume --data shapes --limit-test 200
    refuses 1 "goes on in epoch 5, and only 2 are asked for" "$lockstep" train $small --epochs 2 --resume-from "$here/all/epoch-0004"

    # Damage is found by its hash, and the one before is used.
    for damage in 'truncate -s -1 %/weights.safetensors' 'rm %/second_moment.safetensors' 'cp %/first_moment.safetensors %/second_moment.safetensors' 'sed -i s/position/positron/ %/state.json' 'truncate -s 10 %/manifest.json' 'sed -i s/sha/shb/ %/manifest.json'; do
        rm -rf "$here/kept"
        mkdir "$here/kept"
        cp -r "$here/all/epoch-0002" "$here/all/$last" "$here/kept"
        sh -c "$(echo "$damage" | sed "s|%|$here/kept/$last|g")"
        run 0 "$lockstep" train $small --checkpoint "$here/kept" --resume --epochs 4
        says "resumed from $here/kept/epoch-0002: epoch 3"
        complains "the one before is used, $here/kept/epoch-0002"
        refuses 1 "$here/kept/$last" "$lockstep" train $small --resume-from "$here/kept/$last"
    done
    rm -rf "$here/kept"
    mkdir "$here/kept"
    cp -r "$here/all/epoch-0002" "$here/all/$last" "$here/kept"
    rm "$here/kept/epoch-0002/weights.safetensors"
    truncate -s 100 "$here/kept/$last/first_moment.safetensors"
    refuses 1 "none of the 2 checkpoints in $here/kept is whole; of the newest: $here/kept/$last/first_moment.safetensors is damaged: it has 100 bytes" \
        "$lockstep" train $small --checkpoint "$here/kept" --resume
    sed 's/"format_version": 1/"format_version": 2/' "$here/all/epoch-0002/state.json" >"$here/newer"
    refuses 1 "there is no checkpoint $here/nowhere" "$lockstep" train $small --resume-from "$here/nowhere"
    refuses 1 "is a file, and a checkpoint is a folder" "$lockstep" train $small --resume-from "$here/newer"
    refuses 1 "there is no checkpoint in $here" "$lockstep" train $small --resume-from "$here"

    # Training that no longer gets better ends, with the weights of the best epoch; gone on with it ends in the same way.
    stops="mnist-mlp --limit-train 640 --limit-test 300 --epochs 60 --optimizer sgd --lr 0.3 --replicas 1 --no-bind --early-stop 3 --restore-best"
    run 0 "$lockstep" train $stops --checkpoint "$here/best" --save "$here/best.safetensors"
    best=$(sed -n 's/^Best epoch *\([0-9]*\), .*; the weights are those after it$/\1/p' "$here/out")
    [ -n "$best" ] || wrong "$what: does not stop early"
    cmp -s "$here/best.safetensors" "$here/best/epoch-$(printf %04d "$best")/weights.safetensors" || wrong "$what: saves other weights"
    accuracy=$(sed -n 's/^Best epoch *[0-9]*, \([0-9.]*\) %.*/\1/p' "$here/out")
    matches "^Test accuracy +$accuracy %\$"
    digest=$(digest_of)
    run 0 "$lockstep" train $stops --resume-from "$here/best/epoch-$(printf %04d "$best")" --checkpoint "$here/again"
    matches "^Best epoch +$best, $accuracy %\$"
    last=$(basename "$(ls -d "$here/best"/epoch-* | tail -n 1)") # the one after which it stopped
    run 0 "$lockstep" train $stops --checkpoint "$here/best" --resume
    same
    [ "$(basename "$(ls -d "$here/best"/epoch-* | tail -n 1)")" = "$last" ] || wrong "$what: trains beyond where it stopped"
    rm -r "$here/best/epoch-$(printf %04d "$best")"
    run 0 "$lockstep" train $stops --checkpoint "$here/best" --resume
    complains "of the best epoch, is not there: the weights are those of the last"
    # Where nothing is told apart, the loss is what gets better: with this rate it does not after a while.
    run 0 "$lockstep" train autoencoder --data synthetic:12x12x1,10,40,20 --batch-size 20 --micro-batch 4 --epochs 40 --optimizer sgd --lr 0 \
        --early-stop 2 --restore-best --checkpoint "$here/blurred" --replicas 1
    matches '^Best epoch +1, loss [0-9.]+; the weights are those after it$'
    refuses 2 "--restarts starts workers again that this program has started" "$lockstep" train $small --checkpoint "$ckpt" --restarts 3
    refuses 2 "--restore-best takes them from a checkpoint" "$lockstep" train $stops

    # Numbers that are none: nothing of them is kept, and what was good is.
    run 1 "$lockstep" train $small --optimizer sgd --schedule constant --warmup-epochs 0 --lr 1e10 --checkpoint "$here/bad" --checkpoint-every 1steps
    complains "training diverged: the loss of step"
    for one in "$here/bad"/*/; do
        [ ! -d "$one" ] || grep -q '"all_steps": [0-9],' "$one/state.json" || wrong "$what: keeps what has diverged"
    done

    # Asked for in words that say nothing.
    refuses 2 "--resume: of which checkpoints?" "$lockstep" train $small --resume
    refuses 2 "--restarts: of which checkpoints?" "$lockstep" train $small --restarts 3
    for every in 0s 5 1.5steps many -1m 3days; do
        refuses 2 "--checkpoint-every: expected a number with" "$lockstep" train $small --checkpoint "$ckpt" --checkpoint-every "$every"
    done
    refuses 1 "epochs to keep are a list like 30,60,85" "$lockstep" train $small --checkpoint "$here/new" --keep-epochs 3,x
    refuses 1 "cannot keep checkpoints in $here/newer: " "$lockstep" train $small --checkpoint "$here/newer"
    refuses 1 "cannot keep checkpoints in $here/newer/folder: Not a directory" "$lockstep" train $small --checkpoint "$here/newer/folder"

    # A disk that is full: training goes on, the checkpoint that there is stays whole, and the end says that one is missing.
    if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
        mkdir "$here/disk"
        # shellcheck disable=SC2016 # for the inner shell
        run 1 unshare -m sh -c 'mount -t tmpfs -o size=1900k tmpfs "$1" && shift && "$@"; code=$?; ls "$0"; exit $code' "$here/disk/ckpt" "$here/disk" \
            "$lockstep" train $small --checkpoint "$here/disk/ckpt" --keep 9
        complains "No space left on device; the one before stays, and training goes on"
        complains "training is done, but not all its checkpoints were written"
        says "Weights digest"
        says "epoch-0001"
    fi
}
finish
