// POST /v1/embeddings

#include <utility>

#include "serve/answer_stream.h"
#include "serve/embedding_reply.h"
#include "serve/routes.h"

namespace hf2q {
namespace {

struct EmbeddingWork {
  bool base64 = false;
  std::vector<std::vector<float>> vectors;  // [input]
  ReplyTotals totals;
};

Result<std::vector<ServeRequest>> read_embeddings(const Api& api, const HttpRequest& request,
                                                  EmbeddingWork& work) {
  TRY(body, parse_body(request.body));
  TRY(asked, parse_embedding_request(body, api.defaults));
  work.base64 = asked.base64;
  work.vectors.resize(asked.inputs.size());
  std::vector<ServeRequest> requests;
  for (const PromptInput& input : asked.inputs) {
    const auto* text = std::get_if<std::string>(&input);
    ServeRequest& one = requests.emplace_back();
    one.embedding = true;
    one.name_space = name_space_of(api, request, asked.cache_salt, /*use_cache=*/true);
    one.prompt = text != nullptr
                     ? api.tokenizer().encode(*text, {.add_bos = true, .parse_special = false})
                     : std::get<std::vector<int32_t>>(input);
  }
  return requests;
}

}  // namespace

void handle_embeddings(const Api& api, const HttpRequest& request,
                       const std::shared_ptr<HttpExchange>& exchange) {
  const auto work = std::make_shared<EmbeddingWork>();
  Result<std::vector<ServeRequest>> requests = read_embeddings(api, request, *work);
  if (!requests.ok()) return exchange->send(error_reply(requests.error()));
  RequestGroupHooks hooks;
  hooks.on_event = [work](size_t index, ServeEvent& event) {
    if (auto* embedding = std::get_if<EmbeddingEvent>(&event)) {
      work->vectors[index] = std::move(embedding->values);
    } else if (const auto* end = std::get_if<RequestEnd>(&event)) {
      work->totals.add(*end);
    }
  };
  hooks.on_end = [work, exchange, &api] {
    note_totals(*exchange, work->totals);
    exchange->send({.body = embedding_reply(api.options.model_name, work->vectors, work->base64,
                                            work->totals.n_prompt)});
  };
  hooks.on_failure = [exchange](const ApiError& error) { exchange->fail(error_reply(error)); };
  RequestGroup::start(api.service, exchange, std::move(requests.value()), std::move(hooks));
}

}  // namespace hf2q
