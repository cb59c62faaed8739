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

# convert_small NAME OUT [FLAGS...]: a checkpoint of tests/data, which has no tokenizer of its own.
convert_small() {
  local name=$1 out=$2
  shift 2
  mkdir "$work/$name"
  cp "tests/data/$name"/{config.json,generation_config.json,model.safetensors} models/tiny-gemma4/tokenizer.json "$work/$name/"
  "$hf2q" convert "$work/$name" -o "$out" "$@" >/dev/null
}

# golden_ids JSON NAME: the token ids of the entry NAME.
golden_ids() {
  tr -d ' \n' <"$1" | grep -o "\"$2\":{.*" | grep -o '"token_ids":\[[0-9,]*\]' | sed -n 1p | cut -d[ -f2 | tr -d ']'
}

# tensor FILE NAME: the values of an F32 tensor of a safetensors file, one a line.
tensor() {
  local file=$1 header entry begin end
  header=$(od -A n -t u8 -N 8 "$file" | tr -d ' ')
  entry=$(head -c $((8 + header)) "$file" | tail -c +9 | grep -o "\"$2\":{[^}]*}") || fail "$file: no tensor $2"
  [[ $entry =~ \"F32\" && $entry =~ \"data_offsets\":\[([0-9]+),([0-9]+)\] ]] || fail "$file: $entry"
  begin=${BASH_REMATCH[1]} end=${BASH_REMATCH[2]}
  od -A n -v -t f4 -w4 -j $((8 + header + begin)) -N $((end - begin)) "$file"
}

# expect_close TOLERANCE WHAT EXPECTED FOUND: two files of as many numbers, each within TOLERANCE.
expect_close() {
  paste "$3" "$4" | awk -v most="$1" '
    NF != 2 { bad = 1; exit }
    { d = $1 - $2; if (d < 0) d = -d; if (d > worst) worst = d }
    END { if (bad || NR == 0 || worst > most) { print "difference " worst " in " NR " values"; exit 1 } }' ||
    fail "$2 differs"
}

# serve FLAGS...: a server for the file $model, ready; sets server and url, and logs to $work/log.
server=
serve() {
  : >"$work/log"
  "$hf2q" serve -m "$model" --port 0 "$@" 2>"$work/log" &
  server=$!
  trap 'kill -9 $server 2>/dev/null || true; rm -rf "$work"' EXIT
  for _ in $(seq 300); do
    url=$(grep -oE 'http://[0-9.]+:[0-9]+' "$work/log" | head -1) || true
    [ -n "$url" ] && return
    sleep 0.02
  done
  fail "the server does not start: $(cat "$work/log")"
}
# Lets the answers in work finish.
stop() {
  kill "$server"
  local status=0
  wait "$server" || status=$?
  expect_equal 0 "$status" "exit code after SIGTERM"
}
