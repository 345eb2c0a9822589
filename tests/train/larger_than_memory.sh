#!/bin/sh
# larger_than_memory.sh PROGRAM [IMAGES [MB [WORDS...]]]: makes a synthetic ImageNet of so many JPEG files of 375 x 500 pixels, trains on it in less memory than it has bytes,
# and tells how fast, beside the loader alone. With a control group of MB megabytes where this user may make one (version 2, or version 1's `memory`; the kernel's cache of
# files counts in it), else by the process's own peak alone. WORDS are options of training, as --cache 400M. By hand: takes minutes. 20000 images are about 2.9 GB on the disk,
# in TMPDIR or /tmp; LOCKSTEP_IMAGES=DIR names a folder that has them already. LOCKSTEP_KIND=numpy or hdf5: an array of their pixels in place of files, 560 kB each.
set -eu
program=$1
images=${2:-2000}
most=${3:-300}
[ $# -lt 3 ] && shift $# || shift 3
here=$(mktemp -d "${TMPDIR:-/tmp}/lockstep-larger.XXXXXX")
group=""
trap 'rm -rf "$here"; [ -z "$group" ] || rmdir "$group"' EXIT

data=${LOCKSTEP_IMAGES:-$here/data}
kind=${LOCKSTEP_KIND:-images}
quality="--quality 90"
[ "$kind" = images ] || quality=""
# shellcheck disable=SC2086
[ -e "$data" ] || "$program" convert "synthetic:375x500x3,10,$images,0" "$kind:$data" $quality --workers 2
bytes=$(du -sk "$data" | cut -f 1)
echo "$images images, $((bytes / 1024)) MB; at most $most MB of memory"
[ "$bytes" -gt $((most * 1024)) ] || [ -n "${LOCKSTEP_IMAGES:-}" ] || { echo "they fit into memory: ask for more images" >&2; exit 1; }

# A group with a limit; no other file has these names, so that one that is not there is not made.
try() {  # FOLDER LIMIT
    group=$1/lockstep-larger-$$
    if mkdir "$group" 2>/dev/null; then
        [ -f "$group/$2" ] && echo "${most}M" >"$group/$2" 2>/dev/null && return 0
        rmdir "$group"
    fi
    group=""
    return 1
}
if try /sys/fs/cgroup memory.max || try /sys/fs/cgroup/unified memory.max || try /sys/fs/cgroup/memory memory.limit_in_bytes; then
    [ ! -f "$group/memory.swap.max" ] || echo 0 >"$group/memory.swap.max" 2>/dev/null || true
    echo "in a control group, $group"
else
    echo "no control group can be made here: the peak of the process is looked at"
fi
# Runs in the group, where there is one; another process is moved there, so that this one is not.
confine() {
    if [ -n "$group" ]; then
        sh -c "echo \$\$ >$group/cgroup.procs; exec \"\$@\"" sh "$@"
    else
        "$@"
    fi
}

confine "$program" bench data "$kind:$data" --augment resized-crop,flip --seconds 5
confine "$program" train mnist-linear --data "$kind:$data" --image-size 224 --augment resized-crop,flip --epochs "${LOCKSTEP_EPOCHS:-1}" --batch-size 64 --replicas 1 \
    --no-evaluate --verbose 2 --record "$here/record.json" "$@"
peak=$(sed -n 's/^ *"peak_rss_bytes": \([0-9]*\).*/\1/p' "$here/record.json")
if [ -z "$peak" ] || [ "$peak" -ge $((most * 1000000)) ]; then
    echo "the peak was $peak bytes" >&2
    exit 1
fi
echo "peak $((peak / 1000000)) MB: less than the data have"
