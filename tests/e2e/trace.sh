#!/usr/bin/env bash
# trace: a layer's values against the reference's hidden states and cache rows, and each other.
source "$(dirname "$0")/lib.bash"
out=$work/out.safetensors
# reference NAME [ROW]: a tensor of the reference, and a row of it, to files.
reference() {
  tensor "$golden.safetensors" "$1" >"$work/$1"
  [ $# -eq 1 ] || sed -n "$(($2 * 128 + 1)),$((($2 + 1) * 128))p" "$work/$1" >"$work/$1.row"
}
found() { tensor "$out" "$1" >"$work/$1"; }
# same NAME REFERENCE_FILE: the traced tensor is that of the reference.
same() { found "$1"; expect_close 2e-4 "$1" "$work/$2" "$work/$1"; }

for name in micro-moe micro-ple; do
  golden=tests/data/$name/golden model=$work/$name.gguf
  convert_small $name "$model" --quant f32
  ids=$(golden_ids $golden.json short)
  layers=4
  [ $name = micro-moe ] || layers=6
  for ((layer = 0; layer < layers; ++layer)); do
    "$hf2q" trace -q -m "$model" --tokens "$ids" --layer $layer --token 6 -o "$out" --weights -ctk f32 -ctv f32 -b 4
    reference short.hidden.0$layer 6
    same pre_layer_hidden short.hidden.0$layer.row
    if ((layer + 1 < layers)); then
      reference short.hidden.0$((layer + 1)) 6
      same l_out short.hidden.0$((layer + 1)).row
    fi
    # The last two layers of micro-ple read the rows of the last owners of their kind.
    owner=$layer
    if [ $name = micro-ple ] && ((layer > 3)); then owner=$((layer == 4 ? 2 : 3)); fi
    if [ $name.$layer = micro-ple.4 ] || [ $name.$layer = micro-ple.5 ]; then
      ! head -c 20000 "$out" | grep -q k_normed || fail "layer $layer of $name has no K of its own"
    fi
    for kv in k v; do
      reference short.$kv.0$owner
      same ${kv}_cache_upto short.$kv.0$owner
    done
    # x / sqrt(mean of squares + eps) * weight
    found post_input_norm
    found weights.attn_norm
    paste "$work/pre_layer_hidden" "$work/weights.attn_norm" |
      awk '{ x[NR] = $1; w[NR] = $2; s += $1 * $1 } END { for (i = 1; i <= NR; ++i) print x[i] / sqrt(s / NR + 1e-6) * w[i] }' >"$work/expected"
    expect_close 1e-4 post_input_norm "$work/expected" "$work/post_input_norm"
    found residual
    found attn_out_pre_resid
    paste "$work/pre_layer_hidden" "$work/attn_out_pre_resid" | awk '{ print $1 + $2 }' >"$work/expected"
    expect_close 1e-4 residual "$work/expected" "$work/residual"
    for point in q_pre_normed q_normed q_rotated sdpa_out; do found $point; done
  done
done

# Inputs of each layer's own, of the model that has them.
found per_layer_input
expect_equal 32 "$(wc -l <"$work/per_layer_input")" "values of the per-layer input"

# The router: the two best of six, their softmax among themselves, times each expert's scale.
"$hf2q" trace -q -m "$work/micro-moe.gguf" --tokens "$(golden_ids tests/data/micro-moe/golden.json short)" --layer 1 --token 3 -o "$out" --weights
for point in router_logits router_choice router_weights weights.ffn_down_exps.scale; do found $point; done
paste "$work/router_logits" "$work/weights.ffn_down_exps.scale" | awk '{ print NR - 1, $1, $2 }' | sort -k2,2gr | head -2 |
  awk '{ id[NR] = $1; e[NR] = exp($2); s[NR] = $3 } END { for (i = 1; i <= 2; ++i) print id[i], e[i] / (e[1] + e[2]) * s[i] }' >"$work/expected"
paste -d' ' "$work/router_choice" "$work/router_weights" | tr -s ' ' '\n' | sed '/^$/d' >"$work/both"
tr ' ' '\n' <"$work/expected" >"$work/expected_both"
expect_close 1e-4 "choice of experts" "$work/expected_both" "$work/both"

expect_exit 2 "layers from 0 to 3 expected" "$hf2q" trace -m "$work/micro-moe.gguf" --tokens 2 --layer 4 --token 0 -o "$work/none"
expect_exit 2 "which has 1, found 1" "$hf2q" trace -m "$work/micro-moe.gguf" --tokens 2 --layer 0 --token 1 -o "$work/none"
[ ! -e "$work/none" ] || fail "a refused run left a file"

# --cache: stored rows and their description, of this layer, of some, of all.
cached() { "$hf2q" trace -q -m "$work/micro-moe.gguf" --tokens "2 5 7" --layer 1 --token 2 -o "$out" -ctk tq4 -ctv q8_0 "$@"; }
names() { head -c 20000 "$out" | grep -ao '"cache\.[0-9]*\.[kv]_[a-z]*"' | sort -u | wc -l; }
cached
expect_equal 0 "$(names)" "stored tensors without --cache"
cached --cache
expect_equal 4 "$(names)" "stored tensors of a layer"
head -c 40000 "$out" | grep -qaF '\"layer\":1,\"owner\":1,\"type\":\"sliding\"' || fail "no description: $(head -c 600 "$out")"
cached --cache 0,3
expect_equal 8 "$(names)" "stored tensors of two layers"
cached --cache all
expect_equal 16 "$(names)" "stored tensors of all layers"
expect_exit 2 "--cache: layers from 0 to 3, or all, expected" cached --cache 4
