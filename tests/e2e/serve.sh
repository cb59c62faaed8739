#!/usr/bin/env bash
# serve, with curl: every endpoint, streams, tools, errors, hostile bodies, clients that leave, many at once.
source "$(dirname "$0")/lib.bash"
model=$work/tiny.gguf
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
# post PATH BODY [CURL FLAGS...]
post() { curl -sS --max-time 60 -H 'Content-Type: application/json' -d "$2" "${@:3}" "$url$1"; }
# status PATH BODY: the status alone.
status() { post "$1" "$2" -o "$work/body" -w '%{http_code}' "${@:3}"; }
# field NAME: the values of "NAME": "..." in the JSON on stdin.
field() { grep -oE "\"$1\":\"([^\"\\\\]|\\\\.)*\"" | sed -E "s/^\"$1\":\"(.*)\"$/\1/"; }
has() { grep -qF -- "$1" <<<"$2" || fail "$1 expected in: $2"; }
lacks() { ! grep -qF -- "$1" <<<"$2" || fail "$1 found in: $2"; }

ask='"messages":[{"role":"user","content":"What is the capital of Norway?"}],"temperature":0'
oslo='The capital of Norway is Oslo.'
serve --slots 8 -t 2
chat=/v1/chat/completions

# ---- endpoints ----
expect_equal '{"status":"ok"}' "$(curl -s "$url/health")" health
expect_equal '{"status":"ok"}' "$(curl -s "$url/readyz")" readyz
has '"id":"tiny","object":"model"' "$(curl -s "$url/v1/models")"
has '"n_ctx":32768' "$(curl -s "$url/v1/models/tiny")"
has '"total_slots":8' "$(curl -s "$url/props")"
expect_equal '[]' "$(curl -s "$url/slots")" slots
expect_equal '{"tokens":[2787,4178]}' "$(post /tokenize '{"content":"Hello world"}')" tokenize
expect_equal '{"content":"Hello world"}' "$(post /detokenize '{"tokens":[2787,4178]}')" detokenize
expect_equal '{"prompt":"<bos><|turn>user\nHi<turn|>\n<|turn>model\n"}' \
  "$(post /apply-template '{"messages":[{"role":"user","content":"Hi"}]}')" apply-template
expect_equal "$oslo" "$(post $chat "{$ask}" | field content)" "a chat's answer"
reply=$(post /v1/completions '{"prompt":"The capital of Norway","temperature":0,"max_tokens":4}')
has '"object":"text_completion"' "$reply"
has '"finish_reason":"length"' "$reply"
expect_equal "$("$hf2q" generate -q -m "$model" --raw -p 'The capital of Norway' --temp 0 -n 4)" \
  "$(field text <<<"$reply")" "a completion's text"
