#!/usr/bin/env bash
# Finds the commit that the change is compared with.
#
#   pull_request   the first parent of the merge commit that is checked out,
#                  else the merge base of what is checked out and the base
#   push           what the branch was before
#   merge_group    what the group is merged into
#
# That is one commit: a checkout with fetch-depth 2 has it in a pull request,
# and a commit that is missing is fetched alone.
#
# The base supplies the policies, the configuration and the suppressions, so a
# pull request or merge group without one would be checked by its own. That is
# exit code 3. After a push everything counts instead, and the log says so.
#
# The files of a pull request are not to be trusted, and neither is a .git that
# other steps could have written to, so git never runs on it: it runs on a
# repository of our own, made here, that has the checkout's objects. So there is
# no configuration, no hook and no attribute of others.
#
# Outputs: base (a revision or empty), how (a sentence).
. "${BASH_SOURCE[0]%/*}/lib.sh"

protocol='' # that git may use: none, but for fetch

main() {
  opened=false
  ! open || opened=true
  ! $opened || ! sparse ||
    warning 'The checkout is sparse: files outside of it count as deleted, and paths and policies outside of it are not found. Check out without sparse-checkout.'
  case $INPUT_BASE in
  none) found '' 'no base was asked for' ;;
  -*) fail 2 'the input base begins with "-", which no revision does' ;;
  *[[:cntrl:]]*) fail 2 'the input base holds a control character, which no revision does' ;;
  auto | '') automatic ;;
  *) given ;;
  esac
}

# found ends the step. Without a base there is a reason.
found() {
  output base "$1"
  output how "$2"
  if [ -n "$1" ]; then
    printf 'compared with %s: %s\n' "$(escape "$1")" "$2"
  else
    printf 'not compared: %s\n' "$2"
  fi
  exit 0
}

# without ends the step where there should have been a base.
without() {
  if ! proposed; then
    notice "Everything counts, not only what is new, by the policies and the configuration of the change itself: $1"
    found '' "$1"
  fi
  fail 3 "There is no base to compare with: $1 ${2:-Check out the merge commit (no ref) with fetch-depth: 2.} Only the input base: none checks a change by its own policies, configuration and suppressions."
}

# proposed tells whether the event is about a change that is not merged yet.
proposed() { pulled || [ "$GITHUB_EVENT_NAME" = merge_group ]; }

# given is the revision of the input: preadmit resolves it, and what is a
# whole commit's name is fetched if need be.
given() {
  if sha "$INPUT_BASE" && $opened; then
    have "$INPUT_BASE" || fetch "$INPUT_BASE" || true
  fi
  found "$INPUT_BASE" 'the input base'
}

automatic() {
  proposed || [ "$GITHUB_EVENT_NAME" = push ] || found '' "a $GITHUB_EVENT_NAME event has no base"
  command -v git >/dev/null || without 'this runner has no git to find the base with.' 'Install git.'
  $opened || without 'the working directory is in no git repository.' 'Check out with actions/checkout, and name its path by the input working-directory.'
  head=$(current)
  sha "$head" || without 'the checkout has no commit.'
  case $GITHUB_EVENT_NAME in
  push) pushed ;;
  merge_group) grouped ;;
  *) requested ;;
  esac
}

requested() {
  local first second
  first=$(parent 1)
  second=$(parent 2)
  if sha "$second" && { [ "$second" = "$PULL_HEAD" ] || [ "$head" = "$GITHUB_SHA" ]; }; then
    compare "$first" 'the first parent of the merge commit'
  fi
  sha "$PULL_BASE" || without 'the event names no base.'
  ensure "$PULL_BASE"
  base=$(ours merge-base -- "$head" "$PULL_BASE" 2>/dev/null || true)
  sha "$base" || without 'the checkout has not enough history to tell where the change begins.' \
    'Check out the merge commit (no ref) with fetch-depth: 2, or keep the ref with fetch-depth: 0.'
  if [ "$base" != "$PULL_BASE" ]; then
    warning "The checkout is not the merge commit of the pull request, so the policies are those of the commit that the change began at, ${base:0:12}, and may be older than those of the base branch. Check out the merge commit (no ref) with fetch-depth: 2."
  fi
  compare "$base" 'the merge base with the base branch'
}

