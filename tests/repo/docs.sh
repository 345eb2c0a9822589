# The commands and files that the documents name are there, and their links lead somewhere.
set -eu
fail() { echo "$1"; exit 1; }
headings() { awk '/^```/ {inside = !inside; next} !inside' "$1" | sed -n 's/^#* //p' | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-'; }
for doc in README.md CONTRIBUTING.md docs/*.md docs/*/*.md; do
    # Commands stand in fenced blocks, one a line.
    blocks=$(awk '/^```/ {inside = !inside; next} inside' "$doc")
    for target in $(printf '%s\n' "$blocks" | sed -n 's/^make \([a-z][a-z]*\).*/\1/p' | sort -u); do
        grep -q "^$target:" Makefile || fail "$doc shows 'make $target', which the Makefile does not have"
    done
    for preset in $(printf '%s\n' "$blocks" | sed -n 's/.*--preset \([a-z0-9]*\).*/\1/p' | sort -u); do
        grep -q "\"name\": \"$preset\"" CMakePresets.json || fail "$doc shows preset $preset, which CMakePresets.json does not have"
    done
    # Paths stand in backquotes; NAME and <thing> are for the reader to fill in.
    for path in $(grep -oE '`(\.ci|tools|tests|docs|bench|examples|src|include)/[^` ]*' "$doc" | tr -d '`' | grep -v 'NAME\|<' | sort -u); do
        [ -e "$path" ] || fail "$doc names $path, which is not there"
    done
    # Links to files of the repository, and to headings in them (as GitHub names those: lower case, hyphens for blanks).
    for link in $(grep -oE '\]\([^)# ]*(#[^) ]*)?\)' "$doc" | sed 's/^](//; s/)$//' | grep -v '^[a-z]*:' | sort -u); do
        file=$(dirname "$doc")/${link%%#*}
        [ "${link%%#*}" ] || file=$doc
        [ -e "$file" ] || fail "$doc links to $link, which is not there"
        case $link in *'#'*) headings "$file" | grep -qxF -- "${link#*#}" || fail "$doc links to $link, a heading that $file does not have" ;; esac
    done
done
grep -q '^make demo' README.md
grep -q '^make check' README.md
