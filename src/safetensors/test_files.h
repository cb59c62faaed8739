#pragma once
// Safetensors files spelled out by hand, for tests.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "safetensors/safetensors.h"

namespace hf2q {

inline std::string u64_le(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
  return bytes;
}

inline std::string file_with(std::string_view header, std::string_view data = "") {
  return u64_le(header.size()) + std::string(header) + std::string(data);
}

inline Result<SafetensorsFile> parse_bytes(std::string_view bytes) {
  return SafetensorsFile::parse(std::as_bytes(std::span(bytes)), "f.safetensors");
}

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The message of a failed result, or "no error".
template <class T>
std::string message_of(const Result<T>& result) {
  return result.ok() ? "no error" : result.error().message;
}

// A folder of its own for each test, gone afterwards.
class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "hf2q_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = std::filesystem::canonical(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }

  std::filesystem::path folder_;
};

}  // namespace hf2q
