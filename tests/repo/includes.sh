# The include directions of docs/design.md hold, and the script that says so is able to say no.
set -eu
tools/check-includes

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
checker=$PWD/tools/check-includes

# must_fail FILE INCLUDE WORDS: a tree with just this include is refused in these words.
must_fail() {
    rm -rf "$tree/src" "$tree/include"
    mkdir -p "$tree/src" "$tree/include" "$tree/$(dirname "$1")"
    echo "#include $2" >"$tree/$1"
    if said=$("$checker" "$tree"); then
        echo "tools/check-includes accepted $2 in $1"
        exit 1
    fi
    case $said in
        *"$1:1: "*"$3"*) ;;
        *) echo "tools/check-includes refused $2 in $1 in other words: $said"; exit 1 ;;
    esac
}
must_pass() {
    rm -rf "$tree/src" "$tree/include"
    mkdir -p "$tree/src" "$tree/include" "$tree/$(dirname "$1")"
    echo "#include $2" >"$tree/$1"
    "$checker" "$tree"
}
must_fail src/base/a.c '"tensor/tensor.h"' 'base/ may not know tensor/'
must_fail src/data/a.c '"comm/comm.h"' 'data/ may not know comm/'
must_fail src/graph/ops/a.c '"step/engine.h"' 'graph/ may not know step/'
must_fail src/models/a.c '"comm/comm.h"' 'models/ may not know comm/'
must_fail src/train/a.h '"cli/cli.h"' 'train/ may not know cli/'
must_fail src/base/a.c '"error.h"' 'does not begin with a room'
must_fail src/attic/a.c '"base/error.h"' 'is no room'
must_fail src/step/a.c '<mpi.h>' 'belongs to src/comm/'
must_fail src/graph/a.c '<oneapi/dnnl/dnnl.h>' 'belongs to src/device/cpu/'
must_fail include/lockstep/a.h '<mpi.h>' 'belongs to src/comm/'
must_fail include/lockstep/a.h '"base/error.h"' 'public headers'
must_fail src/tensor/a.c '<lockstep/graph.h>' 'tensor/ may not know graph/'
must_fail src/device/a.h '<lockstep/graph.h>' 'device/ may not know graph/'
must_fail src/models/a.c '<lockstep/train.h>' 'models/ may not know train/'
for room in train comm graph data device models mesh step async optim; do
    must_fail src/cli/a.c "\"$room/a.h\"" "cli/ may not know $room/"
    must_fail src/report/a.h "\"$room/a.h\"" "report/ may not know $room/"
done
must_fail src/report/a.c '"cli/cli.h"' 'report/ may not know cli/'
must_fail src/cli/a.c '<lockstep/more.h>' 'is in no room'
must_fail src/step/a.c '<lockstep/data.h>' 'step/ may not know data/'
must_fail src/train/a.c '<lockstep/lockstep.h>' 'train/ may not know cli/'
must_fail src/base/a.c '<lockstep/tensor.h>' 'base/ may not know tensor/'
must_fail src/train/a.c '<lockstep/more.h>' 'is in no room'
must_fail include/lockstep/graph.h '<lockstep/train.h>' 'may not know train/'
must_pass include/lockstep/train.h '<lockstep/graph.h>'
must_pass include/lockstep/lockstep.h '<lockstep/train.h>'
must_pass src/device/a.h '<lockstep/attrs.h>'
must_pass src/models/a.c '<lockstep/graph.h>'
must_pass src/cli/a.c '<lockstep/lockstep.h>'
must_pass src/cli/a.c '"report/record.h"'
must_pass src/cli/a.c '"base/error.h"'
must_pass src/report/a.c '<lockstep/train.h>'
must_pass src/comm/a.c '<mpi.h>'
must_pass src/train/a.c '"base/error.h"'
must_pass src/step/a.c '"device/device.h"'
