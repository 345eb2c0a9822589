#!/bin/sh
# One digest for any number of threads, with replicas and workers, fp32 and bf16. usage: threads.sh LOCKSTEP [full]: full also trains resnet50v2
# and more pairs of them (some minutes on two cores).
set -u
lockstep=$1
full=${2:-}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
unset OMPI_COMM_WORLD_SIZE PMI_SIZE PMIX_RANK 2>/dev/null
failed=0

digest() {
    # shellcheck disable=SC2086 # the recipe is several words
    if ! "$lockstep" train $recipe --verbose 0 --no-evaluate --epochs 1 --record "$out/run.json" "$@" >"$out/log" 2>&1; then
        cat "$out/log" >&2
        return 1
    fi
    grep -E '^ *"(weights_digest|train_loss)"' "$out/run.json" | tr -d '\n'
}

for precision in fp32 bf16; do
    for model in mnist-cnn resnet20 ${full:+resnet50v2 mobilenetv2}; do
        case $model in
        mnist-cnn) recipe="mnist-cnn --batch-size 52 --micro-batch 13 --limit-train 110" ;;
        resnet20) recipe="resnet20 --data shapes --batch-size 40 --micro-batch 10 --limit-train 70 --optimizer sgd" ;;
        *) recipe="$model --data shapes --image-size 32 --batch-size 24 --micro-batch 6 --limit-train 24 --optimizer sgd" ;;
        esac
        recipe="$recipe --precision $precision"
        if ! expected=$(digest --replicas 1 --threads 1); then
            grep -q "needs a CPU with native bfloat16" "$out/log" && echo "SKIPPED: $precision (this CPU has none)" && continue 2
            exit 1
        fi
        # workers, replicas, threads
        for how in 1,2,3 2,1,4 ${full:+1,1,2 1,1,8 1,1,3 1,1,4 1,2,2 2,2,2 1,4,8 2,1,3 4,1,2 1,1,16 1,1,56}; do
            IFS=, read -r workers replicas threads <<END
$how
END
            got=$(digest --workers "$workers" --replicas "$replicas" --threads "$threads") || { failed=1; continue; }
            if [ "$got" = "$expected" ]; then
                echo "ok: $model, $precision: $workers workers x $replicas replicas x $threads threads"
            else
                echo "DIFFERS: $model, $precision: $workers workers x $replicas replicas x $threads threads: $got, expected $expected" >&2
                failed=1
            fi
        done
    done
done
exit $failed
