#include "plimsoll/text/json_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/text/unicode.h"

namespace plimsoll::text {

namespace {

std::string_view name_of(simdjson::dom::element_type type) {
  using Type = simdjson::dom::element_type;
  switch (type) {
    case Type::ARRAY:
      return "an array";
    case Type::OBJECT:
      return "an object";
    case Type::STRING:
      return "a string";
    case Type::BOOL:
      return "a boolean";
    case Type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

}  // namespace

// simdjson does not say where; this slower parser does, and needs no stack for nested values.
std::string place_of_json_error(std::string_view json) {
  struct Places : nlohmann::json_sax<nlohmann::json> {
    size_t byte = 0;
    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(size_t) override { return true; }
    bool key(string_t&) override { return true; }
    bool end_object() override { return true; }
    bool start_array(size_t) override { return true; }
    bool end_array() override { return true; }
    bool parse_error(size_t at, const std::string&, const nlohmann::detail::exception&) override {
      byte = at;
      return false;
    }
  } places;
  nlohmann::json::sax_parse(json, &places);
  if (places.byte == 0) return "";
  const std::string_view before = json.substr(0, std::min(places.byte - 1, json.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t newline = before.rfind('\n');
  const size_t column = before.size() - (newline == before.npos ? 0 : newline + 1) + 1;
  return fmt::format(" at line {}, column {}", line, column);
}

std::string in_quotes(std::string_view s) {
  constexpr size_t kShown = 60;
  std::string out = "\"";
  size_t i = 0;
  while (i < s.size() && out.size() < kShown) {
    const Decoded c = decode_utf8(s.data() + i);
    if (c.code_point < 0x20 || c.code_point == 0x7F) {
      out += fmt::format("\\u{:04x}", c.code_point);
    } else {
      out.append(s, i, c.size);
    }
    i += c.size;
  }
  return out + (i < s.size() ? "...\"" : "\"");
}

JsonDocument::JsonDocument(std::string_view json, std::string origin, size_t max_bytes)
    : origin_(std::move(origin)), parser_(max_bytes + 1) {
  if (json.size() > max_bytes) {
    throw Error(fmt::format("{}: {} bytes, more than the {} that such a file may have", origin_,
                            json.size(), max_bytes));
  }
  if (json.empty()) throw Error(fmt::format("{}: the file is empty", origin_));
  const auto error = parser_.parse(json.data(), json.size()).get(root_);
  if (error == simdjson::DEPTH_ERROR) {
    throw Error(fmt::format("{}: nested too deep (more than {} levels)", origin_,
                            simdjson::DEFAULT_MAX_DEPTH));
  }
  if (error == simdjson::UTF8_ERROR) throw Error(fmt::format("{}: not UTF-8", origin_));
  if (error == simdjson::NUMBER_ERROR) {
    throw Error(fmt::format("{}: a number is malformed or out of range{}", origin_,
                            place_of_json_error(json)));
  }
  if (error) throw Error(fmt::format("{}: not JSON{}", origin_, place_of_json_error(json)));
}

void JsonNode::fail(const std::string& problem) const {
  fail_at("", problem);
}

void JsonNode::fail_at(const std::string& part, const std::string& problem) const {
  std::string path = path_ + part;
  if (path.starts_with('.')) path.erase(0, 1);
  if (!path.empty()) path += ": ";
  throw Error(fmt::format("{}: {}{}", document_->origin(), path, problem));
}

std::optional<JsonNode> JsonNode::find(std::string_view key) const {
  std::optional<simdjson::dom::element> found;
  for (const auto& [name, value] : object()) {
    if (name != key) continue;
    if (found) fail_at(fmt::format(".{}", key), "stands twice");
    found = value;
  }
  if (!found || found->is_null()) return std::nullopt;
  return JsonNode(document_, *found, fmt::format("{}.{}", path_, key));
}

JsonNode JsonNode::at(std::string_view key) const {
  auto node = find(key);
  if (!node) fail_at(fmt::format(".{}", key), "missing");
  return *node;
}

void JsonNode::allow_only(std::initializer_list<std::string_view> keys) const {
  for (const auto& [name, value] : object()) {
    if (std::find(keys.begin(), keys.end(), name) == keys.end()) {
      fail(fmt::format("key {} is not supported", in_quotes(name)));
    }
  }
}

std::string_view JsonNode::string() const {
  std::string_view s;
  if (value_.get(s)) fail(fmt::format("must be a string, is {}", name_of(value_.type())));
  return s;
}

bool JsonNode::boolean() const {
  bool b = false;
  if (value_.get(b)) fail(fmt::format("must be true or false, is {}", name_of(value_.type())));
  return b;
}

int64_t JsonNode::integer(int64_t low, int64_t high) const {
  int64_t n = 0;
  if (value_.get(n) || n < low || n > high) {
    fail(fmt::format("must be an integer from {} to {}, is {}", low, high, shown()));
  }
  return n;
}

std::vector<JsonNode> JsonNode::items() const {
  std::vector<JsonNode> nodes;
  for (const auto& value : array()) {
    nodes.push_back(JsonNode(document_, value, fmt::format("{}[{}]", path_, nodes.size())));
  }
  return nodes;
}

std::vector<std::pair<std::string_view, JsonNode>> JsonNode::members() const {
  std::vector<std::pair<std::string_view, JsonNode>> nodes;
  for (const auto& [name, value] : object()) {
    nodes.emplace_back(name, JsonNode(document_, value, fmt::format("{}.{}", path_, name)));
  }
  return nodes;
}

simdjson::dom::array JsonNode::array() const {
  simdjson::dom::array a;
  if (value_.get(a)) fail(fmt::format("must be an array, is {}", name_of(value_.type())));
  return a;
}

simdjson::dom::object JsonNode::object() const {
  simdjson::dom::object o;
  if (value_.get(o)) fail(fmt::format("must be an object, is {}", name_of(value_.type())));
  return o;
}

std::string JsonNode::shown() const {
  std::string_view s;
  if (!value_.get(s)) return in_quotes(s);
  if (value_.is_array() || value_.is_object()) return std::string(name_of(value_.type()));
  return simdjson::minify(value_);
}

}  // namespace plimsoll::text
