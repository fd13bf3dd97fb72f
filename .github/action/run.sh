#!/usr/bin/env bash
# Runs the check. What it finds does not fail this step: its exit code is an
# output, so that the report can still be uploaded. Exit code 0 or 1 without a
# report becomes 3: nothing is known to have been checked.
#
# Outputs: exit-code, root (of the repository), sarif-file, report-json,
# report-html, comment (a file), and from the report base, denied, new, undecided,
# suppressed, unchanged, fixed.
. "${BASH_SOURCE[0]%/*}/lib.sh"

# GitHub loses a summary of more than 1 MiB as a whole. preadmit's ends at
# 900 KiB; this holds whatever program was given.
summary_limit=$((1000 * 1024))

main() {
  boolean sarif "$INPUT_SARIF"
  boolean summary "$INPUT_SUMMARY"
  boolean require-complete "$INPUT_REQUIRE_COMPLETE"
  boolean only-new "${INPUT_ONLY_NEW:-false}"
  case $INPUT_COMMENT in
  always | failures | never | true | false) ;;
  *) fail 2 "the input comment is \"$INPUT_COMMENT\", which is none of always, failures, never" ;;
  esac
  [[ $INPUT_SUMMARY_SIZE =~ ^([1-9][0-9]{0,3})?$ ]] || fail 2 "the input summary-size is \"$INPUT_SUMMARY_SIZE\", which is no number of KiB"
  case $INPUT_ANNOTATIONS in
  auto | true | false) ;;
  *) fail 2 "the input annotations is \"$INPUT_ANNOTATIONS\", which is none of auto, true, false" ;;
  esac
  CDPATH='' cd -- "${INPUT_WORKING_DIRECTORY:-.}" 2>/dev/null || fail 2 'the input working-directory names no directory'
  dir=$(temporary) || fail 3 'no temporary directory could be made'
  arguments
  local code=0
  quoted check || code=$?
  case $code in
  0 | 1) complete || {
    error "preadmit ended with exit code $code and left no complete report, so nothing is known to have been checked."
    code=3
  } ;;
  esac
  output exit-code "$code"
  output root "$(root)"
  reported
  annotate
  summarise
  comment
}

# arguments puts the inputs into args. What is given by args comes first: a flag
# there that lacks its value takes the first report in its place, and the check
# fails for want of a report, instead of losing a path or the base.
arguments() {
  args=(check)
  # By it places in the reports lead to their lines; one in args wins.
  case ${LINKS:-} in https://* | http://*) link="--link-prefix=$LINKS" ;; *) link='' ;; esac
  [ -z "$link" ] || args+=("$link")
  further
  args+=("--output=json=$dir/report.json" "--output=sarif=$dir/preadmit.sarif" "--output=markdown=$dir/summary.md"
    "--output=github=$dir/annotations.txt" --output=text --color=never)
  [ -z "$INPUT_ARTIFACT" ] || args+=("--output=html=$dir/report.html")
  [ -z "$INPUT_SUMMARY_SIZE" ] || args+=("--markdown-limit=$((INPUT_SUMMARY_SIZE * 1024))")
  [ -z "$INPUT_CONFIG" ] || args+=("--config=$INPUT_CONFIG")
  # By it sources of Argo CD and Flux are known to be this repository.
  [ -z "${GITHUB_REPOSITORY:-}" ] || args+=("--repository=${GITHUB_SERVER_URL:-https://github.com}/$GITHUB_REPOSITORY")
  [ -z "$INPUT_KUBE_VERSION" ] || args+=("--kube-version=$INPUT_KUBE_VERSION")
  lines --values= "$INPUT_VALUES"
  lines --policy= "$INPUT_POLICIES"
  lines --pack= "$INPUT_PACKS"
  lines --with= "$INPUT_WITH"
  [ -z "$BASE" ] || args+=("--base=$BASE")
  [ -z "$STORE" ] || args+=("--store=$STORE")
  [ -z "$INPUT_FAIL_ON" ] || args+=("--fail-on=$INPUT_FAIL_ON")
  [ "$INPUT_REQUIRE_COMPLETE" = false ] || args+=(--require-complete)
  [ "${INPUT_ONLY_NEW:-false}" = false ] || args+=(--only-new)
  [ -z "${INPUT_SHARD:-}" ] || args+=("--shard=$INPUT_SHARD")
  [ -z "$INPUT_CATEGORY" ] || args+=("--category=$INPUT_CATEGORY")
  args+=(--)
  lines '' "$INPUT_PATHS"
}

