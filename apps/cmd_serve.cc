// hf2q serve: the OpenAI API on a port.

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <sstream>

#include "commands.h"
#include "interrupt.h"
#include "model_flags.h"
#include "serve/http_server.h"
#include "serve/request_log.h"
#include "serve/router.h"
#include "serve_flags.h"
#include "terminal.h"

namespace hf2q::app {
namespace {

struct ServeFlags {
  ModelFlags model;
  SamplingFlags sampling;
  ServeModelFlags shared;
  std::string host = "127.0.0.1";
  uint32_t port = 8080;
  std::vector<std::string> keys;
  std::string key_file;
  std::vector<std::string> origins;
  std::string log_format = "json";
  std::string session_dir;
  bool share_prefixes = false;
};

using ServeStart = std::chrono::steady_clock::time_point;

// Keys stand in the file one a line.
Result<std::vector<std::string>> read_keys(const ServeFlags& flags) {
  std::vector<std::string> keys = flags.keys;
  if (!flags.key_file.empty()) {
    TRY(text, read_text_file(flags.key_file));
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
      if (!line.empty()) keys.push_back(line);
    }
    if (keys.empty()) {
      return error(ErrorCode::kInvalidArgument, "--api-key-file: a key expected in {}",
                   flags.key_file);
    }
  }
  for (const std::string& key : keys) {
    if (key.empty())
      return error(ErrorCode::kInvalidArgument, "--api-key: at least one character expected");
  }
  return keys;
}

void log_request(const ServeFlags& flags, const HttpLogEntry& entry) {
  const std::string time = utc_time(std::chrono::system_clock::now());
  const std::string line =
      flags.log_format == "json" ? json_log_line(entry, time) : text_log_line(entry, time);
  fmt::print(stderr, "{}\n", line);  // one write: lines of several threads do not mix
}

Result<std::unique_ptr<HttpServer>> listen(const ServeFlags& flags, const Globals& globals,
                                           const Router& router) {
  HttpServerOptions options;
  options.host = flags.host;
  options.port = static_cast<uint16_t>(flags.port);
  HttpHooks hooks;
  hooks.handle = [&router](const HttpRequest& request,
                           const std::shared_ptr<HttpExchange>& exchange) {
    router.handle(request, exchange);
  };
  hooks.refuse = [&router](const HttpRequest& head) { return router.refuse(head); };
  hooks.headers = [&router](const HttpRequest& head) { return router.headers(head); };
  if (!globals.quiet) {
    hooks.log = [&flags](const HttpLogEntry& entry) { log_request(flags, entry); };
  }
  return HttpServer::start(options, std::move(hooks));
}

// Returns when every answer in work is out; a second signal ends the process at once.
void wait_for_end(Service& service, const Globals& globals) {
  wait_for_end_signal();
  if (!globals.quiet) {
    fmt::print(stderr, "hf2q: no new requests; waiting for those in work, again to end at once\n");
  }
  service.drain();
  service.wait_drained();
}

void tell(std::string_view what, const std::string& folder, const KeptReport& report,
          const Globals& globals) {
  for (const std::string& warning : report.warnings) warn(warning);
  if (!globals.quiet)
    fmt::print(stderr, "hf2q: {}: {} prompts {}\n", folder, report.n_prompts, what);
}

Result<int> run_serve(ServeFlags& flags, const Globals& globals) {
  const ServeStart start = std::chrono::steady_clock::now();
  ApiOptions options;
  TRY(keys, read_keys(flags));
  options.keys = std::move(keys);
  options.origins = flags.origins;
  options.share_prefixes = flags.share_prefixes;
  options.model_name = served_name(flags.shared, flags.model);
  options.version = HF2Q_VERSION;

  // Objects end in the order opposite to this one: what the network holds of the service goes with
  // the service, and both before the network's memory.
  Router router(options);
  TRY(server, listen(flags, globals, router));
  TRY(service, start_service(flags.model, flags.shared, globals));
  TRY(api, make_api(*service, std::move(options), flags.shared, flags.sampling, globals, start));
  const NameSpaceLabels labels = name_space_labels(api->options.keys);
  if (!flags.session_dir.empty()) {
    tell("taken up", flags.session_dir, service->load_prompts(flags.session_dir, labels), globals);
  }
  if (!note_end_signals()) return error(ErrorCode::kOutOfMemory, "no pipe for signals");
  router.set_api(api.get());
  if (!globals.quiet) {
    fmt::print(stderr, "hf2q: http://{}:{} serves {} (context {}, {} at once)\n", flags.host,
               server->port(), api->options.model_name, service->engine().n_ctx(),
               service->options().max_running);
  }
  wait_for_end(*service, globals);
  server->stop(std::chrono::seconds(10));
  if (!flags.session_dir.empty()) {
    tell("kept", flags.session_dir, service->save_prompts(flags.session_dir, labels), globals);
  }
  return kSuccess;
}

}  // namespace

void add_serve(Program& program, const Globals& globals) {
  Command command =
      program.add_command("serve", "Serve the OpenAI API: chat, completions, embeddings");
  auto flags = std::make_shared<ServeFlags>();
  flags->model.n_slots = 4;
  const char* group = "Server";
  command.add_option("--host", flags->host, "Address to listen on").show_default().group(group);
  command.add_option("--port", flags->port, "Port; 0: one that is free")
      .range(0, 65535)
      .show_default()
      .group(group);
  command.add_option("--api-key", flags->keys, "A key that requests need; may be repeated")
      .group(group);
  command.add_option("--api-key-file", flags->key_file, "Keys, one a line").group(group);
  command
      .add_option("--cors-origin", flags->origins,
                  "A web page's origin that may call, https://a.b, or *; may be repeated")
      .group(group);
  command
      .add_option("--session-dir", flags->session_dir,
                  "Folder where the end of the server keeps what was read, for its next start")
      .group(group);
  command
      .add_flag("--share-prefixes", flags->share_prefixes,
                "Requests of different keys share what was read of equal prompts")
      .group(group);
  command.add_option("--log-format", flags->log_format, "Of the line for each request: json, text")
      .one_of({"json", "text"})
      .show_default()
      .group(group);
  command
      .add_option("--max-queue", flags->shared.max_queue,
                  "Most requests that wait for a place; more are told to come back (503)")
      .show_default()
      .group(group);
  add_serve_model_flags(command, flags->shared);
  add_sampling_flags(command, flags->sampling);
  add_model_flags(command, flags->model);
  run_with_model(command, {flags, &flags->model}, globals,
                 [flags, &globals] { return run_serve(*flags, globals); });
}

}  // namespace hf2q::app
