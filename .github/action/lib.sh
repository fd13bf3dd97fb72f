# shellcheck shell=bash
# What the steps of the action share. Bash 3.2, as macOS has it.
#
# Whatever others wrote (manifests, refs, error texts) reaches the log through
# quoted, which lets it issue no workflow command, and nothing else does.

set -euo pipefail
umask 022
unset CDPATH

# escape is the data of a workflow command.
escape() {
  local s=$1
  s=${s//'%'/%25}
  s=${s//$'\r'/%0D}
  s=${s//$'\n'/%0A}
  printf '%s' "${s//'##['/##%5B}"
}

notice() { printf '::notice title=preadmit::%s\n' "$(escape "$1")"; }
warning() { printf '::warning title=preadmit::%s\n' "$(escape "$1")"; }

error() { printf '::error title=preadmit::%s\n' "$(escape "$1")"; }

# fail ends the step, and the action with it, by an exit code of preadmit's: 2
# for bad inputs, 3 for what could not be looked at.
fail() {
  error "$2"
  output exit-code "$1"
  exit "$1"
}

# token is 128 bits that nobody could have written into a file before.
token=$(od -An -v -N16 -tx1 /dev/urandom | tr -d ' \n')
[ "${#token}" -eq 32 ]

# quoted runs a command whose output is only shown: no line of it is a
# workflow command. Its exit code is the command's.
quoted() {
  local code=0
  printf '::stop-commands::%s\n' "$token"
  "$@" 2>&1 || code=$?
  printf '\n::%s::\n' "$token"
  return "$code"
}

# output sets an output of the step, whatever is in the value. Its end is not
# the token of quoted, which the log shows.
output() { printf '%s<<end-%s\n%s\nend-%s\n' "$1" "$token" "$2" "$token" >>"$GITHUB_OUTPUT"; }

# boolean is the value of an input that is true or false.
boolean() {
  case $2 in
  true | false) ;;
  *) fail 2 "the input $1 is \"$2\", which is neither true nor false" ;;
  esac
}

# posix gives a path of Windows forward slashes, which every program there takes.
posix() { printf '%s' "${1//\\//}"; }

# native is a directory as programs other than this shell name it: on Windows
# with its drive.
native() { (CDPATH='' cd -- "$1" && { pwd -W 2>/dev/null || pwd; }); }

# temporary is a directory for this job alone.
temporary() { mktemp -d "$(posix "${RUNNER_TEMP:-${TMPDIR:-/tmp}}")/preadmit.XXXXXX"; }

# root is the repository's directory, which the report's places count from.
root() {
  local at=$PWD
  while [ ! -e "$at/.git" ]; do
    [ "$at" != "${at%/*}" ] || { native "$PWD"; return; }
    at=${at%/*}
  done
  native "$at/"
}

# trim is a line without white space around it.
trim() {
  local s=$1
  s=${s#"${s%%[![:space:]]*}"}
  printf '%s' "${s%"${s##*[![:space:]]}"}"
}

# pulled tells whether the event is about a pull request, and has its merge commit.
pulled() {
  case ${GITHUB_EVENT_NAME:-} in
  pull_request | pull_request_review | pull_request_review_comment) ;;
  *) return 1 ;;
  esac
}

# fork tells whether the change comes from another repository.
fork() { pulled && [ "${HEAD_REPOSITORY:-}" != "${GITHUB_REPOSITORY:-}" ]; }

# readonly_token tells whether the job's token may only read, whatever the workflow
# asks for.
readonly_token() { fork || [ "${GITHUB_ACTOR:-}" = 'dependabot[bot]' ]; }

# sha256 is of what is on standard input.
sha256() {
  if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c 1-64
}