# further adds the input args: flags of preadmit check, but none that decides
# what is compared and where the reports go.
further() {
  local l
  while IFS= read -r l || [ -n "$l" ]; do
    l=$(trim "$l")
    case $l in
    '') continue ;;
    --base | --base=*) fail 2 "the input args holds \"$l\": use the input base" ;;
    --shard | --shard=*) fail 2 "the input args holds \"$l\": use the input shard" ;;
    --category | --category=*) fail 2 "the input args holds \"$l\": use the input category" ;;
    --output | --output=* | --help | --help=* | --color | --color=*) own "$l" ;;
    -- | -) own "$l" ;;
    --*) ;;
    -*) [[ ! $l =~ ^-[vq]*[oh] ]] || own "$l" ;;
    *) fail 2 "the input args holds \"$l\", which is no flag: use the input paths for a path, and --flag=value for a value" ;;
    esac
    args+=("$l")
  done <<<"$INPUT_ARGS"
}

own() { fail 2 "the input args holds \"$1\", which is not for args: the action itself sets reports, colours and paths"; }

# complete tells whether the reports were written to their end.
complete() {
  [ -f "$dir/report.json" ] && [ "$(sed -n 2p "$dir/report.json")" = '  "schema": "preadmit.report/v1",' ] &&
    [ "$(tail -n 1 "$dir/report.json")" = '}' ] || return 1
  [ "$INPUT_SARIF" = false ] || [ -f "$dir/preadmit.sarif" ]
}

# lines adds an argument for each line of an input that is not empty.
lines() {
  local l
  while IFS= read -r l || [ -n "$l" ]; do
    l=$(trim "$l")
    [ -z "$l" ] || args+=("$1$l")
  done <<<"$2"
}

check() { preadmit "${args[@]}"; }

# preadmit runs without the environment of the job, which it needs nothing of; on
# Windows a process can't do without it.
preadmit() {
  if [ "$RUNNER_OS" = Windows ]; then
    "$PROGRAM" "$@" </dev/null
  else
    # By a shell, since env would take a path with "=" in it for a variable.
    # shellcheck disable=SC2016
    env -i TMPDIR="$dir" NO_COLOR=1 /bin/sh -c 'exec "$0" "$@"' "$PROGRAM" "$@" </dev/null
  fi
}

# reported sets the outputs that tell what the report says. Each result stands
# on a line of its own, and a quote within a string is escaped, so that none
# can look like a key.
reported() {
  [ -f "$dir/report.json" ] || return 0
  compared=$(sed -n 's/^  "base": {.*"commit":"\([0-9a-f]*\)"},$/\1/p' "$dir/report.json")
  output base "$compared"
  output report-json "$dir/report.json"
  [ ! -f "$dir/preadmit.sarif" ] || output sarif-file "$dir/preadmit.sarif"
  [ ! -f "$dir/report.html" ] || output report-html "$dir/report.html"
  awk '
    $0 == "  \"results\": [" { inside = 1; next }
    /^  \]/ { inside = 0 }
    !inside { next }
    /"baseline":"absent",/ { fixed++; next }
    !/"outcome":"(fail|unknown|error)",/ { next }
    !/"suppression":null,/ { suppressed++; next }
    /"baseline":"unchanged",/ { unchanged++; next }
    { counts++ }
    /"outcome":"fail","action":"deny",/ { denied++ }
    /"outcome":"(unknown|error)",/ { undecided++ }
    END {
      print "denied=" denied + 0; print "new=" counts + 0; print "undecided=" undecided + 0; print "suppressed=" suppressed + 0
      print "unchanged=" unchanged + 0; print "fixed=" fixed + 0
    }
  ' "$dir/report.json" >>"$GITHUB_OUTPUT"
}

# comment writes what a comment says, which holds 65536 characters. The lines
# come from the report, so what is not in the repository has none.
comment() {
  case $INPUT_COMMENT in never | false) return 0 ;; esac
  [ -f "$dir/report.json" ] || return 0
  if quoted preadmit convert "$dir/report.json" "--output=markdown=$dir/comment.md" --markdown-limit=60000 ${link:+"$link"}; then
    output comment "$dir/comment.md"
  else
    warning 'There is no comment: this preadmit can not write one.'
  fi
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
uploads() { [ "$INPUT_SARIF" = true ] && [ -z "${INPUT_SHARD:-}" ] && [ -f "$dir/preadmit.sarif" ] && ! readonly_token; }

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
  [ -n "${compared:-}" ] || printf '\nNot compared with a base: %s\n' "$HOW" >>"$GITHUB_STEP_SUMMARY"
}

main
