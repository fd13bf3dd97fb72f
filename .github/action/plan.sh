#!/usr/bin/env bash
# Says where the program comes from, without fetching anything:
#
#   1. the input binary-path;
#   2. a release's archive whose checksum stands in checksums.txt, in the same
#      commit as this script: who pins the action by its SHA pins the program;
#   3. the action's own source.
#
# A release's archive may come from a cache, since its checksum is compared. A
# program that was built from source has no checksum to compare with, and a pull
# request can write to caches that its later runs read, so it is never cached.
#
# Outputs: kind (given, release, source), path, file, sha256, release,
# go-version, dir (where the program goes), key (of the archive in the cache).
. "${BASH_SOURCE[0]%/*}/lib.sh"

checksums=${BASH_SOURCE[0]%/*}/checksums.txt
root=${BASH_SOURCE[0]%/*}/../..

main() {
  if [ "$GITHUB_EVENT_NAME" = pull_request_target ]; then
    fail 2 'pull_request_target runs with the rights of this repository, on its base: run on pull_request, which needs no secrets and has the change'
  fi
  boolean cache "$INPUT_CACHE"
  if [ -n "$INPUT_BINARY_PATH" ]; then
    [ -z "$INPUT_VERSION" ] || fail 2 'the inputs binary-path and version exclude each other'
    output kind given
    output path "$INPUT_BINARY_PATH"
    return
  fi
  local version=$INPUT_VERSION
  version=${version#v}
  [ -n "$version" ] || version=$(released)
  case $version in
  '' | source) from_source ;;
  *) from_release "$version" ;;
  esac
}

# released is the version that this commit's checksums are of, if any.
released() { awk 'length($1) == 64 && split($2, name, "_") > 2 { print name[2]; exit }' "$checksums"; }

from_release() {
  local file sum
  platform
  file=preadmit_$1_$platform
  case $file in
  *windows*) file=$file.zip ;;
  *) file=$file.tar.gz ;;
  esac
  sum=$(F=$file awk '$2 == ENVIRON["F"] && length($1) == 64 { print $1; exit }' "$checksums")
  if [ -z "$sum" ]; then
    fail 2 "this commit of the action knows no checksum of $file: pin the action at the release that you want, or build it from the action's source with version: source"
  fi
  output kind release
  output release "$1"
  output file "$file"
  output sha256 "$sum"
  output dir "$(posix "$RUNNER_TEMP")/preadmit-release-$sum"
  [ "$INPUT_CACHE" = false ] || output key "preadmit-release-$sum"
}

from_source() {
  local go
  go=$(sed -n 's/^toolchain go\([0-9.]*\)[[:space:]]*$/\1/p' "$root/go.mod")
  output kind source
  output go-version "$go"
  output dir "$(temporary)"
}

# platform sets what releases are named by.
platform() {
  local os arch
  case $RUNNER_OS in
  Linux) os=linux ;;
  macOS) os=darwin ;;
  Windows) os=windows ;;
  *) fail 2 "there is no program for $RUNNER_OS: give one by binary-path" ;;
  esac
  case $RUNNER_ARCH in
  X64) arch=amd64 ;;
  ARM64) arch=arm64 ;;
  *) fail 2 "there is no program for $RUNNER_OS on $RUNNER_ARCH: give one by binary-path" ;;
  esac
  platform=${os}_$arch
}

main
