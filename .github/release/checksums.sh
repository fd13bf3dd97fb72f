#!/usr/bin/env bash
# Writes down what the archives of a version will be, before its tag is set:
#
#   .github/release/checksums.sh 0.2.0 && git commit -am 'Release 0.2.0' && git tag v0.2.0
#
# Nothing that goes into an archive depends on the commit, so that the commit
# can hold their checksums. Needs goreleaser, of the version in release.yml.
set -euo pipefail
cd "$(dirname "$0")/../.."
[[ ${1:-} =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || { echo "usage: $0 X.Y.Z" >&2; exit 2; }

# The version of Go is part of the program.
GOTOOLCHAIN=$(sed -n 's/^toolchain //p' go.mod)
export GOTOOLCHAIN

GORELEASER_CURRENT_TAG=v$1 goreleaser release --snapshot --clean --skip=publish,announce,sbom,ko
file=.github/action/checksums.txt
{
  grep '^#' "$file"
  LC_ALL=C sort -k 2 dist/checksums.txt
} >dist/new
mv dist/new "$file"
