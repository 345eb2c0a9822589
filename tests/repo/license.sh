# The license is the Apache License 2.0, whole.
set -eu
head -n 3 LICENSE | grep -q 'Apache License'
head -n 3 LICENSE | grep -q 'Version 2.0, January 2004'
grep -q 'END OF TERMS AND CONDITIONS' LICENSE
grep -q 'Apache' README.md
