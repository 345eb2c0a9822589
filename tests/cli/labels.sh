#!/bin/sh
# Several labels at once, from a table of files to ROC curves: the same numbers for any number of workers, in train, record, evaluate and report.
# labels.sh LOCKSTEP WRITE_XRAYS MPIRUN..., the latter left out where the build has no MPI.
. "$(dirname "$0")/lib.sh"
write=$1
shift
"$write" "$here/set" 150 24 || wrong "no images"
set="csv:$here/set/train.csv,test=$here/set/test.csv,channels=1"
# A small network, said in its own words.
cat >"$here/small.net" <<'END'
network small
classes 14
input 24x24x1
conv2d filters=8 kernel_size=3 strides=2 activation=relu
conv2d filters=12 kernel_size=3 strides=2 activation=relu
flatten
dense units=classes
END
options="--epochs 1 --batch-size 40 --micro-batch 8 --verbose 2 --validate"
# shellcheck disable=SC2086
run 0 "$lockstep" train "$here/small.net" --data "$set" $options --positive-weight 2 --record "$here/one.json" --checkpoint "$here/runs/of/labels"
matches ' - val_loss: [0-9.]+ - val_accuracy: [0-9.]+ - val_auc: 0\.[0-9]+$'
matches '^Test area under ROC +0\.[0-9]{4} \(mean of 14 labels\)$'
matches '^Atelectasis +[0-9]+ +[01]\.[0-9]{4} '
digest=$(sed -n 's/^Weights digest *//p' "$here/out")
grep -q '"name": "Hernia"' "$here/one.json" || wrong "the record has no labels"
area=$(sed -n 's/^ *"test_area": \([0-9.]*\),*$/\1/p' "$here/one.json")
[ -n "$area" ] || wrong "the record has no mean area"
# The area tells the best epoch: with a rate of 0 it is the first one's.
# shellcheck disable=SC2086
run 0 "$lockstep" train "$here/small.net" --data "$set" $options --epochs 9 --optimizer sgd --lr 0 --early-stop 1 --restore-best --checkpoint "$here/best"
matches '^Best epoch +1, area under ROC 0\.[0-9]{4}; the weights are those after it$'
# Numbers do not depend on workers.
if [ $# -gt 0 ]; then
    # shellcheck disable=SC2086
    run 0 "$lockstep" train "$here/small.net" --data "$set" $options --positive-weight 2 --record "$here/two.json" --workers 3 --replicas 1
    [ "$(sed -n 's/^Weights digest *//p' "$here/out")" = "$digest" ] || wrong "three workers, other weights"
    for key in test_loss test_accuracy test_area area precision recall; do
        grep "\"$key\":" "$here/one.json" >"$here/a"
        grep "\"$key\":" "$here/two.json" >"$here/b"
        cmp -s "$here/a" "$here/b" || wrong "three workers find another $key"
    done
fi
# evaluate finds the same areas, and writes what they come from.
run 0 "$lockstep" evaluate "$here/runs/of/labels" --json "$here/e.json" --csv "$here/e.csv" --out "$here/some/curves"
matches '^Area under the ROC curve +0\.[0-9]{4} '
areas() { sed -n 's/^ *"area": \([0-9.]*\),*$/\1/p' "$1" | awk '{ printf "%.12f\n", $1 }'; }
areas "$here/e.json" | tail -n +2 >"$here/a" # the first is their mean
areas "$here/one.json" >"$here/b"
cmp -s "$here/a" "$here/b" || wrong "evaluate finds other areas"
[ "$(wc -l <"$here/e.csv")" -eq 15 ] || wrong "not a head and a line for each label"
[ "$(wc -l <"$here/some/curves/scores.csv")" -eq 30 ] || wrong "not a line for each sample"
[ "$(head -n 1 "$here/some/curves/scores.csv" | tr , '\n' | wc -l)" -eq 28 ] || wrong "not a score and a truth for each label"
tail -n 1 "$here/some/curves/roc.svg" | grep -q '</svg>' || wrong "half a picture"
# Labels of the same number in another order are not the checkpoint's.
sed '1!s/Atelectasis/Thickening/g' "$here/set/test.csv" >"$here/set/other.csv"
refuses 1 "label 0 is Atelectasis in the checkpoint and Cardiomegaly in csv:" "$lockstep" evaluate "$here/runs/of/labels" --data "csv:$here/set/other.csv,channels=1" --split train
# predict tells each label by itself.
run 0 "$lockstep" predict "$here/runs/of/labels" "$here/set/images/00001.png" --top 14 --csv "$here/p.csv"
awk -F, 'NR > 1 { n++; if ($5 < 0 || $5 > 1) exit 1; sum += $5 } END { exit !(n == 14) }' "$here/p.csv" || wrong "no probabilities"
# The report has a table, and a chart where gnuplot is.
run 0 "$lockstep" report "$here/one.json" --out "$here/report"
grep -q 'What was found of each label' "$here/report/index.html" || wrong "the page has no table of labels"
grep -q 'Emphysema: 0\.' "$here/report/charts/roc.gp" || wrong "no script of the curves"
if command -v gnuplot >/dev/null; then
    grep -q 'charts/roc.svg' "$here/report/index.html" || wrong "no chart of the curves"
fi
refuses 1 "tells 13 labels apart, dataset csv has 14" "$lockstep" train mnist-mlp --data "$set" --classes 13
refuses 1 "leave it at 1" "$lockstep" train mnist-mlp --data digits --positive-weight 2
finish