pushed() {
  sha "$PUSH_BEFORE" || without 'this is the first push of the branch.'
  if [ "$head" != "$GITHUB_SHA" ]; then
    ours merge-base --is-ancestor -- "$PUSH_BEFORE" "$head" 2>/dev/null || without 'the checkout is not what was pushed.'
  fi
  compare "$PUSH_BEFORE" 'what the branch was before the push'
}

grouped() {
  sha "$GROUP_BASE" || without 'the event names no base.'
  [ "$head" = "$GITHUB_SHA" ] || without 'the checkout is not the merge group.' 'Check out without a ref.'
  compare "$GROUP_BASE" 'what the merge group is merged into'
}

compare() {
  [ "$1" != "$head" ] || without 'the checkout is the base itself, with nothing of the change in it.'
  ensure "$1"
  found "$1" "$2"
}

# ensure ends the step when the commit is not there and can't be fetched.
ensure() {
  have "$1" || fetch "$1" ||
    without "the commit ${1:0:12} is not in the checkout, and could not be fetched: $(reason)" "$remedy"
}

# reason tells, of the log of a fetch that failed, why. It sets no remedy, since
# it runs in a subshell: that is the same for all.
remedy='Check out the merge commit (no ref) with fetch-depth: 2.'
reason() {
  case $(LC_ALL=C tr '[:upper:]' '[:lower:]' <"$fetched") in
  *'not our ref'* | *"couldn't find remote ref"* | *'no such remote ref'* | *'unadvertised object'*)
    printf '%s does not have it, perhaps after a forced push.' "$GITHUB_REPOSITORY" ;;
  *authenticat* | *'could not read username'* | *'could not read password'* | *'error: 401'* | *'error: 403'* | *'returned error: 404'* | *'not found'* | *denied*)
    printf "the job's token may not read %s. Give the job the permission contents: read." "$GITHUB_REPOSITORY" ;;
  *) printf 'the log has what git said.' ;;
  esac
}

# sha tells whether a commit is named in full, and is not the zeros of none.
sha() { [[ $1 =~ ^([0-9a-f]{40}|[0-9a-f]{64})$ ]] && [[ $1 =~ [^0] ]]; }

