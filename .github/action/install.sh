#!/usr/bin/env bash
# Puts the program that plan.sh chose where it can be run.
#
# Outputs: path, version, save (true when there is something new to cache).
. "${BASH_SOURCE[0]%/*}/lib.sh"

root=${BASH_SOURCE[0]%/*}/../..

main() {
  local program
  case $KIND in
  given) program=$GIVEN ;;
  *)
    mkdir -p "$DIR"
    program=$DIR/preadmit
    [ "$RUNNER_OS" != Windows ] || program=$program.exe
    if [ "$KIND" = release ]; then unpack "$program"; else build "$program"; fi
    ;;
  esac
  found "$program"
}

# unpack takes the program out of the archive, fetched or from the cache, once
# that is known to be the one that this commit means.
unpack() {
  local archive=$DIR/$FILE
  if ! matches "$archive"; then
    download "$archive"
    matches "$archive" || {
      rm -f -- "$archive"
      fail 3 "$FILE is not the file whose checksum this commit of the action holds: it is not run"
    }
    [ -z "$KEY" ] || output save true
  fi
  case $FILE in
  *.zip) unzip -p -- "$archive" preadmit.exe >"$1" ;;
  *) tar -xzOf "$archive" preadmit >"$1" ;;
  esac
  chmod 755 "$1"
}

matches() { [ -f "$1" ] && [ "$(sha256 <"$1")" = "$SHA256" ]; }

download() {
  local url=https://github.com/preadmit/preadmit/releases/download/v$RELEASE/$FILE
  rm -f -- "$1"
  quoted curl --proto '=https' --proto-redir '=https' --fail --silent --show-error --location --retry 3 \
    --connect-timeout 20 --max-time 300 --max-filesize 268435456 --output "$1" -- "$url" ||
    fail 3 "$url could not be fetched: give the program by binary-path, or build it with version: source"
}

# build builds the action's own source.
build() {
  command -v go >/dev/null || fail 3 'there is no go to build the program with'
  printf 'building preadmit from the source of the action\n'
  GOFLAGS='' GOWORK=off CGO_ENABLED=0 quoted go build -C "$root" -trimpath -buildvcs=false -ldflags '-s -w' -o "$1" ./cmd/preadmit ||
    fail 3 'the program could not be built from the source of the action'
}

# found checks that the program runs here, and says which it is.
found() {
  local path=$1 said
  case $path in
  */* | *\\*) ;;
  *) path=$(command -v -- "$path" || true) ;;
  esac
  if [ ! -f "$path" ] || [ ! -x "$path" ]; then
    fail 2 "$1 is not a program"
  fi
  path=$(posix "$path")
  path=$(CDPATH='' cd -- "${path%/*}/" && pwd)/${path##*/}
  said=$("$path" version </dev/null 2>/dev/null || true)
  [[ $said =~ ^preadmit\ ([0-9A-Za-z.+-]{1,64})\  ]] || fail 2 "$1 is not preadmit, or does not run here"
  output path "$path"
  output version "${BASH_REMATCH[1]}"
  printf 'preadmit %s\n' "${BASH_REMATCH[1]}"
}

main
