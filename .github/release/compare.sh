#!/usr/bin/env bash
# Fails unless the archives that were built are those whose checksums the action
# holds: compare.sh dist/checksums.txt
set -euo pipefail
cd "$(dirname "$0")/../.."
if ! diff <(grep -v '^#' .github/action/checksums.txt | LC_ALL=C sort -k 2) <(LC_ALL=C sort -k 2 "$1"); then
  echo '.github/action/checksums.txt is of other archives: write it by .github/release/checksums.sh, and set the tag again' >&2
  exit 1
fi
