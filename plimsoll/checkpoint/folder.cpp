#include "plimsoll/checkpoint/folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/hash.h"
#include "plimsoll/checkpoint/durable.h"
#include "plimsoll/checkpoint/quote.h"
#include "plimsoll/checkpoint/steps.h"

namespace plimsoll::checkpoint {
namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr int kFormatVersion = 1;
constexpr int kMaxJsonDepth = 100;
constexpr std::string_view kEnding = ".safetensors";

void check_group_name(const std::string& name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  });
  if (name.empty() || name.front() == '.' || !plain) {
    throw Error(fmt::format("group {} cannot be a file name: use letters, digits, '_', '-', '.'",
                            quote(name)));
  }
}

// JSON has no NaN and no infinity; the library would write null without a word.
void check_finite(const json& value, const std::string& where) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) {
    throw Error(
        fmt::format("the state's {} is {}: JSON cannot hold it", where, value.get<double>()));
  }
  if (!value.is_structured()) return;
  for (const auto& [key, item] : value.items()) check_finite(item, where + "/" + key);
}

std::string dump(const json& value, int indent = -1) {
  try {
    return value.dump(indent);
  } catch (const json::exception&) {
    throw Error("the state holds text that is not valid UTF-8");
  }
}

void write_parts(const fs::path& folder, std::int64_t step,
                 const std::map<std::string, std::vector<TensorView>>& groups, const json& state,
                 const Gate& gate) {
  json files = json::object();
  for (const auto& [name, tensors] : groups) {
    const std::string file = name + std::string(kEnding);
    // "format" is what Hugging Face's loaders look for.
    const WrittenFile written = write_safetensors_direct(
        folder / file, tensors,
        {{"format", "pt"}, {"group", name}, {"step", fmt::format("{}", step)}});
    files[file] = {{"bytes", written.bytes}, {"xxh3", written.xxh3}};
    if (gate) gate("wrote " + name);
  }
  const json document = {{"format", "plimsoll checkpoint"},
                         {"version", kFormatVersion},
                         {"step", step},
                         {"files", files},
                         {"state", state},
                         {"state_xxh3", xxh3_hex(dump(state))}};
  write_new_file(folder / "state.json", dump(document, 1) + "\n");
  if (gate) gate("before done");
  write_new_file(folder / "DONE", "");
  sync_folder(folder);
}

json parse_state(const fs::path& path) {
  const std::string text = read_file(path);
  // The JSON library takes a zero byte for the end of its input.
  if (text.find('\0') != text.npos) {
    throw Error(path.string() + ": not valid JSON: it holds a zero byte");
  }
  const auto limit_depth = [&](int depth, json::parse_event_t, json&) {
    if (depth > kMaxJsonDepth) {
      throw Error(fmt::format("{}: nested deeper than {}", path.string(), kMaxJsonDepth));
    }
    return true;
  };
  try {
    return json::parse(text, limit_depth);
  } catch (const json::exception& e) {
    // The library's own tag and its copy of the text say nothing to a reader.
    const std::string_view what = e.what();
    const std::size_t at = what.find("parse error");
    throw Error(fmt::format("{}: not valid JSON: {}", path.string(),
                            printable(what.substr(at == what.npos ? 0 : at), 200)));
  }
}

bool is_ours(const json& document) {
  return document.is_object() && document.value("format", json()) == "plimsoll checkpoint";
}

// The value of a key, of the wanted type; `want` names the type in the error.
const json& need(const json& object, const char* key, json::value_t type, const char* want,
                 const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end() || found->type() != type) {
    throw Error(fmt::format("{}: \"{}\" must be {}, found {}", where, key, want,
                            found == object.end() ? "nothing" : found->type_name()));
  }
  return *found;
}

FolderContents::Group read_group(const fs::path& folder, const std::string& file_name,
                                 const std::string& group, std::int64_t step, const json& entry,
                                 const std::string& where) {
  if (!entry.is_object()) throw Error(fmt::format("{}: {} must be an object", where, file_name));
  const fs::path path = folder / file_name;
  const std::string in_state = where + ": " + file_name;
  const auto bytes =
      need(entry, "bytes", json::value_t::number_unsigned, "a whole number", in_state)
          .get<std::uint64_t>();
  std::error_code error;
  const std::uint64_t found = fs::file_size(path, error);
  if (error) {
    throw Error(fmt::format("{}: expected a file of {} bytes, found none ({})", path.string(),
                            bytes, error.message()));
  }
  if (found != bytes) {
    throw Error(fmt::format("{}: expected {} bytes, found {}", path.string(), bytes, found));
  }
  FolderContents::Group out{SafetensorsFile(path), {}};
  for (const auto& [key, expected] :
       {std::pair<const char*, std::string>{"group", group}, {"step", fmt::format("{}", step)}}) {
    const auto& metadata = out.file.metadata();
    const auto value = metadata.find(key);
    if (value == metadata.end() || value->second != expected) {
      throw Error(fmt::format("{}: a file of another checkpoint: expected {} {}, found {}",
                              path.string(), key, expected,
                              value == metadata.end() ? "none" : printable(value->second)));
    }
  }
  const json& hashes = need(entry, "xxh3", json::value_t::object, "an object", in_state);
  for (const auto& [name, hash] : hashes.items()) {
    if (!hash.is_string()) {
      throw Error(fmt::format("{}: xxh3 of {} must be a string", in_state, quote(name)));
    }
    if (!out.file.find(name)) {
      throw Error(
          fmt::format("{}: tensor {} is missing, state.json lists it", path.string(), quote(name)));
    }
    out.xxh3.emplace(name, hash.get<std::string>());
  }
  for (const TensorInfo& info : out.file.tensors()) {
    if (!out.xxh3.contains(info.name)) {
      throw Error(fmt::format("{}: tensor {} is not listed in state.json", path.string(),
                              quote(info.name)));
    }
  }
  return out;
}

