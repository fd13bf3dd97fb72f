#!/usr/bin/env bash
# Keeps one comment on the pull request up to date with the report. It is made
# when the check fails, or always if INPUT_COMMENT says so, and from then on it is
# replaced.
#
# This step has a token that may write to the pull request. It runs no program
# but gh, and reads nothing of the checkout. That it fails changes no verdict.
. "${BASH_SOURCE[0]%/*}/lib.sh"

main() {
  if ! pulled || [ -z "$NUMBER" ]; then
    printf 'no comment: the event is not about a pull request\n'
    return
  fi
  if readonly_token; then
    notice 'There is no comment: the token of this run may only read. The log and the summary have the report.'
    return
  fi
  command -v gh >/dev/null || { warning 'There is no comment: this runner has no gh to write it with.'; return; }
  dir=$(temporary)
  # The category sets comments apart, as it does reports.
  mark="<!-- preadmit:$(printf '%s' "${INPUT_CATEGORY:-preadmit}" | sha256 | cut -c 1-16) -->"
  { printf '%s\n' "$mark"; cat -- "$COMMENT"; } >"$dir/comment.md"
  local id
  id=$(ours) || refused
  if [ -n "$id" ]; then
    api --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F "body=@$dir/comment.md" >/dev/null || refused
  elif [ "$EXIT_CODE" != 0 ] || [ "$INPUT_COMMENT" = always ]; then
    api --method POST "repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments" -F "body=@$dir/comment.md" >/dev/null || refused
  fi
}

# ours is the number of the comment that an earlier run wrote: of the token's
# own user, since anybody can write the mark.
ours() {
  api --paginate "repos/$GITHUB_REPOSITORY/issues/$NUMBER/comments?per_page=100" --jq \
    ".[] | select(.user.login == \"github-actions[bot]\" and (.body | startswith(\"$mark\"))) | .id" | sed -n 1p
}

# shellcheck disable=SC2153 # action.yml sets TOKEN
api() { GH_TOKEN=$TOKEN GH_HOST=${GITHUB_SERVER_URL#*://} GH_PROMPT_DISABLED=1 gh api "$@" 2>"$dir/error"; }

refused() {
  quoted cat -- "$dir/error"
  warning 'The comment could not be written. The job needs the permission pull-requests: write.'
  exit 0
}

main
