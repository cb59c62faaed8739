// Loads a model, asks it something and prints the answer as it comes.
// usage: stream MODEL.gguf "What is the capital of Norway?"

#include <hf2q/hf2q.h>

#include <cstdio>
#include <span>

using namespace hf2q::v1;

static int fail(const Error& error) {
  std::fprintf(stderr, "stream: %s\n", error.message.c_str());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: stream MODEL.gguf PROMPT\n");
    return 2;
  }
  Result<Model> model = Model::load(argv[1]);
  if (!model) return fail(model.error());

  auto prompt = model->chat_tokens({{"user", argv[2]}});
  if (!prompt) return fail(prompt.error());

  GenerateOptions options;
  options.sampling.temperature = 0;
  options.on_text = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return std::fflush(stdout) == 0;
  };
  Sequence sequence = model->new_sequence();
  Result<Answer> answer = sequence.generate(*prompt, options);
  if (!answer) return fail(answer.error());

  std::printf("\n");
  std::fprintf(stderr, "%zu tokens after %.0f ms\n", answer->tokens.size(),
               answer->prompt_seconds * 1000);
  return 0;
}
