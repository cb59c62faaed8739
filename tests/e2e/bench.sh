#!/usr/bin/env bash
# bench: which rows there are, in what order, in each of the three forms.
source "$(dirname "$0")/lib.bash"
model=$work/model.gguf
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
bench() { "$hf2q" bench -q -m "$model" "$@"; }

bench -r 2 -p 16,24 -n 4 -d 0,40 --json >"$work/rows.json"
# Per depth the prompts, then the generation.
expect_equal "pp16,pp24,tg4,pp16 @ d40,pp24 @ d40,tg4 @ d40" \
  "$(grep '"test"' "$work/rows.json" | cut -d'"' -f4 | paste -sd,)" "tests"
expect_equal "0 0 0 40 40 40" "$(grep '"n_depth"' "$work/rows.json" | tr -dc '0-9\n' | paste -sd' ')" "depths"
# Mean and deviation are those of the two samples: (a + b) / 2 and |a - b| / sqrt(2).
awk -F'[:,]' '
  function near(x, y) { return (x - y) ^ 2 <= (1e-6 * x) ^ 2 + 1e-12 }
  /"tokens_per_second"/ { mean = $2 }
  /"stddev"/ { deviation = $2 }
  /"samples"/ { n = 0; next }
  /^ +[0-9.]+,?$/ { sample[n++] = $1 + 0 }
  n == 2 {
    if (sample[0] <= 0 || !near(mean, (sample[0] + sample[1]) / 2)) exit 1
    if (!near(2 * deviation ^ 2, (sample[0] - sample[1]) ^ 2)) exit 1
    n = 0; ++rows
  }
  END { exit rows == 6 ? 0 : 1 }' "$work/rows.json" || fail "mean and deviation: $(cat "$work/rows.json")"

table=$(bench -p 16 -n 0 -r 1 -ctk f32 -ctv f16)
expect_equal 3 "$(wc -l <<<"$table")" "lines of the table"
grep -qE '^\| Tiny Gemma4 q8_0 \| .* \|    f32 \|    f16 \| +pp16 \| +[0-9.]+ ± 0\.00 \|$' <<<"$table" || fail "table: $table"
# Formats of layers with a window stand beside the others where they differ.
bench -p 16 -n 0 -r 1 -ctv tq8 --cache-type-v-swa tq4 >"$work/table"
grep -qE '\|    f16 \| tq8, swa tq4 \|' "$work/table" || fail "table: $(cat "$work/table")"
expect_equal '"f16","tq8","f16","tq4"' \
  "$(bench -p 16 -n 0 -r 1 -ctv tq8 --cache-type-v-swa tq4 -o csv | sed -n 2p | cut -d, -f8-11)" "formats in CSV"
expect_equal 'model,file_type' "$(bench -r 1 -p 0 -n 2 -o csv | head -1 | cut -d, -f1,2)" "names of the columns"
expect_equal '"tg2"' "$(bench -r 1 -p 0 -n 2 -o csv | sed -n 2p | grep -o '"tg2"')" "test in the second line"

expect_exit 2 "found 0" "$hf2q" bench -m "$model" -p 0 -n 0
expect_exit 2 "at most 16 tokens expected (the context), found 20" "$hf2q" bench -m "$model" -p 20 -n 0 -c 16
expect_exit 2 "--repetitions" "$hf2q" bench -m "$model" -r 0
expect_exit 3 "LICENSE" "$hf2q" bench -m LICENSE
expect_exit 2 'parted by commas expected, found "8,x"' "$hf2q" bench -m "$model" -p 8,x
