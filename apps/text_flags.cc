#include "text_flags.h"

#include <fmt/format.h>

namespace hf2q::app {

void add_text_flags(Command& command, TextFlags& flags, const ModelFlags& model) {
  const Option file = command.add_option("-f,--file", flags.file, "The text");
  const Option tokens = command.add_option("--tokens-file", flags.tokens_file,
                                           "The text as a JSON array of token ids");
  command.require_one_of({file, tokens}, &model.dry_run);
}

Result<std::vector<int32_t>> read_text_ids(const TextFlags& flags, const Tokenizer& tokenizer) {
  if (!flags.tokens_file.empty()) {
    TRY(text, read_text_file(flags.tokens_file));
    return parse_ids(text, tokenizer.n_tokens());
  }
  TRY(text, read_text_file(flags.file));
  return tokenizer.encode(text, {.add_bos = true, .parse_special = false});
}

void print_divergence(const Divergence& d) {
  fmt::print(
      "KL divergence    mean {:.6f}, median {:.6f}, 99th percentile {:.6f} nats over {} tokens\n"
      "same top token   {:.2f} %\n"
      "perplexity       {:.4f}, reference {:.4f}\n",
      d.kl_mean, d.kl_median, d.kl_p99, d.n_tokens, 100 * d.same_top1, d.ppl_b, d.ppl_a);
}

nlohmann::ordered_json to_json(const Divergence& d) {
  return {{"tokens", d.n_tokens}, {"kl_mean", d.kl_mean},     {"kl_median", d.kl_median},
          {"kl_p99", d.kl_p99},   {"same_top1", d.same_top1}, {"ppl_a", d.ppl_a},
          {"ppl_b", d.ppl_b}};
}

}  // namespace hf2q::app
