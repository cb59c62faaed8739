// hf2q batch: a file of requests to a file of results, as the server would answer them.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>

#include "commands.h"
#include "model_flags.h"
#include "serve/api_error.h"
#include "serve/batch_lines.h"
#include "serve/local_exchange.h"
#include "serve/router.h"
#include "serve_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct BatchFlags {
  ModelFlags model;
  SamplingFlags sampling;
  ServeModelFlags shared;
  std::string input;
  std::string output;
};

// Results as they come, each line whole before the next: what is there after an interruption is
// kept by the next run.
class ResultFile {
 public:
  ~ResultFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  // Cuts off what stands behind the first n_bytes.
  Status open(const std::string& path, size_t n_bytes) {
    path_ = path;
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    const bool good = descriptor_ >= 0 &&
                      ::ftruncate(descriptor_, static_cast<off_t>(n_bytes)) == 0 &&
                      ::lseek(descriptor_, 0, SEEK_END) >= 0;
    return good ? Status(Ok{}) : Status(cannot_write());
  }
  Status append(std::string line) {
    line += '\n';
    for (std::string_view rest = line; !rest.empty();) {
      const ssize_t n = ::write(descriptor_, rest.data(), rest.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return cannot_write();
      rest.remove_prefix(static_cast<size_t>(n));
    }
    return Ok{};
  }

 private:
  Error cannot_write() const {
    return error(ErrorCode::kIo, "{}: cannot write: {}", path_, std::strerror(errno));
  }
  std::string path_;
  int descriptor_ = -1;
};

// A line that has been asked, and its answer in the making.
struct OpenLine {
  BatchLine line;
  std::shared_ptr<LocalExchange> exchange;
  std::string error_line;  // of one that could not be asked
};

OpenLine ask(std::string_view text, const Router& router, WorkQueue& queue) {
  OpenLine open;
  Result<BatchLine> line = parse_batch_line(text);
  if (!line.ok()) {
    open.error_line = batch_error_line(custom_id_of(text), line.error());
    return open;
  }
  open.line = std::move(line.value());
  open.exchange = std::make_shared<LocalExchange>(queue);
  router.handle(open.line.request, open.exchange);
  return open;
}

struct BatchCounts {
  size_t n_written = 0;
  size_t n_failed = 0;  // of them
};

Status write_first(OpenLine& open, ResultFile& results, BatchCounts& counts) {
  ++counts.n_written;
  if (!open.exchange || open.exchange->reply().status != 200) ++counts.n_failed;
  return results.append(open.exchange ? batch_result_line(open.line, open.exchange->reply())
                                      : std::move(open.error_line));
}

// Twice as many lines are open as run at once: while the oldest one takes long others go on.
Status answer_lines(std::span<const std::string_view> lines, const Router& router, size_t n_open,
                    WorkQueue& queue, ResultFile& results, BatchCounts& counts,
                    const Globals& globals) {
  std::deque<OpenLine> open;
  ProgressLine progress(!globals.quiet);
  const size_t n_lines = lines.size();
  while (!lines.empty() || !open.empty()) {
    while (!lines.empty() && open.size() < n_open) {
      open.push_back(ask(lines.front(), router, queue));
      lines = lines.subspan(1);
    }
    while (!open.empty() && (!open.front().exchange || open.front().exchange->done())) {
      TRY_OK(write_first(open.front(), results, counts));
      open.pop_front();
      progress.draw_count("answered", counts.n_written, n_lines);
    }
    if (!open.empty()) queue.run_one();
  }
  return Ok{};
}

Result<int> run_batch(BatchFlags& flags, const Globals& globals) {
  TRY(text, read_text_file(flags.input));
  const std::vector<std::string_view> all = batch_lines(text);
  std::string before;
  if (std::filesystem::exists(flags.output)) {
    TRY(found, read_text_file(flags.output));
    before = std::move(found);
  }
  const Result<BatchDone> checked = batch_done(before, all);
  if (!checked.ok()) {
    return error(checked.error().code, "{}: {}", flags.output, checked.error().message);
  }
  const BatchDone done = checked.value();
  ResultFile results;
  TRY_OK(results.open(flags.output, done.n_bytes));
  BatchCounts counts;
  if (done.n_lines < all.size()) {
    flags.shared.max_queue = UINT32_MAX;
    WorkQueue queue;  // outlives the service, whose thread posts to it
    TRY(service, start_service(flags.model, flags.shared, globals));
    ApiOptions options;
    options.model_name = served_name(flags.shared, flags.model);
    options.version = HF2Q_VERSION;
    Router router(options);
    TRY(api, make_api(*service, std::move(options), flags.shared, flags.sampling, globals,
                      std::chrono::steady_clock::now()));
    router.set_api(api.get());
    TRY_OK(answer_lines(std::span(all).subspan(done.n_lines), router,
                        size_t{2} * flags.model.n_slots, queue, results, counts, globals));
  }
  if (!globals.quiet) {
    fmt::print(stderr, "{} lines: {} answered before, {} now, {} of these with an error\n",
               all.size(), done.n_lines, counts.n_written, counts.n_failed);
  }
  return kSuccess;
}

}  // namespace

void add_batch(Program& program, const Globals& globals) {
  Command command = program.add_command(
      "batch", "Answer a file of requests (OpenAI batch lines), as the server would");
  auto flags = std::make_shared<BatchFlags>();
  flags->model.n_slots = 4;
  command.add_option("-i,--input", flags->input, "Requests, one JSON object a line").required();
  command
      .add_option("-o,--output", flags->output,
                  "Results in the same order; those that are there already are kept")
      .required();
  add_serve_model_flags(command, flags->shared);
  add_sampling_flags(command, flags->sampling);
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run_batch(*flags, globals); });
}

}  // namespace hf2q::app
