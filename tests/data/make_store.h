#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "plimsoll/data/token_store.h"
#include "tests/temp_dir.h"

namespace plimsoll::data::testing {

using ::plimsoll::testing::TempDir;

/// One id per byte; 256 begins a document, 257 ends it.
inline TokenizerView byte_tokenizer() {
  return {.encode =
              [](std::string_view text, std::vector<std::int32_t>& ids) {
                ids.clear();
                for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
              },
          .fingerprint = "bytes",
          .vocab_size = 258,
          .bos = 256,
          .eos = 257};
}

/// Token j of document i in the stores of make_store.
constexpr std::int32_t kDocumentStride = 1 << 12;
inline std::int32_t token_of(std::int64_t document, std::int64_t j) {
  return static_cast<std::int32_t>(document * kDocumentStride + j);
}

/// A store of documents with these numbers of tokens (each from 2 to kDocumentStride).
inline std::shared_ptr<const TokenStore> make_store(const TempDir& dir,
                                                    const std::vector<std::int64_t>& lengths) {
  std::string text;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    text += std::to_string(i) + " " + std::to_string(lengths[i]) + "\n";
  }
  DataConfig config;
  config.text_documents = "line";
  config.add_bos = config.add_eos = false;
  config.cache_dir = (dir / "cache").string();
  const TokenizerView tokenizer = {.encode =
                                       [](std::string_view line, std::vector<std::int32_t>& ids) {
                                         ids.clear();
                                         char* rest = nullptr;
                                         const std::string copy(line);
                                         const long document = std::strtol(copy.c_str(), &rest, 10);
                                         const long length = std::strtol(rest, nullptr, 10);
                                         for (long j = 0; j < length; ++j)
                                           ids.push_back(token_of(document, j));
                                       },
                                   .fingerprint = "numbers",
                                   .vocab_size = 1 << 30};
  return open_token_store({dir.write("documents.txt", text)}, config, tokenizer);
}

}  // namespace plimsoll::data::testing