void check_hashes(const FolderContents::Group& group) {
  const std::vector<std::string> hashes = hash_tensors(group.file);
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    check_hash(group, group.file.tensors()[i].name, hashes[i]);
  }
}

}  // namespace

fs::path write_folder(const fs::path& root, std::int64_t step,
                      const std::map<std::string, std::vector<TensorView>>& groups,
                      const json& state, const Gate& gate) {
  if (step < 0) throw Error(fmt::format("cannot save step {}: must be at least 0", step));
  for (const auto& [name, tensors] : groups) check_group_name(name);
  check_finite(state, "");
  make_folders(root);
  fs::path final_path = step_path(root, step);
  const fs::path temporary = temporary_path(root, step);
  if (::mkdir(temporary.c_str(), 0777) != 0) {
    if (errno != EEXIST) throw_system_error("create", temporary, errno);
    // Left by a dead process that had our number.
    const FileDescriptor lock = lock_temporary(temporary);
    std::error_code error;
    fs::remove_all(temporary, error);
    if (error) throw_system_error("remove", temporary, error.value());
    if (::mkdir(temporary.c_str(), 0777) != 0) throw_system_error("create", temporary, errno);
  }
  try {
    const FileDescriptor lock = lock_temporary(temporary);
    if (gate) gate("created");
    write_parts(temporary, step, groups, state, gate);
    if (gate) gate("before rename");
    replace_folder(temporary, final_path);
    sync_folder(root);
    if (gate) gate("renamed");
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    throw;
  }
  std::error_code ignored;  // the checkpoint that was replaced, if any
  fs::remove_all(temporary, ignored);
  return final_path;
}

State read_state(const fs::path& state_json) {
  const std::string where = state_json.string();
  json document = parse_state(state_json);
  if (!is_ours(document)) throw Error(where + ": not the state of a checkpoint of this program");
  const auto version =
      need(document, "version", json::value_t::number_unsigned, "a whole number", where)
          .get<std::uint64_t>();
  if (version != kFormatVersion) {
    throw Error(fmt::format("{}: format version {}, this program reads {}", where, version,
                            kFormatVersion));
  }
  const auto step = need(document, "step", json::value_t::number_unsigned, "a whole number", where)
                        .get<std::uint64_t>();
  if (step > std::numeric_limits<std::int64_t>::max()) {
    throw Error(fmt::format("{}: step {} is out of range", where, step));
  }
  const std::string& expected =
      need(document, "state_xxh3", json::value_t::string, "a string", where)
          .get_ref<const std::string&>();
  if (!document.contains("state")) throw Error(where + ": \"state\" is missing");
  if (const std::string found = xxh3_hex(dump(document["state"])); found != expected) {
    throw Error(fmt::format("{}: the state is damaged: expected xxh3 {}, found {}", where,
                            printable(expected), found));
  }
  need(document, "files", json::value_t::object, "an object", where);
  return {static_cast<std::int64_t>(step), std::move(document["files"]),
          std::move(document["state"])};
}

FolderContents read_folder(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw Error(path.string() + ": no such checkpoint folder");
  }
  if (!fs::exists(path / "DONE", error)) {
    throw Error(path.string() + ": not a complete checkpoint: DONE is missing",
                "use an earlier step");
  }
  const fs::path state_path = path / "state.json";
  const std::string where = state_path.string();
  State state = read_state(state_path);
  FolderContents out;
  out.path = path;
  out.step = state.step;
  out.state = std::move(state.state);
  for (const auto& [file, entry] : state.files.items()) {
    if (!std::string_view(file).ends_with(kEnding)) {
      throw Error(fmt::format("{}: {} is not a safetensors file", where, quote(file)));
    }
    const std::string group = file.substr(0, file.size() - kEnding.size());
    check_group_name(group);
    out.groups.emplace(group, read_group(path, file, group, out.step, entry, where));
  }
  return out;
}

void verify_data(const FolderContents& contents, const std::string& group) {
  const auto found = contents.groups.find(group);
  if (found == contents.groups.end()) {
    throw Error(fmt::format("{}: no group {}", contents.path.string(), quote(group)));
  }
  check_hashes(found->second);
}

bool verify_file(const fs::path& file) {
  const fs::path folder = file.parent_path(), state_path = folder / "state.json";
  const std::string name = file.filename().string();
  std::error_code error;
  if (!std::string_view(name).ends_with(kEnding) || !fs::exists(state_path, error)) return false;
  if (!is_ours(parse_state(state_path))) return false;
  const State state = read_state(state_path);
  const auto entry = state.files.find(name);
  if (entry == state.files.end()) return false;
  const std::string group = name.substr(0, name.size() - kEnding.size());
  check_hashes(read_group(folder, name, group, state.step, *entry, state_path.string()));
  return true;
}

void check_hash(const FolderContents::Group& group, const std::string& tensor,
                const std::string& found) {
  const std::string& expected = group.xxh3.at(tensor);
  if (found != expected) {
    throw Error(fmt::format("{}: tensor {} is damaged: expected xxh3 {}, found {}",
                            group.file.path().string(), quote(tensor), printable(expected), found),
                "use an earlier step");
  }
}

}  // namespace plimsoll::checkpoint
