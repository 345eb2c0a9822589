# ref_digests.sh PROGRAM: the digests of device ref are those of ref_digests.txt, and the program of docs/bits.md computes them.
set -eu
here=$(dirname "$0")
found=$(mktemp)
trap 'rm -f "$found" "$found".*' EXIT
sh "$here/digests.sh" "$1" ref >"$found"
diff "$here/ref_digests.txt" "$found" || {
    echo "other bits than before (> is now). If they are meant to be: digests.sh PROGRAM ref >tests/train/ref_digests.txt"
    exit 1
}

command -v python3 >/dev/null || exit 0
"$1" train mnist-mlp --data digits --device ref --epochs 1 --batch-size 16 --limit-train 16 --no-evaluate \
    --save "$found.safetensors" --record "$found.json" --verbose 0
sed -n '/^```python/,/^```/p' "$here/../../docs/bits.md" | sed '/^```/d' >"$found.py"
digest=$(python3 "$found.py" "$found.safetensors")
grep -q "\"weights_digest\": \"$digest\"" "$found.json" || { echo "docs/bits.md computes another digest: $digest"; exit 1; }
