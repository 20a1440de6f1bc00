#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "plimsoll/base/byte_source.h"
#include "plimsoll/data/config.h"

namespace plimsoll::data {

struct Document {
  /// Valid UTF-8; valid until the next call of next().
  std::string_view text;
  /// 1-based line where the document starts.
  std::int64_t line = 0;
};

/// What happened to the lines of one or several files.
struct DocumentCounts {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;     ///< of document text
  std::int64_t skipped = 0;   ///< bad lines passed over (on_bad_line = skip)
  std::int64_t bad_utf8 = 0;  ///< documents repaired (invalid_utf8 = replace)
};

/// Why a line cannot be used.
enum class BadLine {
  kNotJson,  ///< or JSON that is no object
  kNoText,   ///< an object without the text field, or with something else than a text there
  kNotUtf8,
  kTooLong,
};

/// How a reader speaks to the one who asked for the documents.
struct ReaderReports {
  /// How messages spell a setting: `data.on_bad_line = "skip"` of a recipe, or `--on-bad-line skip`
  /// of a command.
  bool command_line = false;
  /// Told of each bad line that is passed over, with its number. A file of nothing but such lines
  /// is then no error.
  std::function<void(BadLine kind, std::int64_t line, const std::string& why)> on_skipped;
};

/// Streams the documents of one file. Memory is bounded by max_document_bytes, not by the file.
/// Errors are "FILE:LINE: what" and say how to pass over such a line; a file without any document
/// is an error too. One thread at a time.
class DocumentReader {
 public:
  /// `config` as in DataConfig: format (auto: by the source's name), text_field, text_documents,
  /// on_bad_line, invalid_utf8, max_document_bytes. It must be valid.
  DocumentReader(std::unique_ptr<ByteSource> source, const DataConfig& config,
                 ReaderReports reports = {});
  DocumentReader(DocumentReader&&) noexcept;
  ~DocumentReader();

  /// False at the end.
  bool next(Document& document);
  const DocumentCounts& counts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// "text" or "jsonl" for a file name under DataConfig::format.
std::string resolve_format(const std::string& format, std::string_view file_name);

}  // namespace plimsoll::data
