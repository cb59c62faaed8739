#!/usr/bin/env bash
# doctor, completions, and spellings of flags.
source "$(dirname "$0")/lib.bash"

"$hf2q" doctor >"$work/report"
grep -q "without CUDA\|with CUDA" "$work/report" || fail "doctor does not say how it was built"
json=$("$hf2q" doctor --json)
for key in version compiler cuda cpu isa instruction_sets processors usable_processors cores numa_nodes \
  memory_total memory_available memory_limit huge_pages read_bandwidth warnings; do
  grep -q "\"$key\":" <<<"$json" || fail "doctor --json has no $key"
done
expect_equal "$(awk '/MemTotal/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)" "$(grep -o '"memory_total": *[0-9]*' <<<"$json" | grep -o '[0-9]*$')" "bytes of memory"

# Every command and every flag that --help shows is completed.
for shell in bash zsh fish; do "$hf2q" completions $shell >"$work/$shell"; done
bash -n "$work/bash" || fail "bash cannot read its completions"
commands=$("$hf2q" --help | sed -n '/^Subcommands:/,$p' | grep -o '^  [a-z][a-z-]*' | tr -d ' ')
grep -qx completions <<<"$commands" || fail "--help lists no commands"
flags=0
for command in $commands; do
  for shell in bash zsh fish; do grep -qw "$command" "$work/$shell" || fail "$shell: no $command"; done
  grep "^ *$command)" "$work/bash" >"$work/bash.words"
  grep "from $command'" "$work/fish" >"$work/fish.words"
  for name in $("$hf2q" "$command" --help | grep -oE '^ +(-[a-zA-Z],)?--[a-z0-9-]+(,--[a-z0-9-]+)*' | tr ',' '\n' | grep -o '\--.*'); do
    grep -q -- "$name " "$work/bash.words" || fail "bash: $command $name is not completed"
    grep -q -- "$name\[" "$work/zsh" || fail "zsh: $name"
    grep -q -- "-l ${name#--} " "$work/fish.words" || fail "fish: $command $name is not completed"
    flags=$((flags + 1))
  done
done
[ $flags -gt 100 ] || fail "only $flags flags seen in --help"
# What bash makes of it: words complete(WORDS...), the last one being completed.
source "$work/bash"
complete_words() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=(); _hf2q; echo "${COMPREPLY[*]}"; }
expect_equal doctor "$(complete_words hf2q doc)" "completion of a command"
expect_equal --hidden "$(complete_words hf2q logits -m x --hid)" "completion of a flag"
expect_equal "" "$(complete_words hf2q -q logits -m mod)" "completion of a file"
expect_exit 2 "tcsh" "$hf2q" completions tcsh

# Spellings of others, and flags from a file.
model=$work/model.gguf
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
answer() { "$hf2q" generate -q -m "$model" -p Hello --temp 0 -n 4 "$@"; }
expected=$(answer)
expect_equal "$expected" "$(answer -np 2 -ngl 0 -fa on)" "answer with other spellings"
expect_equal "$expected" "$(answer --slots 2 -fa 2>/dev/null)" "answer with other spellings"
expect_exit 0 "--n-gpu-layers: no effect" "$hf2q" generate -m "$model" -p Hello -n 1 -ngl 99
expect_exit 0 "--flash-attn: no effect" "$hf2q" generate -m "$model" -p Hello -n 1 -fa off
expect_exit 2 "parallel" "$hf2q" generate -m "$model" -p Hello -np 0
printf 'quiet=true\n[generate]\nmodel="%s"\ntemp=0\nprompt="Hello"\npredict=4\n' "$model" >"$work/flags.toml"
expect_equal "$expected" "$("$hf2q" generate --config "$work/flags.toml")" "answer with flags from a file"
printf '[generate]\nmodell="%s"\n' "$model" >"$work/bad.toml"
expect_exit 2 "modell" "$hf2q" generate --config "$work/bad.toml" -m "$model" -p Hello
expect_exit 2 "nowhere.toml" "$hf2q" generate --config "$work/nowhere.toml" -m "$model" -p Hello
