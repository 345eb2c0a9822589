# ref_digests.sh PROGRAM: the digests of device ref are those of ref_digests.txt.
set -eu
here=$(dirname "$0")
found=$(mktemp)
trap 'rm -f "$found"' EXIT
sh "$here/digests.sh" "$1" ref >"$found"
diff "$here/ref_digests.txt" "$found" || {
    echo "other bits than before (> is now). If they are meant to be: digests.sh PROGRAM ref >tests/train/ref_digests.txt"
    exit 1
}
