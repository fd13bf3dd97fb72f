#!/usr/bin/env bash
# Brings what .preadmit/lock.yaml names and the checkout does not hold, so that the
# check, which opens no connection, can render it: fetch.sh plan, and then
# fetch.sh bring.
#
# Outputs of plan: exit-code (of a failure), store (a directory), key (of the
# cache). Outputs of bring: exit-code (of a failure), save.
. "${BASH_SOURCE[0]%/*}/lib.sh"

plan() {
  local lock
  case $INPUT_FETCH in
  auto | locked | false) ;;
  *) fail 2 "the input fetch is \"$INPUT_FETCH\", which is none of auto, locked, false" ;;
  esac
  boolean cache "$INPUT_CACHE"
  CDPATH='' cd -- "${INPUT_WORKING_DIRECTORY:-.}" 2>/dev/null || fail 2 'the input working-directory names no directory'
  [ "$INPUT_FETCH" != false ] || return 0
  lock=$(root)/.preadmit/lock.yaml
  if [ ! -f "$lock" ]; then
    [ "$INPUT_FETCH" = auto ] || fail 2 'the input fetch is "locked", and there is no .preadmit/lock.yaml: preadmit fetch writes it'
    return 0
  fi
  if pulled && [ -z "$BASE" ]; then
    notice 'Nothing is fetched: without a base the pull request would say itself which hosts are asked.'
    return 0
  fi
  output store "$(posix "${RUNNER_TEMP:-${TMPDIR:-/tmp}}")/preadmit-store"
  [ "$INPUT_CACHE" = false ] || output key "preadmit-store-$(sha256 <"$lock")"
}

bring() {
  local code=0 before after
  CDPATH='' cd -- "${INPUT_WORKING_DIRECTORY:-.}"
  mkdir -p -- "$STORE"
  args=(fetch --locked "--store=$STORE")
  [ -z "$BASE" ] || args+=("--base=$BASE")
  before=$(held)
  quoted fetch || code=$?
  case $code in
  0) ;;
  3) warning 'Some of what .preadmit/lock.yaml names could not be fetched. What needs it is not rendered, which the check reports.' ;;
  *) fail "$code" 'Nothing could be fetched: the lock or the configuration is wrong, as the log says.' ;;
  esac
  after=$(held)
  [ -z "$KEY" ] || [ "$before" = "$after" ] || output save true
}

held() { find "$STORE" -type f 2>/dev/null | wc -l | tr -d ' '; }

# fetch has of the job's environment where logins and proxies are, and no token.
fetch() {
  if [ "$RUNNER_OS" = Windows ]; then
    "$PROGRAM" "${args[@]}" </dev/null
    return
  fi
  local name keep=(NO_COLOR=1)
  for name in HOME PATH TMPDIR DOCKER_CONFIG NETRC HELM_REGISTRY_CONFIG HELM_REPOSITORY_CONFIG HELM_REPOSITORY_CACHE SSL_CERT_FILE SSL_CERT_DIR \
    HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
    [ -z "${!name:-}" ] || keep+=("$name=${!name}")
  done
  # shellcheck disable=SC2016
  env -i "${keep[@]}" /bin/sh -c 'exec "$0" "$@"' "$PROGRAM" "${args[@]}" </dev/null
}

case $1 in
plan) plan ;;
bring) bring ;;
esac
