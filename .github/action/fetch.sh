#!/usr/bin/env bash
# Brings what .preadmit/lock.yaml names and the checkout does not hold, so that the
# check, which opens no connection, can render it: fetch.sh plan, and then
# fetch.sh bring. With the input fetch "new" it also brings what the change needs and
# does not lock.
#
# Outputs of plan: exit-code (of a failure), store (a directory), key (of the
# cache). Outputs of bring: exit-code (of a failure), save.
. "${BASH_SOURCE[0]%/*}/lib.sh"

plan() {
  local lock
  case $INPUT_FETCH in
  auto | locked | new | false) ;;
  *) fail 2 "the input fetch is \"$INPUT_FETCH\", which is none of auto, locked, new, false" ;;
  esac
  boolean cache "$INPUT_CACHE"
  CDPATH='' cd -- "${INPUT_WORKING_DIRECTORY:-.}" 2>/dev/null || fail 2 'the input working-directory names no directory'
  [ "$INPUT_FETCH" != false ] || return 0
  lock=$(root)/.preadmit/lock.yaml
  if [ ! -f "$lock" ]; then
    [ "$INPUT_FETCH" = auto ] || fail 2 "the input fetch is \"$INPUT_FETCH\", and there is no .preadmit/lock.yaml: preadmit fetch writes it"
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
  if [ "$INPUT_FETCH" = new ] && [ "$code" != 2 ]; then
    if [ -n "$BASE" ]; then
      unlocked || code=$?
    else
      notice 'Only what the lock names is fetched: without a base the change would say itself which hosts are asked.'
    fi
  fi
  case $code in
  0) ;;
  3) warning 'Some of what .preadmit/lock.yaml names could not be fetched. What needs it is not rendered, which the check reports.' ;;
  *) fail "$code" 'Nothing could be fetched: the lock or the configuration is wrong, as the log says.' ;;
  esac
  after=$(held)
  # A restored cache has this key already.
  [ -z "$KEY" ] || [ "$before" != 0 ] || [ "$after" = 0 ] || output save true
}

# unlocked brings what the lock lacks, and locks it for this run only. The base says which
# hosts are asked. Its caller switches set -e off.
unlocked() {
  local code=0 lock dir
  lock=$(root)/.preadmit/lock.yaml
  dir=$(temporary) && cp -- "$lock" "$dir/lock.yaml" || return 3
  args=(fetch --keep "--store=$STORE" "--base=$BASE")
  [ -z "$INPUT_CONFIG" ] || args+=("--config=$INPUT_CONFIG")
  quoted fetch || code=$?
  if ! cmp -s -- "$dir/lock.yaml" "$lock"; then
    notice 'The change needs sources that .preadmit/lock.yaml does not name. They are fetched for this check. To lock them, run preadmit fetch and commit the file.'
    quoted diff -- "$dir/lock.yaml" "$lock" || true
  fi
  return "$code"
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
