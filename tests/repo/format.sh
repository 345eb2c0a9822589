#!/bin/sh
# Every C file is as clang-format 14 writes it; skipped (77) where that version is not at hand.
exec "$(dirname "$0")/../../tools/format" --check
