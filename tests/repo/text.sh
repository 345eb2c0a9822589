# No unfinished marks and no paths of somebody's machine in the files of the repository; no source file beyond a size that
# one can read in one sitting (that one only warns).
set -eu
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || { echo "not a git checkout"; exit 77; }

# The words are put together here so that this file does not match itself.
marks="TO""DO|FIX""ME|X""XX|HA""CK"
homes="/ho""me/[a-z]|/ro""ot/|/Us""ers/[A-Za-z]|/wo""rk/"
status=0
if git grep -nIwE "$marks" -- src include tests bench examples tools docs '*.md' CMakeLists.txt Makefile; then
    echo "unfinished marks: finish it, or write it down as an issue"
    status=1
fi
if git grep -nIE "(^|[^A-Za-z0-9_.}])($homes)" -- . ':!LICENSE'; then
    echo "absolute paths of one machine: make them relative, or a setting"
    status=1
fi
git ls-files '*.c' '*.h' | xargs wc -l | awk '$2 != "total" && $1 > 600 {print "warning: " $2 " has " $1 " lines: one idea, or several?"}'
exit $status