"$hf2q" embed -q -m "$model" -p Hello | tr -d '[]\n' | tr ',' '\n' >"$work/alone"
post /v1/embeddings '{"input":"Hello"}' | grep -oE '"embedding":\[[^]]*\]' | cut -d[ -f2 | tr -d ']' | tr ',' '\n' >"$work/served"
expect_close 1e-7 "an embedding" "$work/alone" "$work/served"

# ---- streams ----
post $chat "{$ask,\"stream\":true,\"stream_options\":{\"include_usage\":true}}" -N -D "$work/head" >"$work/stream"
for line in 'Content-Type: text/event-stream' 'Cache-Control: no-cache' 'X-Accel-Buffering: no'; do
  has "$line" "$(cat "$work/head")"
done
grep '^data: ' "$work/stream" >"$work/events"
expect_equal "$(wc -l <"$work/stream")" $(($(wc -l <"$work/events") * 2)) "lines of a stream"
has '"delta":{"role":"assistant"}' "$(head -1 "$work/events")"
expect_equal "$oslo" "$(field content <"$work/events" | tr -d '\n')" "streamed content"
expect_equal 'data: [DONE]' "$(tail -1 "$work/events")" "the last event"
has '"choices":[],"usage":{' "$(tail -2 "$work/events")"
has '"delta":{},"logprobs":null,"finish_reason":"stop"' "$(tail -3 "$work/events" | head -1)"
expect_equal 1 "$(field id <"$work/events" | sort -u | wc -l)" "ids of a stream"
plain=$(post $chat "{$ask,\"stream\":true}" -N)
lacks '"usage"' "$plain"

# ---- tools, forms, stop strings ----
tools='"tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object","properties":{"city":{"enum":["Oslo"]},"days":{"type":"integer","minimum":1,"maximum":9}},"required":["city","days"]}}}]'
reply=$(post $chat "{$ask,$tools,\"tool_choice\":\"required\",\"parallel_tool_calls\":false}")
has '"finish_reason":"tool_calls"' "$reply"
has '"name":"weather"' "$reply"
grep -qE '"arguments":"\{\\"city\\":\\"Oslo\\",\\"days\\":[1-9]\}"' <<<"$reply" || fail "arguments: $reply"
lacks '<|' "$reply"
reply=$(post $chat "{$ask,$tools,\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"weather\"}},\"stream\":true}" -N)
expect_equal weather "$(field name <<<"$reply")" "the name of a streamed call, once"
expect_equal 1 "$(grep -c '"id":"call_' <<<"$reply")" "ids of a streamed call"
reply=$(post $chat "{$ask,\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\",\"schema\":{\"const\":\"Bergen\"}}}}")
expect_equal '\"Bergen\"' "$(field content <<<"$reply")" "a constant"
expect_equal Rome "$(post $chat "{$ask,\"grammar\":\"root ::= \\\"Rome\\\"\"}" | field content)" "a grammar"
expect_equal 'The capital of ' "$(post $chat "{$ask,\"stop\":[\"Norway\"]}" | field content)" "text before a stop string"
reply=$(post $chat "{$ask,\"stop\":[\"Norway\"],\"logprobs\":true,\"top_logprobs\":2}")
n=$(grep -oE '"completion_tokens":[0-9]+' <<<"$reply" | cut -d: -f2)
expect_equal "$n" "$(grep -o '"top_logprobs"' <<<"$reply" | wc -l)" "log-probabilities of $n tokens"

# ---- errors ----
expect_error() {  # STATUS TYPE PARAM PATH BODY
  expect_equal "$1" "$(status "$4" "$5")" "status of ${5:0:60}"
  has "\"type\":\"$2\",\"param\":$3" "$(cat "$work/body")"
}
bad=invalid_request_error
while IFS='|' read -r param body; do
  expect_error 400 $bad "$param" $chat "$body"
done <<EOT
"body"|
"body"|[]
"body"|"x"
"body"|{"messages":
"messages"|{"messages":[]}
"messages[0].content"|{"messages":[{"role":"user","content":null}]}
"messages[0].content[0]"|{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]}
"temperature"|{$ask,"temperature":"1"}
"top_p"|{$ask,"top_p":-1}
"n"|{$ask,"n":1000000000}
"seed"|{$ask,"seed":1e300}
"max_tokens"|{$ask,"max_tokens":-5}
"top_logprobs"|{$ask,"logprobs":true,"top_logprobs":21}
"logit_bias"|{$ask,"logit_bias":{"-1":1}}
"response_format.json_schema.schema"|{$ask,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"not":{}}}}}
"messages[0].tool_calls[0].function.arguments"|{"messages":[{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"a\":"}}]}]}
EOT
expect_error 400 $bad '"input"' /v1/embeddings '{"input":[]}'
expect_error 400 $bad '"dimensions"' /v1/embeddings '{"input":"a","dimensions":3}'
expect_error 400 $bad '"suffix"' /v1/completions '{"prompt":"a","suffix":"b"}'
expect_error 404 not_found_error null /v1/responses '{}'
expect_error 405 $bad null /v1/models '{}'
has 'Allow: GET, HEAD, OPTIONS' "$(curl -si -X DELETE "$url/v1/models")"
expect_equal 415 "$(curl -s -o /dev/null -w '%{http_code}' -d '{}' "$url/tokenize")" "status of a form"
printf '{"messages":[{"role":"user","content":"\xff"}]}' >"$work/not_utf8"
expect_equal 400 "$(status $chat "@$work/not_utf8")" "invalid UTF-8"
head -c 1000000 /dev/zero | tr '\0' '[' >"$work/deep"
expect_equal 400 "$(status $chat "@$work/deep")" "a million ["
head -c 67108864 /dev/zero | tr '\0' ' ' >"$work/large"
expect_equal 413 "$(status $chat "@$work/large")" "64 MB"
expect_equal 413 "$(status $chat "@$work/large" -H 'Transfer-Encoding: chunked' -H 'Expect:')" "64 MB in chunks"
expect_equal "X-Request-Id: mine-1" "$(curl -si -H 'X-Request-Id: mine-1' "$url/health" | tr -d '\r' | grep X-Request-Id)" "request id"
grep -q '"id":"mine-1","client":"127.0.0.1","method":"GET","path":"/health","status":200' "$work/log" || fail "log: $(tail -2 "$work/log")"

