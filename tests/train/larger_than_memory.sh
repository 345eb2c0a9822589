#!/bin/sh
# larger_than_memory.sh PROGRAM [IMAGES [MB]]: makes a synthetic ImageNet of so many JPEG files of 375 x 500 pixels, trains on it in less memory than it has bytes, and
# tells how fast, beside the loader alone. With a control group of MB megabytes where this user may make one (the kernel's cache of files counts in it), else
# by the process's own peak alone. By hand: takes minutes. 20000 images are about 3.4 GB on the disk, in TMPDIR or /tmp.
set -eu
program=$1
images=${2:-2000}
most=${3:-300}
here=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-larger.XXXXXX")
group=/sys/fs/cgroup/lockstep-larger-$$
trap 'rm -rf "$here"; rmdir "$group" 2>/dev/null || true' EXIT

"$program" convert "synthetic:375x500x3,10,$images,0" "images:$here/data" --quality 90 --workers 2
bytes=$(du -sk "$here/data" | cut -f 1)
echo "$images images, $((bytes / 1024)) MB; at most $most MB of memory"
[ "$bytes" -gt $((most * 1024)) ] || { echo "they fit into memory: ask for more images" >&2; exit 1; }

confined=""
if mkdir "$group" 2>/dev/null && echo "${most}M" >"$group/memory.max" 2>/dev/null; then
    confined=yes
    echo 0 >"$group/memory.swap.max" 2>/dev/null || true
else
    rmdir "$group" 2>/dev/null || true
    echo "no control group can be made here: the peak of the process is looked at"
fi
# Runs in the group, where there is one; another process is moved there, so that this one is not.
confine() {
    if [ -n "$confined" ]; then
        sh -c "echo \$\$ >$group/cgroup.procs; exec \"\$@\"" sh "$@"
    else
        "$@"
    fi
}

confine "$program" bench data "images:$here/data" --augment resized-crop,flip --seconds 5
confine "$program" train mnist-linear --data "images:$here/data" --image-size 224 --augment resized-crop,flip --epochs 1 --batch-size 64 --replicas 1 \
    --no-evaluate --verbose 2 --record "$here/record.json"
peak=$(sed -n 's/^ *"peak_rss_bytes": \([0-9]*\).*/\1/p' "$here/record.json")
if [ -z "$peak" ] || [ "$peak" -ge $((most * 1000000)) ]; then
    echo "the peak was $peak bytes" >&2
    exit 1
fi
echo "peak $((peak / 1000000)) MB: less than the data have"
