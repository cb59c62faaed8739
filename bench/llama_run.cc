// Runs a GGUF file with llama.cpp's own libraries (prebuilt, of an npm package), to see that it
// accepts what we write and computes the same.
//
//   llama_run FILE greedy N IDS...   N greedy tokens after the prompt, one line of ids
//   llama_run FILE top1 IDS...       the most probable next token at each position, one line of ids
//
// F32 cache, flash attention off. The parameter blocks are opaque here; the offsets below belong to
// the package version in bench/llama_check.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

struct alignas(8) ModelParams {
  char bytes[80];
};
struct alignas(8) ContextParams {
  char bytes[160];
};
struct Batch {
  int32_t n_tokens;
  int32_t* token;
  float* embd;
  int32_t* pos;
  int32_t* n_seq_id;
  int32_t** seq_id;
  int8_t* logits;
};

constexpr int kOffsetCtx = 0;
constexpr int kOffsetBatch = 4;
constexpr int kOffsetMicroBatch = 8;
constexpr int kOffsetThreads = 28;
constexpr int kOffsetBatchThreads = 32;
constexpr int kOffsetFlashAttention = 52;
constexpr int kOffsetTypeK = 104;
constexpr int kOffsetTypeV = 108;

}  // namespace

extern "C" {
ModelParams llama_model_default_params();
ContextParams llama_context_default_params();
void llama_backend_init();
void* llama_model_load_from_file(const char* path, ModelParams params);
void* llama_init_from_model(void* model, ContextParams params);
void* llama_model_get_vocab(void* model);
int llama_vocab_n_tokens(void* vocab);
Batch llama_batch_init(int32_t n_tokens, int32_t embd, int32_t n_seq);
int llama_decode(void* context, Batch batch);
float* llama_get_logits_ith(void* context, int32_t i);
void ggml_backend_load_all_from_path(const char* path);
void llama_log_set(void (*log)(int, const char*, void*), void* data);
}

namespace {

void put(char* bytes, int offset, int32_t value) {
  std::memcpy(bytes + offset, &value, 4);
}

void log_errors(int level, const char* text, void* /*data*/) {
  if (level == 4) std::fputs(text, stderr);
}

int32_t argmax(const float* logits, int n) {
  return static_cast<int32_t>(std::max_element(logits, logits + n) - logits);
}

class Run {
 public:
  Run(const char* path, int n_ctx) {
    llama_log_set(log_errors, nullptr);
    ggml_backend_load_all_from_path(std::getenv("GGML_DIR"));
    llama_backend_init();
    void* model = llama_model_load_from_file(path, llama_model_default_params());
    if (model == nullptr) std::exit(1);
    ContextParams params = llama_context_default_params();
    put(params.bytes, kOffsetCtx, n_ctx);
    put(params.bytes, kOffsetBatch, n_ctx);
    put(params.bytes, kOffsetMicroBatch, 512);
    put(params.bytes, kOffsetThreads, 2);
    put(params.bytes, kOffsetBatchThreads, 2);
    put(params.bytes, kOffsetFlashAttention, 0);
    put(params.bytes, kOffsetTypeK, 0);
    put(params.bytes, kOffsetTypeV, 0);
    context_ = llama_init_from_model(model, params);
    if (context_ == nullptr) std::exit(1);
    vocab_ = llama_vocab_n_tokens(llama_model_get_vocab(model));
    batch_ = llama_batch_init(n_ctx, 0, 1);
  }

  // Feeds the tokens; the most probable next one after each.
  std::vector<int32_t> feed(const std::vector<int32_t>& ids) {
    batch_.n_tokens = static_cast<int32_t>(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      batch_.token[i] = ids[i];
      batch_.pos[i] = n_past_++;
      batch_.n_seq_id[i] = 1;
      batch_.seq_id[i][0] = 0;
      batch_.logits[i] = 1;
    }
    if (llama_decode(context_, batch_) != 0) std::exit(1);
    std::vector<int32_t> best;
    for (size_t i = 0; i < ids.size(); ++i) {
      best.push_back(argmax(llama_get_logits_ith(context_, static_cast<int32_t>(i)), vocab_));
    }
    return best;
  }

 private:
  void* context_ = nullptr;
  int vocab_ = 0;
  Batch batch_ = {};
  int32_t n_past_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool greedy = std::strcmp(argv[2], "greedy") == 0;
  const int n = greedy ? std::atoi(argv[3]) : 0;
  std::vector<int32_t> ids;
  for (int i = greedy ? 4 : 3; i < argc; ++i) ids.push_back(std::atoi(argv[i]));
  Run run(argv[1], 4608);
  std::vector<int32_t> best = run.feed(ids);
  if (!greedy) {
    for (const int32_t id : best) std::printf("%d ", id);
  }
  for (int i = 0; i < n; ++i) {
    std::printf("%d ", best.back());
    if (i + 1 < n) best = run.feed({best.back()});
  }
  std::printf("\n");
  return 0;
}
