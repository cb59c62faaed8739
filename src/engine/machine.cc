#include "engine/machine.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "base/huge_memory.h"
#include "base/parallel.h"

namespace hf2q {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

uint64_t number(const std::string& text) {
  uint64_t value = 0;
  const size_t at = std::min(text.find_first_not_of(" \t"), text.size());
  std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

// "key   : value" of /proc files; false when the line has no colon.
bool split(const std::string& line, std::string& key, std::string& value) {
  const size_t colon = line.find(':');
  if (colon == std::string::npos) return false;
  key = line.substr(0, std::min(line.find_last_not_of(" \t", colon - 1) + 1, colon));
  value = line.substr(std::min(line.find_first_not_of(" \t", colon + 1), line.size()));
  return true;
}

void read_cpu(const std::string& root, Machine& machine) {
  std::ifstream file(root + "/proc/cpuinfo");
  std::set<std::pair<std::string, std::string>> cores;  // of each package
  std::string package;
  std::string line;
  std::string key;
  std::string value;
  while (std::getline(file, line)) {
    if (!split(line, key, value)) continue;
    if (key == "processor") ++machine.n_processors;
    if (key == "model name") machine.cpu = value;
    if (key == "physical id") package = value;
    if (key == "core id") cores.emplace(package, value);
    if ((key == "flags" || key == "Features") && machine.cpu_flags.empty()) {
      std::istringstream words(value);
      for (std::string word; words >> word;) machine.cpu_flags.push_back(word);
    }
  }
  machine.n_cores = cores.empty() ? machine.n_processors : static_cast<uint32_t>(cores.size());
}

void read_memory(const std::string& root, Machine& machine) {
  std::ifstream file(root + "/proc/meminfo");
  std::string line;
  std::string key;
  std::string value;
  while (std::getline(file, line)) {
    if (!split(line, key, value)) continue;
    if (key == "MemTotal") machine.memory_total = number(value) << 10;
    if (key == "MemAvailable") machine.memory_available = number(value) << 10;
  }
  machine.memory_limit = number(first_line(root + "/sys/fs/cgroup/memory.max"));  // or "max"
}

uint32_t count_nodes(const std::string& root) {
  uint32_t n = 0;
  std::error_code failure;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/sys/devices/system/node", failure)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("node") && name.find_first_not_of("0123456789", 4) == std::string::npos)
      ++n;
  }
  return std::max(n, 1U);
}

// The chosen word of "always [madvise] never".
std::string chosen(const std::string& line) {
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return line.substr(begin + 1, end - begin - 1);
}

// Four sums, so that additions do not wait for one another.
uint64_t sum_words(const uint64_t* words, size_t n) {
  uint64_t sums[4] = {};
  for (size_t i = 0; i + 4 <= n; i += 4) {
    for (size_t k = 0; k < 4; ++k) sums[k] += words[i + k];
  }
  return sums[0] + sums[1] + sums[2] + sums[3];
}

}  // namespace

Machine read_machine(const std::string& root) {
  Machine machine;
  read_cpu(root, machine);
  read_memory(root, machine);
  machine.n_usable = static_cast<uint32_t>(usable_processors());
  machine.n_numa_nodes = count_nodes(root);
  machine.huge_pages = chosen(first_line(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  machine.governor = first_line(root + "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  return machine;
}

Result<double> read_bandwidth(Exec& exec, uint64_t bytes) {
  constexpr size_t kPasses = 5;
  constexpr size_t kGrain = size_t{1} << 16;  // words of one piece of work: 512 KiB
  TRY(memory, HugeMemory::allocate(bytes, "memory to measure with"));
  auto* words = reinterpret_cast<uint64_t*>(memory.data());
  const size_t n = bytes / sizeof(uint64_t);
  exec.parallel_for(n, kGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) words[i] = i;
  });
  std::atomic<uint64_t> total = 0;  // keeps the sums from being left out
  double best = 0;
  for (size_t pass = 0; pass < kPasses; ++pass) {
    const auto start = std::chrono::steady_clock::now();
    exec.parallel_for(n, kGrain, [&](size_t begin, size_t end) {
      total += sum_words(words + begin, end - begin);
    });
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    best = std::max(best, static_cast<double>(n * sizeof(uint64_t)) / taken.count());
  }
  return best;
}

}  // namespace hf2q
