#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "plimsoll/base/byte_source.h"

namespace plimsoll::data {

/// Cuts a byte source into lines. Memory is bounded by the longest line allowed, not by the
/// longest line there is.
class LineReader {
 public:
  /// Bytes after each line that may be read (their values mean nothing): what simdjson needs.
  static constexpr std::size_t kPadding = 64;

  enum class Result { kLine, kTooLong, kEnd };

  /// `source` must outlive the reader.
  LineReader(ByteSource& source, std::size_t max_line_bytes);

  /// The next line without its \n or \r\n, and without a byte order mark at the start of the
  /// source; valid until the next call. kTooLong: the line was passed over.
  Result next(std::string_view& line);
  /// 1-based number of the line that next() gave last.
  std::int64_t line_number() const { return line_number_; }
  std::uint64_t bytes_read() const { return bytes_read_; }

 private:
  bool fill();

  ByteSource& source_;
  std::size_t max_line_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;  // of the current line
  std::size_t scan_ = 0;   // up to here there is no \n after begin_
  std::size_t end_ = 0;    // of the bytes in buffer_
  std::int64_t line_number_ = 0;
  std::uint64_t bytes_read_ = 0;
};

}  // namespace plimsoll::data
