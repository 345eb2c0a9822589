#!/bin/sh
# 'lockstep report': tables, charts and page from records, and what it says of folders and files that are none.
. "$(dirname "$0")/lib.sh"
out=$here/report

for seed in 1 2; do
    run 0 "$lockstep" train mnist-mlp --limit-train 640 --limit-test 100 --epochs 2 --verbose 0 --seed $seed \
        --record "$here/$seed.json"
done

# Records alone: tables only, unless a folder is named.
run 0 "$lockstep" report "$here/1.json"
says "Speedup"
[ -e "$here/index.html" ] && wrong "writes a page that nobody asked for"

# No line is longer than the terminal: what does not fit stands below.
for columns in 60 80 200; do
    run 0 env COLUMNS=$columns "$lockstep" report "$here/1.json" "$here/2.json"
    awk -v most=$columns 'length > most { exit 1 }' "$here/out" || wrong "a line is longer than $columns columns"
done

# Charts in the terminal, in what its locale has.
run 0 env LC_ALL=C "$lockstep" report "$here/1.json" --terminal
matches '^  1 worker #+ [0-9.]+$'
if locale -a 2>/dev/null | grep -qix 'c\.utf-\{0,1\}8'; then
    run 0 env LC_ALL=C.UTF-8 COLUMNS=70 "$lockstep" report "$here/1.json" --terminal
    says "  1 worker ███████████████████████████████████████████████ " # 47, what is left of 70 columns
    says "Where a step's time goes (ms)"
fi

# Without gnuplot everything but the pictures is there, and a hint.
run 0 env PATH="$here" "$lockstep" report "$here/1.json" "$here/2.json" --out "$out"
says "$out/index.html"
says "gnuplot-nox"
for file in index.html results.csv results.md charts/epoch-time.gp charts/epoch-time.dat; do
    [ -s "$out/$file" ] || wrong "no $file"
done
[ -e "$out/charts/epoch-time.svg" ] && wrong "a chart without gnuplot"
grep -q "gnuplot was not found" "$out/index.html" || wrong "the page does not say why it has no charts"

if command -v gnuplot >/dev/null; then
    run 0 "$lockstep" report "$here/1.json" --out "$out/"
    says "$out/index.html"
    grep -q gnuplot-nox "$here/out" && wrong "a hint that is not needed"
    for chart in phases learning loss; do
        for suffix in gp dat svg png; do
            [ -s "$out/charts/$chart.$suffix" ] || wrong "no $chart.$suffix"
        done
    done
    [ -e "$out/charts/speedup.svg" ] && wrong "a speedup from one number of workers"
    grep -q "<figure>" "$out/index.html" || wrong "the charts are not on the page"
    # The scripts work by themselves.
    rm "$out/charts/phases.svg"
    (cd "$out/charts" && gnuplot phases.gp) >"$here/out" 2>"$here/err" || wrong "phases.gp"
    [ -s "$out/charts/phases.svg" ] || wrong "phases.gp draws nothing"
fi

if command -v gnuplot >/dev/null; then
    run 0 "$lockstep" report "$here/1.json" "$here/2.json" --out "$out" --slides
    says "The slides: $out/charts/slides.pdf"
    head -c 4 "$out/charts/slides.pdf" | grep -q '%PDF' || wrong "the slides are no PDF"
fi
refuses 1 "--slides: where to?" "$lockstep" report "$here/1.json" --slides

refuses 2 "which study?" "$lockstep" report
refuses 2 "unknown option --outt; did you mean --out?" "$lockstep" report "$here/1.json" --outt x
refuses 1 "No such file or directory" "$lockstep" report "$here/none.json"
mkdir "$here/empty"
refuses 1 "is not a study" "$lockstep" report "$here/empty"
sed 's/"lockstep_run": 1/"lockstep_run": 99/' "$here/1.json" >"$here/later.json"
refuses 1 "later.json is a record of format 99" "$lockstep" report "$here/later.json"
echo '{"a": 1}' >"$here/other.json"
refuses 1 "other.json is not the record of a run" "$lockstep" report "$here/other.json"

# Tables that were asked for are printed even where nothing can be written.
echo >"$here/file"
run 1 "$lockstep" report "$here/1.json" --out "$here/file/x"
complains "cannot make the folder $here/file/x"
run 1 "$lockstep" report "$here/1.json" --out "$here/file"
complains "$here/file"
[ "$(grep -c '^lockstep' "$here/err")" -eq 1 ] || wrong "should say one sentence"

run 0 "$lockstep" report --help
says "--out"
finish
