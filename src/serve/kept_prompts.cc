#include "serve/kept_prompts.h"

#include <sys/stat.h>

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/quote.h"
#include "kv/prefix_file.h"

namespace hf2q {
namespace {

namespace fs = std::filesystem;

// "prefix-0000.kv": the order in which they were used.
std::string kept_name(size_t i) {
  return fmt::format("prefix-{:04}.kv", i);
}

bool is_kept_name(std::string_view name) {
  constexpr std::string_view kForm = "prefix-0000.kv";
  return std::ranges::equal(name, kForm, [](char c, char form) {
    return form == '0' ? c >= '0' && c <= '9' : c == form;
  });
}

// Regular files of our names, in order; other entries are told of.
std::vector<std::string> kept_files(const std::string& folder, KeptReport& report) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;
    if (is_kept_name(name) && fs::is_regular_file(at->symlink_status(ignored))) {
      names.push_back(name);
    } else {
      report.warnings.push_back(fmt::format("{}: {} is passed over", folder, quote(name)));
    }
  }
  std::ranges::sort(names);
  return names;
}

// What this process writes is for its user alone, while there is one of these.
class OwnerOnly {
 public:
  OwnerOnly() : before_(::umask(077)) {}
  ~OwnerOnly() { ::umask(before_); }
  OwnerOnly(const OwnerOnly&) = delete;
  OwnerOnly& operator=(const OwnerOnly&) = delete;

 private:
  mode_t before_;
};

}  // namespace

void KeptPrompts::remember(std::string name_space, std::vector<TokenKey> keys,
                           std::vector<uint32_t> points) {
  std::erase_if(kept_, [&](const Kept& old) {
    const bool goes_on = old.name_space == name_space && old.keys.size() <= keys.size() &&
                         std::ranges::equal(old.keys, std::span(keys).first(old.keys.size()));
    if (goes_on) points.insert(points.end(), old.points.begin(), old.points.end());
    return goes_on;
  });
  std::ranges::sort(points);
  points.erase(std::unique(points.begin(), points.end()), points.end());
  kept_.push_back({std::move(name_space), std::move(keys), std::move(points)});
  if (kept_.size() > kMost) kept_.pop_front();
}

Status KeptPrompts::load_file(Engine& engine, const std::string& path,
                              const NameSpaceLabels& labels) {
  TRY(file, PrefixFile::open(path));
  const std::optional<std::string> name_space = labels.name_space_of(file.extra());
  if (!name_space) return error(ErrorCode::kNotFound, "{}: of a key that is not known", path);
  TRY_OK(file.restore(engine.model_digest(), engine.prefixes(), *name_space));
  remember(*name_space, file.path().keys, file.path().points);
  return Ok{};
}

KeptReport KeptPrompts::load(Engine& engine, const std::string& folder,
                             const NameSpaceLabels& labels) {
  KeptReport report;
  for (const std::string& name : kept_files(folder, report)) {
    const Status loaded = load_file(engine, fmt::format("{}/{}", folder, name), labels);
    if (loaded.ok()) {
      ++report.n_prompts;
    } else {
      report.warnings.push_back(loaded.error().message);
    }
  }
  return report;
}

KeptReport KeptPrompts::save(Engine& engine, const std::string& folder,
                             const NameSpaceLabels& labels) const {
  const OwnerOnly owner_only;
  KeptReport report;
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) {
    report.warnings.push_back(fmt::format("{}: {}", folder, failure.message()));
    return report;
  }
  for (const Kept& kept : kept_) {
    const PrefixPath path = engine.prefixes().path_to(kept.name_space, kept.keys, kept.points);
    if (path.points.empty()) continue;  // given up since
    const std::string name = fmt::format("{}/{}", folder, kept_name(report.n_prompts));
    std::error_code ignored;
    if (fs::is_symlink(fs::symlink_status(name, ignored))) {
      report.warnings.push_back(fmt::format("{}: a symbolic link is not followed", name));
      return report;
    }
    const Status written = write_prefix_file(name, engine.prefixes(), path, engine.model_digest(),
                                             labels.label_of(kept.name_space));
    if (!written.ok()) {
      report.warnings.push_back(written.error().message);
      return report;
    }
    ++report.n_prompts;
  }
  KeptReport others;
  for (const std::string& name : kept_files(folder, others)) {
    if (name >= kept_name(report.n_prompts)) fs::remove(fs::path(folder) / name, failure);
  }
  return report;
}

}  // namespace hf2q
