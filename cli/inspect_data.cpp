#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/inspect.h"
#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/base/units.h"
#include "plimsoll/checkpoint/quote.h"
#include "plimsoll/data/documents.h"
#include "plimsoll/data/lines.h"

namespace plimsoll::cli {
namespace {
namespace fs = std::filesystem;

constexpr size_t kShown = 5;

struct Found {
  data::DocumentCounts counts;
  int64_t textless = 0;            // JSON objects without a text
  int64_t bad = 0;                 // the other lines that cannot be used
  std::vector<std::string> first;  // "FILE:LINE: why" of the first bad ones
  std::vector<std::string> first_textless;
};

Found read_all(const fs::path& path) {
  data::DataConfig config;
  config.on_bad_line = "skip";
  config.text_documents = "line";  // of a text of any size, and with the line of what is wrong
  Found found;
  auto told = [&](data::BadLine kind, int64_t line, const std::string& why) {
    const bool textless = kind == data::BadLine::kNoText;
    ++(textless ? found.textless : found.bad);
    auto& list = textless ? found.first_textless : found.first;
    if (list.size() < kShown) list.push_back(fmt::format("{}:{}: {}", path.string(), line, why));
  };
  data::DocumentReader reader(open_byte_source(path), config, {.on_skipped = told});
  data::Document document;
  while (reader.next(document)) {
  }
  found.counts = reader.counts();
  return found;
}

// The members of the first records, in the order in which they come up.
std::string members(const fs::path& path) {
  constexpr size_t kMaxLine = size_t{1} << 20;
  constexpr int kRecords = 100;
  auto source = open_byte_source(path);
  data::LineReader lines(*source, kMaxLine);
  std::vector<std::string> names;
  std::string_view line;
  for (int i = 0; i < kRecords; ++i) {
    const auto result = lines.next(line);
    if (result == data::LineReader::Result::kEnd) break;
    if (result == data::LineReader::Result::kTooLong) continue;
    const auto record = nlohmann::ordered_json::parse(line, nullptr, false);
    if (!record.is_object()) continue;
    for (const auto& [name, value] : record.items()) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::string out;
  for (const std::string& name : names) {
    out += (out.empty() ? "" : ", ") + checkpoint::quote(name);
  }
  return out;
}

// One JSON value, over any number of lines.
bool is_json(const fs::path& path) {
  constexpr uintmax_t kLimit = uintmax_t{64} << 20;
  std::error_code error;
  return path.extension() == ".json" && fs::file_size(path, error) <= kLimit && !error &&
         nlohmann::json::accept(read_file(path));
}

std::string say_bad_lines(int64_t count, const std::vector<std::string>& first) {
  if (count == 0) return "";
  fmt::print("bad lines: {}\n", format_count(count));
  for (const std::string& line : first) fmt::print("  {}\n", line);
  if (count > std::ssize(first)) fmt::print("  ...\n");
  return fmt::format("{} bad line{}", format_count(count), count == 1 ? "" : "s");
}

}  // namespace

int inspect_data(const fs::path& path) {
  Found found = read_all(path);
  const data::DocumentCounts& c = found.counts;
  const bool jsonl = data::resolve_format("auto", path.string()) == "jsonl";
  if (c.documents == 0 && is_json(path)) {
    fmt::print("{}: a JSON file\n", path.string());
    return say_whole("");
  }
  if (c.documents == 0 && found.textless > 0) {
    fmt::print("{}: JSONL records without a text (data.text_field)\nrecords: {}\nmembers: {}\n",
               path.string(), format_count(found.textless), members(path));
    return say_whole(say_bad_lines(found.bad, found.first));
  }
  if (jsonl) {
    fmt::print("{}: a jsonl file\ndocuments: {}\n", path.string(), format_count(c.documents));
  } else {
    fmt::print("{}: a text file\nlines with text: {}\n", path.string(), format_count(c.documents));
  }
  fmt::print("text bytes: {}\n", format_count(c.bytes));
  // Among documents a record without a text is a bad line too.
  std::vector<std::string> first = found.first;
  first.insert(first.end(), found.first_textless.begin(), found.first_textless.end());
  if (first.size() > kShown) first.resize(kShown);
  return say_whole(say_bad_lines(found.bad + found.textless, first));
}

}  // namespace plimsoll::cli
