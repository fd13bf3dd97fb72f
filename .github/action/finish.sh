#!/usr/bin/env bash
# Ends the action with the check's exit code, after all that may still be said.
#
# Outputs: exit-code.
. "${BASH_SOURCE[0]%/*}/lib.sh"

main() {
  local code=${EXIT_CODE:-3}
  if [ "$RUN" = success ]; then
    verdict
    uploaded || [ "$code" -ne 0 ] || code=3
  fi # else the step that failed has said why
  output exit-code "$code"
  exit "$code"
}

verdict() {
  case $EXIT_CODE in
  0) ;;
  1) error "Denied: the API server would refuse $(results "$DENIED"), of $(results "$NEW") that count. The log and the summary have them." ;;
  2) error 'The check did not run: the inputs or the configuration are wrong, as the log says.' ;;
  3)
    [ -n "$UNDECIDED" ] || { error 'The check did not come to its end, as the log says.'; return; }
    error "Not all could be checked: $(results "$UNDECIDED") could not be rendered, compiled or decided. The log and the summary have them."
    ;;
  *) error "preadmit ended with exit code $EXIT_CODE, as the log says." ;;
  esac
}

results() { if [ "$1" = 1 ]; then printf '1 result'; else printf '%s results' "$1"; fi; }

# uploaded says what became of the SARIF file. Where the token may only read,
# code scanning may refuse it; elsewhere an upload that fails leaves alerts as
# they were, which is not to be missed.
uploaded() {
  [ "$UPLOAD" = failure ] || return 0
  if readonly_token; then
    notice 'Code scanning did not take the report: the token of this run may only read. The log and the summary have it.'
    return 0
  fi
  error 'Code scanning did not take the report. The job needs the permission security-events: write, and the repository code scanning; without these, set sarif: false.'
  return 1
}

main
