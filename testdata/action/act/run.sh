#!/usr/bin/env bash
# Runs README.md's workflow by nektos/act, without containers or network, on
# events of a repository that is made of testdata/action: run.sh PROGRAM.
# PROGRAM, a preadmit, is what the action runs.
set -euo pipefail
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
act=${ACT:-act}
command -v "$act" >/dev/null || { echo 'no act on PATH: the workflow of README.md runs in the tests alone'; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work/home GIT_CONFIG_GLOBAL=$work/gitconfig
mkdir -p "$HOME"
git config --global user.name x
git config --global user.email x@example.org
git config --global uploadpack.allowAnySHA1InWant true

# The repository: main, a change of it, the merge of both.
shop=$work/shop
git init -q -b main "$shop"
cp -R "$here/../base/." "$shop"
commit() { git -C "$shop" add -A && git -C "$shop" commit -qm "$1" && git -C "$shop" rev-parse HEAD; }
first=$(commit first)
echo notes >"$shop/README"
main=$(commit main)
git -C "$shop" checkout -q -b change "$first"
cp -R "$here/../change/." "$shop"
mkdir -p "$shop/.preadmit"
echo 'fail-on: never' >"$shop/.preadmit/config.yaml"
change=$(commit change)
git -C "$shop" checkout -q main
git -C "$shop" merge -q --no-ff -m merge change
merge=$(git -C "$shop" rev-parse HEAD)

# The workflow, with this tree as the action and the program as it is.
self=$(printf '%040d' 0)
mkdir -p "$work/jobs/.github/workflows"
sed -n '/^name: preadmit$/,/^```$/p' "$root/README.md" | sed '/^```$/d' | sed "s/preadmit@<[^>]*>/preadmit@$self/; s|policies: policies|&, binary-path: '$program'|" >"$work/readme.yml"
git -C "$root" ls-files -z | (cd "$root" && tar --null -cT - -f -) | (mkdir "$work/action" && tar -xf - -C "$work/action")

# In place of the actions that it uses. What is not to be used is not there.
mkdir -p "$work/codeql" "$work/unused"
cp -R "$here/upload" "$work/codeql/upload-sarif"
for name in . restore save; do
  mkdir -p "$work/unused/$name"
  printf 'runs:\n  using: composite\n  steps:\n  - shell: bash\n    run: exit 1\n' >"$work/unused/$name/action.yml"
done

failed=0
# expect EVENT WORKFLOW OUTCOME TEXT: the job ends so and says so.
expect() {
  local got=success log=$work/log pins=()
  cp "$2" "$work/jobs/.github/workflows/check.yml"
  while IFS= read -r uses; do
    case $uses in
    actions/checkout@*) pins+=(--local-repository "$uses=$here/checkout") ;;
    preadmit/preadmit@*) pins+=(--local-repository "$uses=$work/action") ;;
    esac
  done < <(sed -n 's/^ *- uses: \([^ ]*\).*/\1/p' "$2")
  while IFS= read -r uses; do
    case $uses in
    github/codeql-action/upload-sarif@*) pins+=(--local-repository "github/codeql-action@${uses#*@}=$work/codeql") ;;
    *) pins+=(--local-repository "$(echo "$uses" | cut -d/ -f 1,2 | cut -d@ -f 1)@${uses#*@}=$work/unused") ;;
    esac
  done < <(sed -n 's/^ *uses: \([^ ]*\).*/\1/p' "$root/action.yml")
  GITHUB_SHA=$merge "$act" "${1%%:*}" -C "$work/jobs" -W "$work/jobs/.github/workflows/check.yml" -e "$work/events/$1.json" \
    -P ubuntu-latest=-self-hosted --no-skip-checkout --no-cache-server --action-offline-mode "${pins[@]}" \
    --env "SHOP=$shop" --env "PREADMIT=$program" --env "GITHUB_SHA=$merge" >"$log" 2>&1 || got=failure
  if [ "$got" = "$3" ] && grep -qF "$4" "$log"; then
    echo "ok: $1: $3, $4"
  else
    echo "NOT ok: $1: $got, want $3 with \"$4\""
    cat "$log"
    failed=1
  fi
}

mkdir "$work/events"
cat >"$work/events/pull_request.json" <<JSON
{"action": "synchronize", "number": 7, "pull_request": {"number": 7, "base": {"ref": "main", "sha": "$main", "repo": {"full_name": "acme/shop"}}, "head": {"ref": "change", "sha": "$change", "repo": {"full_name": "acme/shop"}}}}
JSON
echo "{\"ref\": \"refs/heads/main\", \"before\": \"$main\", \"after\": \"$merge\"}" >"$work/events/push.json"

expect pull_request "$work/readme.yml" failure 'at most 10 replicas'
# shellcheck disable=SC2016
sed 's/with: {fetch-depth: 2,/with: {ref: "${{ github.event.pull_request.head.sha }}", fetch-depth: 2,/' "$work/readme.yml" >"$work/head.yml"
expect pull_request "$work/head.yml" failure 'There is no base to compare with'
expect push "$work/readme.yml" failure 'at most 10 replicas'
exit "$failed"
