#!/bin/sh
# big_index.sh PROGRAM [FILES [CLASSES]]: how long it takes to begin with a folder of so many files (1,280,000 in 1,000 classes, as ImageNet), when it is listed and when its index
# was kept. The files of a class are hard links to one small JPEG. By hand: takes minutes, needs python3, and 1.3 million names in TMPDIR or /tmp. Nothing is taken out of the
# system's caches, which other programs use too: on a file system that is not cached listing takes far longer, and reading what was kept does not.
set -eu
program=$1
files=${2:-1280000}
classes=${3:-1000}
here=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-index.XXXXXX")
trap 'rm -rf "$here"' EXIT
export XDG_CACHE_HOME="$here/cache"

"$program" convert synthetic:32x32x3,2,2,0 "images:$here/one" --quality 80 >/dev/null
python3 - "$here" "$files" "$classes" <<'PYTHON'
import os, shutil, sys
here, files, classes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
one = next(os.path.join(d, f) for d, _, names in os.walk(here + "/one") for f in names)
for c in range(classes):
    folder = f"{here}/data/n{c:08d}"
    os.makedirs(folder)
    first = f"{folder}/first.jpg"
    shutil.copy(one, first)
    for i in range((files - c - 1) // classes):
        os.link(first, f"{folder}/{i:08d}.jpg")
PYTHON
# Nothing younger than two seconds is kept.
find "$here/data" -type d -exec touch -d 2020-02-02 {} +

# look WORD SECONDS: opens the dataset, and reads one sample of it.
look() {
    start=$(date +%s.%N)
    LOCKSTEP_INDEX_SECONDS=$2 "$program" data "images:$here/data" --samples 1 --no-storage --no-decode >"$here/out"
    awk -v a="$start" -v b="$(date +%s.%N)" -v word="$1" 'BEGIN { printf "%s: %.2f s\n", word, b - a }'
    grep -E '^samples' "$here/out"
}
look "listed" never
look "listed, and the index kept" 0
du -h "$here/cache/lockstep" | awk '{ print "the index: " $1 }'
look "from the kept index" never
