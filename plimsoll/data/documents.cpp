#include "plimsoll/data/documents.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "plimsoll/base/error.h"
#include "plimsoll/base/units.h"
#include "plimsoll/data/lines.h"
#include "plimsoll/data/utf8.h"

namespace plimsoll::data {
namespace {

enum class Kind { kJsonl, kWholeFile, kParagraphs, kLines };

Kind kind_of(const DataConfig& config, const std::string& name) {
  if (resolve_format(config.format, name) == "jsonl") return Kind::kJsonl;
  if (config.text_documents == "file") return Kind::kWholeFile;
  return config.text_documents == "line" ? Kind::kLines : Kind::kParagraphs;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

const char* type_name(simdjson::dom::element_type type) {
  switch (type) {
    case simdjson::dom::element_type::ARRAY:
      return "an array";
    case simdjson::dom::element_type::OBJECT:
      return "an object";
    case simdjson::dom::element_type::STRING:
      return "a string";
    case simdjson::dom::element_type::BOOL:
      return "a boolean";
    case simdjson::dom::element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

std::string member_names(const simdjson::dom::object& object) {
  constexpr std::size_t kShown = 8;
  std::string names;
  std::size_t count = 0;
  for (const auto& member : object) {
    if (count == kShown) return names + ", ...";
    names += fmt::format("{}\"{:.40}\"", count == 0 ? "" : ", ", member.key);
    ++count;
  }
  return names.empty() ? "no members" : names;
}

}  // namespace

struct DocumentReader::Impl {
  Impl(std::unique_ptr<ByteSource> from, const DataConfig& with, ReaderReports to)
      : source(std::move(from)),
        config(with),
        reports(std::move(to)),
        kind(kind_of(with, source->name())),
        max_bytes(static_cast<std::size_t>(with.max_document_bytes)),
        lines(*source, max_bytes) {}

  bool next(Document& document) {
    const bool found = kind == Kind::kJsonl       ? next_jsonl(document)
                       : kind == Kind::kLines     ? next_line(document)
                       : kind == Kind::kWholeFile ? next_file(document)
                                                  : next_paragraph(document);
    if (found) {
      ++counts.documents;
      counts.bytes += static_cast<std::int64_t>(document.text.size());
    } else if (counts.documents == 0) {
      fail_empty();
    }
    return found;
  }

  void fail_empty() const {
    if (lines.bytes_read() + file_bytes == 0) {
      throw Error(fmt::format("{} is empty", source->name()));
    }
    if (counts.skipped > 0 && reports.on_skipped) return;
    if (counts.skipped > 0) {
      throw Error(fmt::format("{} holds no usable documents: {} bad lines were skipped",
                              source->name(), counts.skipped),
                  setting("on_bad_line", "fail") + " to see what is wrong with the first");
    }
    throw Error(fmt::format("{} holds no documents, only blank lines", source->name()));
  }

  /// A key of [data] as a recipe or as a command spells it.
  std::string key(std::string name) const {
    if (!reports.command_line) return "data." + name;
    std::replace(name.begin(), name.end(), '_', '-');
    return fmt::format("--{}", name);
  }

  std::string setting(const std::string& name, const std::string& value) const {
    return reports.command_line ? fmt::format("give {} {}", key(name), value)
                                : fmt::format("set {} = \"{}\"", key(name), value);
  }

  /// A line that cannot be used: counted, or the end.
  void bad(BadLine kind_of_bad, std::int64_t line, const std::string& why) {
    if (config.on_bad_line == "skip") {
      ++counts.skipped;
      if (reports.on_skipped) reports.on_skipped(kind_of_bad, line, why);
      return;
    }
    std::string hint = setting("on_bad_line", "skip") + " to pass over such lines";
    if (kind_of_bad == BadLine::kNotUtf8) {
      const std::string repair =
          setting("invalid_utf8", "replace") + " to put U+FFFD in the place of such bytes";
      hint = kind == Kind::kWholeFile ? repair : repair + ", or " + hint;
    } else {
      hint = "mend the line, or " + hint;
    }
    throw Error(fmt::format("{}:{}: {}", source->name(), line, why), hint);
  }

  void too_long(std::int64_t line, std::string_view what) {
    bad(BadLine::kTooLong, line,
        fmt::format("the {} is longer than {} ({})", what, format_bytes(config.max_document_bytes),
                    key("max_document_bytes")));
  }

  /// The text as valid UTF-8, repaired where the config says so; false for a bad line. `line` is
  /// that of the first byte.
  bool check_utf8(std::string_view& text, std::int64_t line) {
    if (is_utf8(text)) return true;
    if (config.invalid_utf8 == "replace") {
      repaired = replace_invalid_utf8(text);
      repaired.reserve(repaired.size() + LineReader::kPadding);
      text = repaired;
      ++counts.bad_utf8;
      return true;
    }
    const std::string_view good = text.substr(0, valid_utf8_prefix(text));
    const auto newlines = std::count(good.begin(), good.end(), '\n');
    const std::size_t line_start = good.rfind('\n') + 1;  // 0 when there is none
    bad(BadLine::kNotUtf8, line + newlines,
        fmt::format("invalid UTF-8 at byte {} of the line (0x{:02x})", good.size() - line_start + 1,
                    static_cast<unsigned char>(text[good.size()])));
    return false;
  }

  bool next_jsonl(Document& document) {
    std::string_view line;
    while (true) {
      const LineReader::Result result = lines.next(line);
      if (result == LineReader::Result::kEnd) return false;
      document.line = lines.line_number();
      if (result == LineReader::Result::kTooLong) {
        too_long(document.line, "line");
      } else if (!is_blank(line) && parse(line, document)) {
        return true;
      }
    }
  }

  bool parse(std::string_view line, Document& document) {
    const std::int64_t number = document.line;
    if (!check_utf8(line, number)) return false;
    simdjson::dom::element root;
    auto error = parser.parse(line.data(), line.size(), false).get(root);
    if (error == simdjson::STRING_ERROR && config.invalid_utf8 == "replace") {
      // Half a surrogate pair as an escape is invalid Unicode in another dress.
      std::string again(line);
      replace_lone_surrogate_escapes(again);
      if (again != line) {
        repaired = std::move(again);
        repaired.reserve(repaired.size() + LineReader::kPadding);
        error = parser.parse(repaired.data(), repaired.size(), false).get(root);
        if (!error) ++counts.bad_utf8;
      }
    }
    // Not the line's fault: to skip it would lose a good document.
    if (error == simdjson::MEMALLOC) {
      throw Error(fmt::format("{}:{}: out of memory while reading a line of {}", source->name(),
                              number, format_bytes(static_cast<std::int64_t>(line.size()))),
                  "give the process more memory, or split the document");
    }
    if (error) {
      bad(BadLine::kNotJson, number, fmt::format("not JSON: {}", simdjson::error_message(error)));
      return false;
    }
    simdjson::dom::object object;
    if (root.get(object)) {
      bad(BadLine::kNotJson, number,
          fmt::format("{}, not an object with a member \"{}\"", type_name(root.type()),
                      config.text_field));
      return false;
    }
    simdjson::dom::element value;
    if (object.at_key(config.text_field).get(value)) {
      bad(BadLine::kNoText, number,
          fmt::format("no member \"{}\" (there is: {})", config.text_field, member_names(object)));
      return false;
    }
    if (value.get(document.text)) {
      bad(BadLine::kNoText, number,
          fmt::format("\"{}\" is {}, not a string", config.text_field, type_name(value.type())));
      return false;
    }
    return true;
  }

  bool next_line(Document& document) {
    while (true) {
      const LineReader::Result result = lines.next(document.text);
      if (result == LineReader::Result::kEnd) return false;
      document.line = lines.line_number();
      if (result == LineReader::Result::kTooLong) {
        too_long(document.line, "line");
      } else if (!is_blank(document.text) && check_utf8(document.text, document.line)) {
        return true;
      }
    }
  }

  bool next_paragraph(Document& document) {
    std::string_view line;
    while (true) {
      paragraph.clear();
      bool any = false;
      bool over = false;
      bool end = false;
      while (true) {
        const LineReader::Result result = lines.next(line);
        end = result == LineReader::Result::kEnd;
        if (end) break;
        const bool line_over = result == LineReader::Result::kTooLong;
        if (!line_over && is_blank(line)) {
          if (any) break;
          continue;
        }
        if (!any) document.line = lines.line_number();
        over = over || line_over || paragraph.size() + line.size() + 1 > max_bytes;
        if (!over) {
          if (any) paragraph += '\n';
          paragraph += line;
        }
        any = true;
      }
      if (!any) return false;
      document.text = paragraph;
      if (over) {
        too_long(document.line, "paragraph");
      } else if (check_utf8(document.text, document.line)) {
        return true;
      }
      if (end) return false;
    }
  }

  bool next_file(Document& document) {
    if (file_done) return false;
    file_done = true;
    constexpr std::size_t kChunk = std::size_t{256} << 10;
    document.line = 1;
    while (true) {
      const std::size_t used = paragraph.size();
      if (paragraph.capacity() < used + kChunk) paragraph.reserve(used * 2 + kChunk);
      paragraph.resize(used + kChunk);
      const std::size_t got = source->read(paragraph.data() + used, kChunk);
      paragraph.resize(used + got);
      file_bytes += got;
      if (got == 0) break;
      if (paragraph.size() > max_bytes) {
        throw Error(fmt::format("{}: a document longer than {} ({})", source->name(),
                                format_bytes(config.max_document_bytes), key("max_document_bytes")),
                    setting("text_documents", "blank_lines") + " to cut the file into documents");
      }
    }
    document.text = paragraph;
    if (document.text.starts_with("\xef\xbb\xbf")) document.text.remove_prefix(3);
    return !document.text.empty() && check_utf8(document.text, 1);
  }

  std::unique_ptr<ByteSource> source;
  DataConfig config;
  ReaderReports reports;
  Kind kind;
  std::size_t max_bytes;
  LineReader lines;
  simdjson::dom::parser parser;
  std::string repaired;
  std::string paragraph;
  bool file_done = false;
  std::uint64_t file_bytes = 0;
  DocumentCounts counts;
};

DocumentReader::DocumentReader(std::unique_ptr<ByteSource> source, const DataConfig& config,
                               ReaderReports reports)
    : impl_(std::make_unique<Impl>(std::move(source), config, std::move(reports))) {}

DocumentReader::DocumentReader(DocumentReader&&) noexcept = default;
DocumentReader::~DocumentReader() = default;

bool DocumentReader::next(Document& document) {
  return impl_->next(document);
}

const DocumentCounts& DocumentReader::counts() const {
  return impl_->counts;
}

std::string resolve_format(const std::string& format, std::string_view file_name) {
  if (format != "auto") return format;
  for (const std::string_view packed : {".gz", ".zst", ".zstd"}) {
    if (file_name.ends_with(packed)) {
      file_name.remove_suffix(packed.size());
      break;
    }
  }
  for (const std::string_view suffix : {".jsonl", ".ndjson", ".json"}) {
    if (file_name.ends_with(suffix)) return "jsonl";
  }
  return "text";
}

}  // namespace plimsoll::data
