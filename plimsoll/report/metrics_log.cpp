#include "plimsoll/report/metrics_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "plimsoll/base/error.h"

namespace plimsoll::report {
namespace {

using nlohmann::json;

/// One JSON object, written in the order of the calls.
class Writer {
 public:
  void text(std::string_view key, std::string_view value) {
    // Names in `extra` may be any text; replace keeps the line valid JSON.
    name(key) += json(value).dump(-1, ' ', false, json::error_handler_t::replace);
  }
  /// Counts; absent ones are null.
  void integer(std::string_view key, std::optional<int64_t> value) {
    name(key) += value ? fmt::format("{}", *value) : "null";
  }
  void bytes(std::string_view key, std::optional<uint64_t> value) {
    name(key) += value ? fmt::format("{}", *value) : "null";
  }
  void number(std::string_view key, std::optional<double> value) {
    if (!value || !std::isfinite(*value)) {
      name(key) += "null";
      if (value) {
        text(std::string(key) + "_text", std::isnan(*value) ? "nan" : *value < 0 ? "-inf" : "inf");
      }
      return;
    }
    std::string digits =
        fmt::format("{}", *value);  // the shortest that reads back to the same bits
    if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
    name(key) += digits;
  }
  void object(std::string_view key, const Writer& inner) { name(key) += inner.str(); }
  std::string str() const { return "{" + body_ + "}"; }

 private:
  std::string& name(std::string_view key) {
    if (!body_.empty()) body_ += ", ";
    body_ += json(key).dump(-1, ' ', false, json::error_handler_t::replace);
    return body_ += ": ";
  }
  std::string body_;
};

Writer memory_object(const MemoryUse& memory) {
  Writer out;
  out.bytes("active_bytes", memory.active_bytes);
  out.number("active_percent", memory.active_percent);
  out.bytes("reserved_bytes", memory.reserved_bytes);
  out.number("reserved_percent", memory.reserved_percent);
  return out;
}

template <class T>
std::optional<T> get(const json& object, const std::string& key) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_number()) return found->get<T>();
  if constexpr (std::is_same_v<T, double>) {
    const auto text = object.find(key + "_text");
    if (text == object.end() || !text->is_string()) return std::nullopt;
    const auto& value = text->get_ref<const std::string&>();
    if (value == "nan") return std::nan("");
    if (value == "inf") return HUGE_VAL;
    if (value == "-inf") return -HUGE_VAL;
  }
  return std::nullopt;
}

MemoryUse memory_of(const json& object) {
  MemoryUse out;
  const auto memory = object.find("memory");
  if (memory == object.end() || !memory->is_object()) return out;
  out.active_bytes = get<uint64_t>(*memory, "active_bytes");
  out.active_percent = get<double>(*memory, "active_percent");
  out.reserved_bytes = get<uint64_t>(*memory, "reserved_bytes");
  out.reserved_percent = get<double>(*memory, "reserved_percent");
  return out;
}

/// The object of a line if it is one with an integer "step".
std::optional<json> parse_line(const std::string& line) {
  json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto step = object.find("step");
  if (step == object.end() || !step->is_number_integer()) return std::nullopt;
  return object;
}

/// Calls `record(object, begin, end)` for each whole record, with its bytes in the file; false
/// stops. Unreadable lines at the end are left out; one with good lines after it throws.
void each_record(const std::filesystem::path& path,
                 const std::function<bool(const json&, uint64_t begin, uint64_t end)>& record) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
  std::string line;
  uint64_t offset = 0;
  int64_t number = 0, bad_line = 0;
  while (std::getline(in, line)) {
    ++number;
    if (in.eof()) break;  // no line break: torn
    const uint64_t begin = offset;
    offset += line.size() + 1;
    const auto object = parse_line(line);
    if (!object) {
      if (bad_line == 0) bad_line = number;
      continue;
    }
    if (bad_line != 0) {
      throw Error(fmt::format("{}:{}: not a record of a step", path.string(), bad_line),
                  "the file is damaged; move it away to go on without its curve");
    }
    if (!record(*object, begin, offset)) return;
  }
  if (in.bad())
    throw Error(fmt::format("{}: cannot read: {}", path.string(), std::strerror(errno)));
}

