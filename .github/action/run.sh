#!/usr/bin/env bash
# Runs the check. What it finds does not fail this step: its exit code is an
# output, so that the report can still be uploaded.
#
# Outputs: exit-code, denied, new, undecided, suppressed, sarif-file,
# report-json.
. "${BASH_SOURCE[0]%/*}/lib.sh"

# GitHub loses a summary of more than 1 MiB as a whole. preadmit's ends at
# 900 KiB; this holds whatever program was given.
summary_limit=$((1000 * 1024))

main() {
  boolean sarif "$INPUT_SARIF"
  boolean summary "$INPUT_SUMMARY"
  boolean require-complete "$INPUT_REQUIRE_COMPLETE"
  case $INPUT_ANNOTATIONS in
  auto | true | false) ;;
  *) fail 2 "the input annotations is \"$INPUT_ANNOTATIONS\", which is none of auto, true, false" ;;
  esac
  CDPATH='' cd -- "${INPUT_WORKING_DIRECTORY:-.}" 2>/dev/null || fail 2 'the input working-directory names no directory'
  dir=$(temporary) || fail 3 'no temporary directory could be made'
  arguments
  local code=0
  quoted check || code=$?
  output exit-code "$code"
  reported
  annotate
  summarise
}

# arguments puts the inputs into args.
arguments() {
  args=(check "--output=json=$dir/report.json" "--output=sarif=$dir/preadmit.sarif" "--output=markdown=$dir/summary.md"
    "--output=github=$dir/annotations.txt" --output=text --color=never)
  lines --policy= "$INPUT_POLICIES"
  lines --pack= "$INPUT_PACKS"
  lines --with= "$INPUT_WITH"
  [ -z "$BASE" ] || args+=("--base=$BASE")
  [ -z "$INPUT_FAIL_ON" ] || args+=("--fail-on=$INPUT_FAIL_ON")
  [ "$INPUT_REQUIRE_COMPLETE" = false ] || args+=(--require-complete)
  [ -z "$INPUT_CATEGORY" ] || args+=("--category=$INPUT_CATEGORY")
  lines '' "$INPUT_ARGS"
  args+=(--)
  lines '' "$INPUT_PATHS"
}

# lines adds an argument for each line of an input that is not empty.
lines() {
  local l
  while IFS= read -r l || [ -n "$l" ]; do
    l=$(trim "$l")
    [ -z "$l" ] || args+=("$1$l")
  done <<<"$2"
}

# check runs preadmit without the environment of the job, which it needs
# nothing of; on Windows a process can't do without it.
check() {
  if [ "$RUNNER_OS" = Windows ]; then
    "$PROGRAM" "${args[@]}" </dev/null
  else
    # By a shell, since env would take a path with "=" in it for a variable.
    # shellcheck disable=SC2016
    env -i TMPDIR="$dir" NO_COLOR=1 /bin/sh -c 'exec "$0" "$@"' "$PROGRAM" "${args[@]}" </dev/null
  fi
}

# reported sets the outputs that tell what the report says. Each result stands
# on a line of its own, and a quote within a string is escaped, so that none
# can look like a key.
reported() {
  [ -f "$dir/report.json" ] || return 0
  output report-json "$dir/report.json"
  [ ! -f "$dir/preadmit.sarif" ] || output sarif-file "$dir/preadmit.sarif"
  awk '
    $0 == "  \"results\": [" { inside = 1; next }
    /^  \]/ { inside = 0 }
    !inside { next }
    /"baseline":"absent",/ { next }
    !/"outcome":"(fail|unknown|error)",/ { next }
    !/"suppression":null,/ { suppressed++; next }
    /"baseline":"unchanged",/ { next }
    { counts++ }
    /"outcome":"fail","action":"deny",/ { denied++ }
    /"outcome":"(unknown|error)",/ { undecided++ }
    END { print "denied=" denied + 0; print "new=" counts + 0; print "undecided=" undecided + 0; print "suppressed=" suppressed + 0 }
  ' "$dir/report.json" >>"$GITHUB_OUTPUT"
}

# annotate prints the annotations, and of that file nothing else: they are the
# only commands that tell of manifests. Code scanning annotates by itself what
# is uploaded.
annotate() {
  case $INPUT_ANNOTATIONS in
  false) return ;;
  auto) ! uploads || return 0 ;;
  esac
  [ ! -f "$dir/annotations.txt" ] || LC_ALL=C grep -E '^::(error|warning|notice) [^:]*::' "$dir/annotations.txt" | LC_ALL=C tr -d '\r' || true
}

# uploads tells whether the report will be uploaded by a token that may.
uploads() { [ "$INPUT_SARIF" = true ] && [ -f "$dir/preadmit.sarif" ] && ! readonly_token; }

summarise() {
  [ "$INPUT_SUMMARY" = true ] && [ -f "$dir/summary.md" ] || return 0
  local size
  size=$(wc -c <"$dir/summary.md")
  if [ "$size" -gt "$summary_limit" ]; then
    # The head is of preadmit itself; cut elsewhere, a block could stay open.
    sed '/^###/,$d' "$dir/summary.md" | head -c 65536 >>"$GITHUB_STEP_SUMMARY" || true
    printf '\nThe rest is longer than GitHub shows: it is in the report.\n' >>"$GITHUB_STEP_SUMMARY"
  else
    cat -- "$dir/summary.md" >>"$GITHUB_STEP_SUMMARY"
  fi
  [ -n "$BASE" ] || printf '\nNot compared with a base: %s\n' "$HOW" >>"$GITHUB_STEP_SUMMARY"
}

main
