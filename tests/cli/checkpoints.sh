# shellcheck shell=sh disable=SC2154 # `here` is lib.sh's
# Checkpoints for tests, made of a file of weights: what a training run leaves behind.

# listed FOLDER FILE: its line of a manifest.
listed() { printf '"%s": {"bytes": %s, "sha256": "%s"}' "$2" "$(wc -c <"$1/$2" | tr -d ' ')" "$(sha256sum "$1/$2" | cut -d' ' -f1)"; }

# manifest FOLDER FILE...: written last.
manifest() {
    folder=$1
    shift
    {
        printf '{"files": {'
        comma=
        for file in "$@"; do
            printf '%s' "$comma"
            listed "$folder" "$file"
            comma=', '
        done
        printf '}}\n'
    } >"$folder/manifest.json"
}

# checkpoint FOLDER WEIGHTS STEPS RECIPE [KEYS]: RECIPE an object; KEYS more of state.json, with a comma in front.
checkpoint() {
    mkdir -p "$1"
    cp "$2" "$1/weights.safetensors"
    cp "$2" "$1/momentum.safetensors"
    cat >"$1/state.json" <<TEXT
{"format": "lockstep checkpoint", "format_version": 1, "lockstep": "0.1.0", "written": "2026-11-22T12:30:00Z",
 "numerics": "cpu: a library", "recipe": $4,
 "position": {"epoch": 2, "step": 5, "all_steps": $3},
 "epochs": [{"epoch": 1, "loss": 0.5, "accuracy": 0.75, "val_loss": null, "val_accuracy": null}]${5:-}}
TEXT
    manifest "$1" weights.safetensors momentum.safetensors state.json
}
