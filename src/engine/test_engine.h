#pragma once
// Converted files and engines on them, for tests.

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "convert/plan.h"
#include "engine/engine.h"
#include "support/temp_folder.h"
#include "support/value_of.h"

namespace hf2q {

// Writes `folder`, a checkpoint with or without a tokenizer (then the bundled one), to `path`.
inline void convert_to(const std::string& folder, FileType file_type, const std::string& path,
                       const std::string& imatrix_path = {}) {
  const testing_support::TempFolder work;
  std::filesystem::copy(folder, work.path() / "checkpoint");
  const std::string tokenizer = work / "checkpoint/tokenizer.json";
  if (!std::filesystem::exists(tokenizer)) {
    std::filesystem::copy(HF2Q_MODELS "/tiny-gemma4/tokenizer.json", tokenizer);
  }
  QuantizeOptions options;
  options.file_type = file_type;
  options.imatrix_path = imatrix_path;
  const OutputPlan plan = testing_support::value_of(plan_conversion(work / "checkpoint", options));
  ASSERT_TRUE(write(plan, path, {}).ok());
}

inline std::unique_ptr<Engine> load_test_engine(const std::string& folder, FileType file_type,
                                                const EngineOptions& options,
                                                const std::string& imatrix_path = {}) {
  const testing_support::TempFolder work;
  convert_to(folder, file_type, work / "model.gguf", imatrix_path);
  return testing_support::value_of(Engine::load(work / "model.gguf", options));
}

}  // namespace hf2q
