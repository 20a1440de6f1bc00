#pragma once

#include <simdjson.h>

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plimsoll::text {

/// A JSON document whose accessors throw Error naming the file and the path of the key. Internal to
/// this folder.
class JsonDocument {
 public:
  /// Throws Error: too long, not UTF-8, not JSON (with line), nested too deep.
  JsonDocument(std::string_view json, std::string origin, size_t max_bytes);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  const std::string& origin() const { return origin_; }
  simdjson::dom::element root() const { return root_; }

 private:
  std::string origin_;
  simdjson::dom::parser parser_;
  simdjson::dom::element root_;
};

/// A value and where it stands. Lives no longer than its document.
class JsonNode {
 public:
  explicit JsonNode(const JsonDocument& document) : document_(&document), value_(document.root()) {}

  /// The member, absent where the key is missing or null. Throws where the key stands twice.
  std::optional<JsonNode> find(std::string_view key) const;
  /// The same, but throws where it is absent.
  JsonNode at(std::string_view key) const;

  /// Throws where the object has a key that is not among these.
  void allow_only(std::initializer_list<std::string_view> keys) const;

  std::string_view string() const;
  bool boolean() const;
  int64_t integer(int64_t low, int64_t high) const;
  std::vector<JsonNode> items() const;
  std::vector<std::pair<std::string_view, JsonNode>> members() const;
  simdjson::dom::array array() const;
  simdjson::dom::object object() const;
  simdjson::dom::element raw() const { return value_; }

  /// The value as short JSON, for errors.
  std::string shown() const;

  /// "FILE: PATH: problem".
  [[noreturn]] void fail(const std::string& problem) const;
  /// The same for a part of this value: `part` is ".key" or "[3]".
  [[noreturn]] void fail_at(const std::string& part, const std::string& problem) const;

 private:
  JsonNode(const JsonDocument* document, simdjson::dom::element value, std::string path)
      : document_(document), value_(value), path_(std::move(path)) {}

  const JsonDocument* document_;
  simdjson::dom::element value_;
  std::string path_;  // empty for the root
};

/// " at line 3, column 7": where the text stops being JSON; empty where it does not.
std::string place_of_json_error(std::string_view json);

/// A string for an error line: control characters escaped, shortened, in quotes.
std::string in_quotes(std::string_view s);

}  // namespace plimsoll::text