# ---- clients that leave, with the whole connection or half of it ----
running() { curl -s "$url/metrics" | grep '^hf2q_requests_running' | cut -d' ' -f2; }
none_runs() {
  for _ in $(seq 100); do
    [ "$(running)" = 0 ] && return
    sleep 0.02
  done
  fail "still running: $(curl -s "$url/slots")"
}
long="{$ask,\"ignore_eos\":true,\"max_tokens\":30000,\"stream\":true}"
post $chat "$long" -N 2>/dev/null | head -c 2000 >/dev/null || true
none_runs
exec 3<>"/dev/tcp/127.0.0.1/${url##*:}"
printf 'POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s' $chat ${#long} "$long" >&3
head -c 2000 <&3 >/dev/null
exec 3>&-
none_runs
has 'outcome="cancelled"} 2' "$(curl -s "$url/metrics")"

# ---- many at once get what each gets alone ----
request() {
  local words=(Norway Sweden Denmark Finland Iceland France Spain Italy)
  echo "{\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of ${words[$1]}?\"}],\"temperature\":$(($1 % 2)),\"seed\":$1,\"max_tokens\":60,\"ignore_eos\":true}"
}
for i in 0 1 2 3 4 5 6 7; do post $chat "$(request $i)" | field content >"$work/alone.$i"; done
for _ in 1 2; do
  clients=()
  for i in 0 1 2 3 4 5 6 7; do
    post $chat "$(request $i)" 2>&1 | field content >"$work/together.$i" &
    clients+=($!)
  done
  wait "${clients[@]}"
  for i in 0 1 2 3 4 5 6 7; do cmp "$work/alone.$i" "$work/together.$i" || fail "client $i differs"; done
done

# ---- the end: answers in work are finished, new ones refused ----
post $chat "{$ask,\"ignore_eos\":true,\"max_tokens\":600}" -o "$work/last" -w '%{http_code}' >"$work/last_status" &
client=$!
for _ in $(seq 100); do [ "$(running)" = 1 ] && break; sleep 0.01; done
kill "$server"
for _ in $(seq 100); do [ "$(status $chat "{$ask}" 2>/dev/null)" = 503 ] && break; sleep 0.01; done
has unavailable_error "$(cat "$work/body")"
wait $client || true
expect_equal 200 "$(cat "$work/last_status")" "the last answer's status"
status=0
wait "$server" || status=$?
expect_equal 0 "$status" "exit code after SIGTERM"

# ---- a second signal ends at once ----
serve
post $chat "$long" -N >/dev/null 2>&1 &
client=$!
for _ in $(seq 100); do [ "$(running)" = 1 ] && break; sleep 0.01; done
kill "$server"
sleep 0.1
kill "$server"
status=0
wait "$server" || status=$?
expect_equal 130 "$status" "exit code after the second signal"
wait $client || true

# ---- what was read is there after a restart, for the same key and salt alone ----
sessions=$work/sessions
mkdir "$sessions"
ln -s /etc/passwd "$sessions/prefix-0007.kv"
touch "$sessions/prefix-0008.kv" "$sessions/$(printf 'x%.0s' $(seq 200))"
cached() { post $chat "{$ask$1}" -H 'Authorization: Bearer one' | grep -oE '"cached_tokens":[0-9]+' | cut -d: -f2; }
serve --session-dir "$sessions" --api-key one --api-key two
cached '' >/dev/null
cached ',"cache_salt":"../x"' >/dev/null
cached ',"cache_prompt":false' >/dev/null
stop
grep -q '2 prompts kept' "$work/log" || fail "sessions: $(tail -3 "$work/log")"
expect_equal 'prefix-0000.kv prefix-0001.kv' "$(cd "$sessions" && find . -type f -name 'prefix-*' -printf '%f\n' | sort | tr '\n' ' ' | sed 's/ $//')" "files kept"
! grep -qa one "$sessions"/prefix-000[01].kv || fail "a key lies on disk"
head -c 100 /dev/urandom >"$sessions/prefix-0002.kv"
serve --session-dir "$sessions" --api-key two --api-key one
grep -q '2 prompts taken up' "$work/log" || fail "sessions: $(cat "$work/log")"
expect_equal 3 "$(grep -c warning "$work/log")" "warnings"
expect_equal 0 "$(post $chat "{$ask}" -H 'Authorization: Bearer two' | grep -oE '"cached_tokens":[0-9]+' | cut -d: -f2)" "tokens reused by another key"
expect_equal 17 "$(cached '')" "tokens reused"
expect_equal 17 "$(cached ',"cache_salt":"../x"')" "tokens reused with the salt"
expect_equal "$oslo" "$(post $chat "{$ask}" -H 'Authorization: Bearer one' | field content)" "answer after a restart"
stop

# ---- keys, origins, context, name ----
printf 'two\nthree\n' >"$work/keys"
serve --api-key one --api-key-file "$work/keys" --cors-origin https://a.b -c 128 --alias other --log-format text
expect_equal 401 "$(status $chat "{$ask}")" "status without a key"
has authentication_error "$(cat "$work/body")"
expect_equal 401 "$(status $chat "{$ask}" -H 'Authorization: Bearer on')" "status with half a key"
expect_equal 401 "$(status $chat "@$work/large")" "64 MB without a key"
for key in one two three; do
  expect_equal "$oslo" "$(post $chat "{$ask}" -H "Authorization: Bearer $key" | field content)" "answer to $key"
done
expect_equal '{"status":"ok"}' "$(curl -s "$url/health")" "health without a key"
has '"cached_tokens":0' "$(cat <(post $chat "{$ask,\"cache_salt\":\"s\"}" -H "Authorization: Bearer one"))"
has 'Access-Control-Allow-Origin: https://a.b' "$(curl -si -X OPTIONS -H 'Origin: https://a.b' "$url$chat")"
lacks 'Access-Control' "$(curl -si -H 'Origin: https://c.d' "$url/health")"
prompt=$(printf 'x %.0s' $(seq 300))
expect_equal 400 "$(status $chat "{\"messages\":[{\"role\":\"user\",\"content\":\"$prompt\"}]}" -H 'Authorization: Bearer one')" "too long a prompt"
grep -qE '"type":"exceed_context_size_error".*"n_prompt_tokens":[0-9]+,"n_ctx":128' "$work/body" || fail "$(cat "$work/body")"
has '"id":"other"' "$(curl -s -H 'Authorization: Bearer one' "$url/v1/models")"
expect_exit 1 "cannot listen" "$hf2q" serve -m "$model" --port "${url##*:}"
stop
expect_exit 3 "nowhere" "$hf2q" serve -m "$work/nowhere" --port 0
expect_exit 2 "--slots" "$hf2q" serve -m "$model" --port 0 --slots 100 -b 32