# open makes our own repository beside the objects of the checkout.
open() {
  local dir
  dir=$(CDPATH='' cd -- "${INPUT_WORKING_DIRECTORY:-.}" 2>/dev/null && pwd) ||
    fail 2 'the input working-directory names no directory'
  while [ ! -e "$dir/.git" ]; do
    [ "$dir" != "${dir%/*}" ] || return 1
    dir=${dir%/*}
  done
  dotgit=$dir/.git
  [ -d "$dotgit" ] || linked "$dir" || return 1
  common=$dotgit
  [ ! -f "$dotgit/commondir" ] || common=$(CDPATH='' cd -- "$dotgit" && cd -- "$(line commondir)" && pwd) || return 1
  objects=$common/objects
  [ -d "$objects" ] && [ -f "$dotgit/HEAD" ] || return 1
  fetched=$(temporary)/fetch.log || fail 3 'no temporary directory could be made'
  : >"$fetched"
  repository=${fetched%/*}/git
  mkdir -p "$repository/objects" "$repository/refs"
  printf 'ref: refs/heads/none\n' >"$repository/HEAD"
  [ ! -f "$common/shallow" ] || cp -- "$common/shallow" "$repository/shallow"
}

# sparse tells whether the checkout leaves files out on purpose.
sparse() {
  cat "$common/config" "$dotgit/config.worktree" 2>/dev/null |
    grep -qiE '(^|\])[[:space:]]*sparsecheckout[[:space:]]*($|=[[:space:]]*"?(true|yes|on|1))'
}

# linked follows the file that a work tree or a submodule has in place of .git.
linked() {
  local to
  to=$(line .git "$1")
  case $to in
  'gitdir: '*) dotgit=$(CDPATH='' cd -- "$1" && cd -- "${to#gitdir: }" 2>/dev/null && pwd) ;;
  *) return 1 ;;
  esac
}

# line is the first line of a file of the checkout's .git.
line() {
  local l=''
  { IFS= read -r l <"${2:-$dotgit}/$1"; } 2>/dev/null || [ -n "$l" ] || return 1
  printf '%s' "$l"
}

# current is the commit that is checked out.
current() {
  local h ref
  h=$(line HEAD) || return 0
  case $h in
  'ref: refs/'*) ref=${h#ref: } ;;
  *)
    printf '%s' "$h"
    return
    ;;
  esac
  case $ref in *..*) return ;; esac
  if [ -f "$common/$ref" ]; then
    line "$ref" "$common"
  elif [ -f "$common/packed-refs" ]; then
    REF=$ref awk '$2 == ENVIRON["REF"] { print $1; exit }' "$common/packed-refs"
  fi
}

# ours is git on our own repository, with no configuration but this.
ours() {
  (
    for v in ${!GIT_@}; do
      case $v in GIT_SSL_* | GIT_CONFIG_COUNT | GIT_CONFIG_KEY_0 | GIT_CONFIG_VALUE_0) ;; *) unset "$v" ;; esac
    done
    export GIT_DIR=$repository GIT_OBJECT_DIRECTORY=$objects
    export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_NO_REPLACE_OBJECTS=1
    export GIT_OPTIONAL_LOCKS=0 GIT_TERMINAL_PROMPT=0 GIT_NO_LAZY_FETCH=1 GIT_ASKPASS='' SSH_ASKPASS=''
    export GIT_ALLOW_PROTOCOL=${protocol:-none}
    cd -- "$repository"
    exec git -c core.hooksPath=/dev/null -c core.fsmonitor=false -c gc.auto=0 -c maintenance.auto=false \
      -c http.followRedirects=false -c http.lowSpeedLimit=1000 -c http.lowSpeedTime=30 "$@"
  )
}

# have tells whether a commit is there with its files. A partial clone has the
# names of files alone.
have() {
  ours cat-file -e "$1^{tree}" 2>/dev/null || return 1
  local all
  case $(printf '%s' "$objects"/pack/*.promisor) in *'*.promisor') return 0 ;; esac
  all=$(ours rev-list --objects --missing=print --no-walk "$1" 2>/dev/null) || return 1
  case $'\n'$all in *$'\n?'*) return 1 ;; esac
}

# parent is the Nth parent in the commit itself: a shallow checkout has none.
parent() {
  { ours cat-file commit "$head" 2>/dev/null || true; } | sed -n '1,/^$/s/^parent //p' | sed -n "$1p"
}

# fetch fetches one commit without history from the repository of the event,
# by the job's token if there is one: the checkout need not keep it.
fetch() {
  (
    case $GITHUB_SERVER_URL in
    https://* | http://*) protocol=${GITHUB_SERVER_URL%%:*} ;;
    *) exit 1 ;;
    esac
    if [ -n "${TOKEN:-}" ]; then
      credentials=$(printf 'x-access-token:%s' "$TOKEN" | base64 | tr -d '\r\n')
      printf '::add-mask::%s\n' "$credentials"
      export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="http.$GITHUB_SERVER_URL/.extraheader" GIT_CONFIG_VALUE_0="AUTHORIZATION: basic $credentials"
    fi
    printf 'fetching %s\n' "$1"
    quoted logged ours fetch --quiet --depth=1 --no-tags --no-recurse-submodules --end-of-options "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY" "$1"
  ) && have "$1"
}

# logged prints the output of a command and keeps it for reason.
# shellcheck disable=SC2317 # quoted calls it
logged() { "$@" 2>&1 | tee "$fetched"; }

main
