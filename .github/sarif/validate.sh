#!/usr/bin/env bash
# Holds the SARIF reports of the trees in testdata against what reads them:
# preadmit verify, Microsoft's validator with the rules of GitHub, and what
# codeql-action asks of a file. Installs the last two below bin/ by npm.
#
#   .github/sarif/validate.sh PROGRAM
set -euo pipefail
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
tools=bin/sarif

command -v npm >/dev/null || { echo 'there is no npm to install the validators with: not run'; exit 0; }
mkdir -p "$tools/out"
npm install --silent --no-fund --no-audit --ignore-scripts --prefix "$tools" @microsoft/sarif-multitool@5.7.0 jsonschema@1.5.0
multitool=$(echo "$tools"/node_modules/@microsoft/sarif-multitool-*/Sarif.Multitool)
chmod u+x "$multitool"

# The schema is codeql-action's own, which is not that of OASIS.
schema=../shared/specs/sarif/sarif-schema-2.1.0.codeql-action.json
if [ ! -f "$schema" ]; then
  schema=$tools/schema.json
  [ -f "$schema" ] || curl -fsSL --proto =https -o "$schema" \
    https://raw.githubusercontent.com/github/codeql-action/9824588133570daa5317a5d985c3c181c80c4354/src/sarif-schema-2.1.0.json ||
    { schema=''; echo "codeql-action's schema can't be fetched: files are not held against it"; }
fi

bad=0
report() { # NAME DIR ARGS...
  local out=$PWD/$tools/out/$1.sarif dir=$2 code=0
  shift 2
  (cd "$dir" && "$program" check --output "sarif=$out" --fail-on never "$@") || code=$?
  [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || { echo "$out: exit code $code"; bad=1; return; }
  "$program" verify "$out" >/dev/null || { echo "$out: preadmit verify"; bad=1; }
  NODE_PATH=$tools/node_modules node "$here/upload.js" "$schema" "$out" || bad=1
  "$multitool" validate "$out" -c "$here/rules.xml" --rule-kind 'Sarif;Ghas' --level 'Error;Warning;Note' -o "$out.validation" --log ForceOverwrite >/dev/null
  node "$here/upload.js" multitool "$out.validation" || bad=1
}

report shop testdata/repos/shop --pack pod-security-restricted --pack best-practices
report broken testdata/repos/broken --pack pod-security-restricted
report clean testdata/action base/apps/web.yaml --policy base/policies
report denied testdata/action base/apps change/apps --policy base/policies --pack best-practices
report change . testdata/action/base --base HEAD
exit "$bad"
