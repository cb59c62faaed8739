# Shared by the end-to-end tests: `source "$(dirname "$0")/lib.bash"`. $1 of a test is the program.
set -euo pipefail
hf2q=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "FAILED: $*" >&2; exit 1; }

# expect_exit CODE TEXT COMMAND...: the exit code, and TEXT somewhere on stderr.
expect_exit() {
  local code=$1 text=$2 status=0
  shift 2
  "$@" >"$work/stdout" 2>"$work/stderr" || status=$?
  [ "$status" -eq "$code" ] || { cat "$work/stderr" >&2; fail "exit code $code expected, found $status: $*"; }
  grep -qF -- "$text" "$work/stderr" || { cat "$work/stderr" >&2; fail "\"$text\" expected on stderr: $*"; }
}

# expect_equal EXPECTED FOUND WHAT
expect_equal() { [ "$1" = "$2" ] || fail "$3: \"$1\" expected, found \"$2\""; }
