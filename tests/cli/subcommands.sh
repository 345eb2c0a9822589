#!/bin/sh
# Every subcommand, run once with what makes it do most: under the sanitizers (ctest --preset asan-mpi) none is left out. A command
# that the program lists and this file does not run is a failure.
. "$(dirname "$0")/lib.sh"

ran=""
# does COMMAND ARGUMENTS...: runs it and remembers that it was run.
does() {
    ran="$ran $1"
    run 0 "$lockstep" "$@"
}

does train mnist-mlp --limit-train 256 --limit-test 50 --epochs 2 --validate --verbose 2 --record "$here/run.json" --trace "$here/trace" \
    --metrics "$here/run.csv" --tensorboard "$here/events" --save "$here/weights"
does train mnist-mlp --weights "$here/weights" --limit-train 128 --limit-test 50 --epochs 1
does summary resnet20
does models
does datasets
does data digits --samples 50 --sheet "$here/sheet.png" --json "$here/data.json"
does convert digits "tar:$here/digits.tar,test=$here/digits-test.tar"
does data "tar:$here/digits.tar,test=$here/digits-test.tar" --samples 50
does plan mnist-mlp --memory 1G --batch-size 64
does bench mnist-mlp --layers --steps 4 --batch-size 64 --micro-batch 16
says "A micro-batch"
does bench mnist-mlp --json --no-floor --steps 4 --batch-size 64 --micro-batch 16
does bench data digits --seconds 0.2 --augment flip --batch-size 8
says "of a processor second"
does bench data digits --seconds 0.2 --json --loader-threads 2
says '"images_per_second_per_thread"'
if [ -n "$mpirun" ]; then
    does bench exchange --to 64 --workers 2
    matches '^ +64  +[0-9.]+ .* [0-9.]+$'
    does bench exchange --to 4 --workers 2 --json
    says '"allreduce_over_step"'
    does scale mnist-mlp --data digits --workers 1,2 --out "$here/study" --limit-train 256 --epochs 1
    does scale mnist-mlp --data digits --workers 1,2 --out "$here/study" --limit-train 256 --epochs 1
    says "2 of them are done already"
    does scale mnist-mlp --compare lr=0.1,0.2 --workers 1 --out "$here/sweep" --limit-train 256 --epochs 1 --terminal
    run 1 "$lockstep" scale mnist-mlp --workers 1 --out "$here/late" --limit-train 256 --epochs 100000 --timeout 1
    says "FAILED: it took longer"
fi
does gan --data synthetic:8x8x1,10,16,4 --epochs 1 --batch-size 8 --samples "$here/drawn" --save "$here/gan.safetensors"
says "generator loss: "
does gan --grow 2 --data synthetic:8x8x1,10,16,4 --epochs 2 --batch-size 8 --samples "$here/grown" --save "$here/grown.safetensors"
says "Stage 1/2: images of 4 x 4"
says "Stage 2/2: images of 8 x 8"
[ -s "$here/grown/epoch-0002.png" ] || wrong "no picture of the second stage"
refuses 1 "begins, and there is only" "$lockstep" gan --grow 2 --data synthetic:64x64x1,10,16,4 --epochs 2 --device ref --threads 1 --batch-size 1000000 --micro-batch 1000000
refuses 1 "and there are only" "$lockstep" gan --data synthetic:64x64x1,10,16,4 --epochs 1 --threads 2 --batch-size 1000000 --micro-batch 1000000
complains " MB (Activations: "
refuses 1 "give --epochs 2 or more" "$lockstep" gan --grow 2 --data synthetic:8x8x1,10,16,4 --epochs 1
refuses 1 "whose sides 4 divides, of 16 pixels" "$lockstep" gan --grow 3 --data synthetic:8x8x1,10,16,4
does report "$here/run.json" --out "$here/page"
does report "$here/trace"
does train mnist-mlp --limit-train 256 --limit-test 50 --epochs 1 --verbose 0 --checkpoint "$here/kept"
does evaluate "$here/kept"
does inspect "$here/kept"
does export "$here/kept" "$here/kept.onnx"
does summary "$here/kept.onnx"
run 1 "$lockstep" predict "$here/kept" "$here/run.json" # predict.sh has pictures
complains "run.json"
ran="$ran predict"
does check
does slurm train mnist-mlp --epochs 1
does batch train mnist-mlp --epochs 1
for command in $("$lockstep" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    case "$ran help " in
    *" $command "*) ;;
    *) [ "$command" = scale ] && [ -z "$mpirun" ] || wrong "$command is not run" ;;
    esac
done
finish
