#include "plimsoll/data/lines.h"

#include <cstring>

namespace plimsoll::data {
namespace {

constexpr std::size_t kStart = std::size_t{256} << 10;
constexpr std::size_t kLeastRead = std::size_t{64} << 10;

}  // namespace

LineReader::LineReader(ByteSource& source, std::size_t max_line_bytes)
    : source_(source), max_line_(max_line_bytes), buffer_(kStart + kPadding) {}

bool LineReader::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    scan_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - kPadding - end_ < kLeastRead) {
    buffer_.resize((buffer_.size() - kPadding) * 2 + kPadding);
  }
  const std::size_t got = source_.read(buffer_.data() + end_, buffer_.size() - kPadding - end_);
  end_ += got;
  bytes_read_ += got;
  return got > 0;
}

LineReader::Result LineReader::next(std::string_view& line) {
  bool too_long = false;
  scan_ = begin_;
  const char* newline = nullptr;
  while (true) {
    newline = static_cast<const char*>(std::memchr(buffer_.data() + scan_, '\n', end_ - scan_));
    if (newline != nullptr) break;
    scan_ = end_;
    // One more for a \r that does not count.
    if (end_ - begin_ > max_line_ + 1) {
      too_long = true;
      begin_ = scan_ = end_ = 0;
    }
    if (!fill()) {
      if (begin_ == end_ && !too_long) return Result::kEnd;
      break;
    }
  }
  const std::size_t stop =
      newline != nullptr ? static_cast<std::size_t>(newline - buffer_.data()) : end_;
  line = std::string_view(buffer_.data() + begin_, stop - begin_);
  begin_ = newline != nullptr ? stop + 1 : end_;
  ++line_number_;
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line_number_ == 1 && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  if (too_long || line.size() > max_line_) return Result::kTooLong;
  return Result::kLine;
}

}  // namespace plimsoll::data
