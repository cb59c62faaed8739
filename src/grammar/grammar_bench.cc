// Benchmarks of grammars: masks along a text, token by token. With HF2Q_GEMMA3_TOKENIZER set to the
// tokenizer.json of Gemma 3 they use its 262,144 tokens, else the small one of models/.

#include "grammar/grammar.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "base/check.h"
#include "tokenizer/gemma3_for_tests.h"
#include "tokenizer/tokenizer_json.h"

namespace hf2q {
namespace {

using Json = nlohmann::ordered_json;

const Tokenizer& mask_tokenizer() {
  static const Tokenizer kTokenizer = [] {
    Result<Vocabulary> vocabulary =
        read_tokenizer_json(gemma3_tokenizer_or(HF2Q_MODELS "/tiny-gemma4/tokenizer.json"));
    CHECK(vocabulary.ok());
    Result<Tokenizer> made = Tokenizer::create(std::move(vocabulary.value()));
    CHECK(made.ok());
    return std::move(made.value());
  }();
  return kTokenizer;
}

const std::shared_ptr<const GrammarVocabulary>& mask_vocabulary() {
  static const auto kVocabulary = GrammarVocabulary::create(mask_tokenizer());
  return kVocabulary;
}

constexpr const char* kOrder = R"({
  "type": "object", "additionalProperties": false,
  "properties": {
    "id": {"type": "string", "format": "uuid"},
    "customer": {"$ref": "#/$defs/person"},
    "status": {"enum": ["open", "paid", "sent back"]},
    "note": {"type": "string", "maxLength": 500},
    "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"},
    "items": {"type": "array", "minItems": 1, "items": {
      "type": "object", "required": ["name", "count", "price"],
      "properties": {"name": {"type": "string"}, "count": {"type": "integer", "minimum": 1},
                     "price": {"type": "number"}, "tags": {"type": "array", "items": {"type": "string"}}}}}},
  "required": ["id", "customer", "status", "items"],
  "$defs": {"person": {"type": "object", "required": ["name"],
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": ["integer", "null"]},
                   "friends": {"type": "array", "items": {"$ref": "#/$defs/person"}}}}}})";
constexpr const char* kOrderText =
    R"({"id": "0f8fad5b-d9cb-469f-a165-70867728950e", "customer": {"name": "Zoë Müller-Grünwald of 東京",
  "age": 41, "friends": [{"name": "Ana", "age": null}, {"name": "Bo \"the boat\" Smith"}]},
  "status": "sent back", "note": "It arrived with a broken lid.\nPlease send a new one \u2014 the old one is on its way back to you, in the box it came in.",
  "code": "ZX-2041", "items": [{"name": "Tea pot, blue", "count": 2, "price": 24.90, "tags": ["kitchen", "fragile"]},
    {"name": "Cups", "count": 6, "price": 3.5e1}]})";
constexpr const char* kArithmetic =
    "root ::= sum\nsum ::= term ([+-] term)*\nterm ::= factor ([*/] factor)*\n"
    "factor ::= [0-9]+ | name | \"(\" sum \")\"\nname ::= [a-zA-Z_] [a-zA-Z0-9_]*\n";
constexpr const char* kProse = "root ::= line+\nline ::= [^\\n#]* (\"#\" [a-z ]*)? \"\\n\"\n";

Result<Grammar::Shared> from_schema(const char* text) {
  return Grammar::from_json_schema(Json::parse(text), mask_vocabulary());
}
Result<Grammar::Shared> from_gbnf(const char* text) {
  return Grammar::from_gbnf(text, mask_vocabulary());
}

// One pass over the text's tokens; seconds of each mask are appended.
void time_masks(const Grammar::Shared& grammar, std::span<const int32_t> ids,
                std::vector<double>& seconds) {
  GrammarState state(grammar);
  TokenBits bits(mask_vocabulary()->n_words());
  for (const int32_t id : ids) {
    const auto start = std::chrono::steady_clock::now();
    state.allowed(bits);
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    CHECK(has_bit(bits, static_cast<size_t>(id)) && state.accept(id));
  }
  CHECK(state.may_end());
}

// mask/*: microseconds of one mask, median, 99th percentile and largest; `cold`: the grammar is new
// in each pass.
void mask(benchmark::State& state, Result<Grammar::Shared> (*make)(const char*), const char* rules,
          const char* text, bool cold) {
  const std::vector<int32_t> ids = mask_tokenizer().encode(text, {.parse_special = false});
  Grammar::Shared grammar = std::move(make(rules).value());
  std::vector<double> seconds;
  for (auto _ : state) {
    if (cold) grammar = std::move(make(rules).value());
    time_masks(grammar, ids, seconds);
  }
  std::ranges::sort(seconds);
  const auto at = [&](double part) {
    return 1e6 * seconds[static_cast<size_t>(part * static_cast<double>(seconds.size() - 1))];
  };
  state.counters["median_us"] = at(0.5);
  state.counters["p99_us"] = at(0.99);
  state.counters["max_us"] = at(1.0);
  state.counters["tokens"] = static_cast<double>(ids.size());
}

BENCHMARK_CAPTURE(mask, json_object_cold, from_schema, R"({"type":"object"})", kOrderText, true);
BENCHMARK_CAPTURE(mask, json_object_warm, from_schema, R"({"type":"object"})", kOrderText, false);
BENCHMARK_CAPTURE(mask, schema_cold, from_schema, kOrder, kOrderText, true);
BENCHMARK_CAPTURE(mask, schema_warm, from_schema, kOrder, kOrderText, false);
BENCHMARK_CAPTURE(mask, arithmetic_cold, from_gbnf, kArithmetic, "(width+2*42)/height-x_1*(3+y)",
                  true);
BENCHMARK_CAPTURE(mask, arithmetic_warm, from_gbnf, kArithmetic, "(width+2*42)/height-x_1*(3+y)",
                  false);
BENCHMARK_CAPTURE(mask, prose_cold, from_gbnf, kProse,
                  "A line of text,\nand one more # with a mark\n", true);
BENCHMARK_CAPTURE(mask, prose_warm, from_gbnf, kProse,
                  "A line of text,\nand one more # with a mark\n", false);

void compile_schema(benchmark::State& state) {
  const Json schema = Json::parse(kOrder);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Grammar::from_json_schema(schema, mask_vocabulary()));
  }
}
BENCHMARK(compile_schema)->Unit(benchmark::kMillisecond);

void make_vocabulary(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(GrammarVocabulary::create(mask_tokenizer()));
}
BENCHMARK(make_vocabulary)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hf2q
