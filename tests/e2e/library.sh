#!/usr/bin/env bash
# The installed tree: program, library and CMake package; an example builds against it and answers
# what the program answers.
source "$(dirname "$0")/lib.bash"
build=$(dirname "$hf2q")
prefix=$work/installed

cmake --install "$build" --prefix "$prefix" >/dev/null
installed=$prefix/bin/hf2q
expect_equal "$("$hf2q" --version)" "$("$installed" --version)" "version of the installed program"
expect_equal "hf2q/hf2q.h" "$(cd "$prefix/include" && find . -type f | sed 's,^\./,,')" "public headers"

cxx=$(grep '^CMAKE_CXX_COMPILER:' "$build/CMakeCache.txt" | cut -d= -f2)
cmake -S examples -B "$work/examples" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Wpedantic -Werror" >"$work/log" || { cat "$work/log"; fail "configuring the examples"; }
cmake --build "$work/examples" >"$work/log" || { cat "$work/log"; fail "building the examples"; }

model=$work/model.gguf
"$installed" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
for prompt in 'What is the capital of Norway?' 'Hello, my name is Vera.'; do
  expect_equal "$("$hf2q" generate -q -m "$model" --temp 0 -p "$prompt")" \
    "$("$work/examples/stream" "$model" "$prompt" 2>/dev/null)" "answer to $prompt"
done
expect_exit 1 "LICENSE" "$work/examples/stream" LICENSE x
expect_exit 1 "cannot open" "$work/examples/stream" "$work/none.gguf" x
