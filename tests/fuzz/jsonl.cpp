// Any bytes through the document reader, under every combination of options that changes its path.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plimsoll/base/error.h"
#include "plimsoll/data/documents.h"
#include "plimsoll/data/utf8.h"

using namespace plimsoll;
using namespace plimsoll::data;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read_all(std::string_view bytes, const DataConfig& config) {
  try {
    DocumentReader reader(memory_source(bytes), config);
    Document document;
    std::int64_t documents = 0;
    std::int64_t line = 0;
    while (reader.next(document)) {
      ++documents;
      require(document.line > line);
      line = document.line;
      require(is_utf8(document.text));
      // Repair can make a text longer, nothing else can.
      require(document.text.size() <= bytes.size() * 3);
    }
    require(documents > 0 && documents == reader.counts().documents);
  } catch (const Error&) {
    // One clear line; anything else thrown is a finding.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  DataConfig config;
  for (const char* format : {"jsonl", "text"}) {
    config.format = format;
    for (const char* documents : {"file", "blank_lines", "line"}) {
      config.text_documents = documents;
      if (config.format == "jsonl" && config.text_documents != "file") continue;
      for (const char* on_bad_line : {"fail", "skip"}) {
        config.on_bad_line = on_bad_line;
        for (const char* invalid : {"fail", "replace"}) {
          config.invalid_utf8 = invalid;
          config.max_document_bytes = size % 2 == 0 ? 1 << 20 : 64;
          read_all(bytes, config);
        }
      }
    }
  }
  require(valid_utf8_prefix(bytes) <= size);
  require((valid_utf8_prefix(bytes) == size) == is_utf8(bytes));
  return 0;
}