/// The size of `path` up to the last record that a run resumed after `last_step` keeps.
uint64_t kept_size(const std::filesystem::path& path, int64_t last_step) {
  std::error_code ignored;
  if (last_step <= 0 || !std::filesystem::exists(path, ignored)) return 0;
  uint64_t size = 0;
  each_record(path, [&](const json& object, uint64_t, uint64_t end) {
    if (object["step"].get<int64_t>() > last_step) return false;
    size = end;
    return true;
  });
  return size;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& folder, int64_t last_step)
    : steps_(folder / "metrics.jsonl", kept_size(folder / "metrics.jsonl", last_step)),
      validations_(folder / "validation.jsonl", kept_size(folder / "validation.jsonl", last_step)) {
}

void MetricsLog::write(const StepRecord& record) {
  steps_.append(to_json(record) + "\n");
}

void MetricsLog::write(const ValidationRecord& record) {
  validations_.append(to_json(record) + "\n");
}

void MetricsLog::sync() {
  steps_.sync();
  validations_.sync();
}

std::string to_json(const StepRecord& record) {
  Writer out, extra;
  out.integer("step", record.step);
  out.number("loss", record.loss);
  out.number("grad_norm", record.grad_norm);
  out.number("lr", record.lr);
  out.integer("tokens", record.tokens);
  out.number("seconds", record.seconds);
  out.number("data_seconds", record.data_seconds);
  out.number("tokens_per_second", record.tokens_per_second);
  out.number("tflops", record.tflops);
  out.number("mfu", record.mfu);
  out.object("memory", memory_object(record.memory));
  out.integer("tokens_seen", record.tokens_seen);
  for (const auto& [key, value] : record.extra) extra.number(key, value);
  if (!record.extra.empty()) out.object("extra", extra);
  return out.str();
}

std::string to_json(const ValidationRecord& record) {
  Writer out;
  out.integer("step", record.step);
  out.number("loss", record.loss);
  out.integer("tokens", record.tokens);
  out.number("seconds", record.seconds);
  out.number("tokens_per_second", record.tokens_per_second);
  out.object("memory", memory_object(record.memory));
  return out.str();
}

std::vector<StepRecord> read_metrics(const std::filesystem::path& file) {
  std::vector<StepRecord> records;
  each_record(file, [&](const json& object, uint64_t, uint64_t) {
    StepRecord r;
    r.step = object["step"].get<int64_t>();
    r.loss = get<double>(object, "loss").value_or(std::nan(""));
    r.grad_norm = get<double>(object, "grad_norm");
    r.lr = get<double>(object, "lr").value_or(std::nan(""));
    r.tokens = get<int64_t>(object, "tokens").value_or(0);
    r.seconds = get<double>(object, "seconds").value_or(0);
    r.data_seconds = get<double>(object, "data_seconds");
    r.tokens_per_second = get<double>(object, "tokens_per_second");
    r.tflops = get<double>(object, "tflops");
    r.mfu = get<double>(object, "mfu");
    r.tokens_seen = get<int64_t>(object, "tokens_seen").value_or(0);
    r.memory = memory_of(object);
    if (const auto extra = object.find("extra"); extra != object.end() && extra->is_object()) {
      for (const auto& [key, value] : extra->items()) {
        if (!value.is_string()) {
          if (const auto number = get<double>(*extra, key)) r.extra[key] = *number;
        }
      }
    }
    records.push_back(std::move(r));
    return true;
  });
  return records;
}

std::vector<ValidationRecord> read_validations(const std::filesystem::path& file) {
  std::vector<ValidationRecord> records;
  each_record(file, [&](const json& object, uint64_t, uint64_t) {
    ValidationRecord r;
    r.step = object["step"].get<int64_t>();
    r.loss = get<double>(object, "loss").value_or(std::nan(""));
    r.tokens = get<int64_t>(object, "tokens").value_or(0);
    r.seconds = get<double>(object, "seconds").value_or(0);
    r.tokens_per_second = get<double>(object, "tokens_per_second");
    r.memory = memory_of(object);
    records.push_back(r);
    return true;
  });
  return records;
}

uint64_t whole_size(const std::filesystem::path& file) {
  uint64_t size = 0;
  each_record(file, [&](const json&, uint64_t, uint64_t end) {
    size = end;
    return true;
  });
  return size;
}

}  // namespace plimsoll::report
