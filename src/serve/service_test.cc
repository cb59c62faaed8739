#include "serve/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "serve/service_for_tests.h"

namespace hf2q {
namespace {

using testing_support::alone;
using testing_support::AnswerSeen;
using testing_support::Client;
using testing_support::live_bytes;
using testing_support::submit;
using testing_support::used_bytes_after_clear;
using testing_support::value_of;

constexpr uint32_t kContext = 256;

struct TestModel {
  const char* name;
  std::string folder;
  FileType file_type;
};

void PrintTo(const TestModel& model, std::ostream* out) {
  *out << model.name;
}

std::unique_ptr<Engine> load(const TestModel& model, uint64_t kv_budget_bytes = 0) {
  EngineOptions options;
  options.n_ctx = kContext;
  options.n_sequences = 8;
  options.max_rows = 32;
  options.max_outputs = 8;
  options.n_threads = 2;
  options.kv_budget_bytes = kv_budget_bytes;
  return load_test_engine(model.folder, model.file_type, options);
}

std::vector<int32_t> ids_of(size_t n, int32_t seed) {
  std::vector<int32_t> ids(n);
  for (size_t i = 0; i < n; ++i) ids[i] = 300 + (seed * 7919 + static_cast<int32_t>(i) * 37) % 1000;
  return ids;
}

// Greedy and seeded, with penalties, stop strings and log-probabilities; prompts from short to
// longer than a batch, some of which begin alike.
ServeRequest request_of(int32_t i, int64_t n_answer = 30) {
  ServeRequest request;
  request.prompt = ids_of(i % 3 == 0 ? 5 : 40, i % 4);
  const std::vector<int32_t> tail = ids_of(static_cast<size_t>(i) * 3, i + 10);
  request.prompt.insert(request.prompt.end(), tail.begin(), tail.end());
  request.max_tokens = n_answer + i;
  request.ignore_eos = true;
  request.sampling.temperature = i % 2 == 0 ? 0 : 1.2F;
  request.sampling.repeat_penalty = 1.1F;
  request.sampling.seed = static_cast<uint64_t>(i) + 1;
  if (i % 3 == 1) request.stops = {"e", "th"};
  if (i % 3 == 2) request.n_top_log_probs = 3;
  return request;
}

const TestModel kModels[] = {
    {"dense_f32", HF2Q_MODELS "/tiny-gemma4", FileType::kF32},
    {"moe_q8_0", HF2Q_TEST_DATA "/micro-moe", FileType::kQ8_0},
    {"ple_q5_1", HF2Q_TEST_DATA "/micro-ple", FileType::kQ5_1},
};

class ServiceOfModels : public testing::TestWithParam<TestModel> {
 protected:
  // Every request at once, from a thread of its own, against what each gets alone.
  void expect_same_bytes(Service& service, int32_t n_requests, int64_t n_answer = 30) {
    std::vector<Client> clients(static_cast<size_t>(n_requests));
    std::vector<std::thread> threads;
    for (int32_t i = 0; i < n_requests; ++i) {
      threads.emplace_back([&, i] {
        Client& client = clients[static_cast<size_t>(i)];
        submit(service, request_of(i, n_answer), client);
        client.wait();
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::unique_ptr<Engine> engine = load(GetParam());
    for (int32_t i = 0; i < n_requests; ++i) {
      const Client& client = clients[static_cast<size_t>(i)];
      ASSERT_EQ(client.failure(), "");
      const AnswerSeen expected = alone(*engine, request_of(i, n_answer));
      EXPECT_EQ(client.answer().tokens, expected.tokens) << i;
      EXPECT_EQ(client.answer(), expected) << i;
      EXPECT_EQ(client.end()->n_prompt, request_of(i).prompt.size());
    }
    EXPECT_EQ(live_bytes(service), 0U);
    EXPECT_EQ(used_bytes_after_clear(service), 0U);
  }
};

TEST_P(ServiceOfModels, EightClientsGetTheBytesThatEachGetsAlone) {
  const auto service = value_of(Service::start(load(GetParam()), {.max_running = 8}));
  expect_same_bytes(*service, 8);
}

TEST_P(ServiceOfModels, MoreRequestsThanPlaces) {
  const auto service = value_of(Service::start(load(GetParam()), {.max_running = 3}));
  expect_same_bytes(*service, 12);
}

TEST_P(ServiceOfModels, ACacheForTwoAndAHalfOfEight) {
  const std::unique_ptr<Engine> roomy = load(GetParam());
  uint64_t one = 0;  // the longest of them, 61 + 127 tokens
  for (const KvGroup& group : roomy->kv().groups) {
    one += pages_in_pass(group, 188 - 32, 32, Engine::kMaxRollback) * group.layout.page_bytes();
  }
  const auto service = value_of(Service::start(load(GetParam(), one * 5 / 2), {.max_running = 8}));
  expect_same_bytes(*service, 8, 120);
  EXPECT_GT(service->stats().metrics.preemptions, 0U);
  const Metrics metrics = service->stats().metrics;
  EXPECT_EQ(metrics.prefix_queries, 8U);
  EXPECT_EQ(metrics.outcomes.stop + metrics.outcomes.length, 8U);
}

TEST_P(ServiceOfModels, WhatWasReadIsThereInTheNextRun) {
  const testing_support::TempFolder folder;
  const NameSpaceLabels labels = {
      .label_of = [](std::string_view name) { return "<" + std::string(name); },
      .name_space_of = [](std::string_view label) -> std::optional<std::string> {
        return std::string(label.substr(1));
      }};
  ServeRequest request = request_of(5);
  request.name_space = "a";
  Client first;
  {
    const auto service = value_of(Service::start(load(GetParam()), {}));
    submit(*service, request, first);
    first.wait();
    EXPECT_EQ(service->save_prompts(folder / "kept", labels).n_prompts, 1U);
  }
  const auto service = value_of(Service::start(load(GetParam()), {}));
  EXPECT_EQ(service->load_prompts(folder / "none", labels).n_prompts, 0U);
  const KeptReport report = service->load_prompts(folder / "kept", labels);
  EXPECT_EQ(report.n_prompts, 1U);
  EXPECT_TRUE(report.warnings.empty());
  Client second;
  submit(*service, request, second);
  second.wait();
  EXPECT_EQ(second.answer(), first.answer());
  EXPECT_EQ(second.end()->n_cached, request.prompt.size() - 1);
  request.name_space = "b";
  Client third;
  submit(*service, request, third);
  third.wait();
  EXPECT_EQ(third.answer(), first.answer());
  EXPECT_EQ(third.end()->n_cached, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, ServiceOfModels, testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace hf2q
