#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plimsoll/data/token_store.h"

namespace plimsoll::data {

/// Some documents of one store, numbered 0..size()-1 in the order of the store. Cheap to copy;
/// any number of threads may read. Default made: empty.
class DocumentSet {
 public:
  DocumentSet() = default;
  /// All documents.
  explicit DocumentSet(std::shared_ptr<const TokenStore> store);

  /// {kept, held out}: a document is held out by a hash of the seed and its number, about
  /// `fraction` of them, at least one on each side. Error for a store of one document.
  static std::pair<DocumentSet, DocumentSet> split(const std::shared_ptr<const TokenStore>& store,
                                                   double fraction, std::uint64_t seed);

  std::int64_t size() const { return size_; }
  /// Number of tokens, all documents together (reads the index once: O(size)).
  std::int64_t tokens() const;
  std::int64_t length(std::int64_t i) const { return store_->length(number(i)); }
  void copy(std::int64_t i, std::int64_t first, std::int64_t count, std::int32_t* out) const {
    store_->copy(number(i), first, count, out);
  }
  const TokenStore& store() const { return *store_; }
  /// The number of document i in the store.
  std::int64_t number(std::int64_t i) const;
  /// Equal for equal content and choice of documents.
  const std::string& fingerprint() const { return fingerprint_; }

 private:
  enum class Part { kAll, kKept, kHeldOut };
  std::shared_ptr<const TokenStore> store_;
  std::shared_ptr<const std::vector<std::int64_t>> held_out_;  // sorted numbers
  Part part_ = Part::kAll;
  std::int64_t size_ = 0;
  std::string fingerprint_;
};

/// Entropy in nats of the frequency of single tokens: the loss of a model that ignores context.
double unigram_entropy(const DocumentSet& documents);
/// Cross entropy in nats of `documents` under the token frequencies of `counted` (one added to
/// every id): what such a model fitted on `counted` loses on `documents`.
double unigram_cross_entropy(const DocumentSet& documents, const DocumentSet& counted);

struct Corpus {
  DocumentSet train;
  DocumentSet validation;  ///< empty if none was asked for
};

/// Opens or builds the stores that a recipe asks for and splits them. `seed` chooses the held-out
/// documents. Errors as of open_token_store and DataConfig::validate.
Corpus open_corpus(const DataConfig& config, const TokenizerView& tokenizer, std::uint64_t seed,
                   const OnBuildProgress& progress = {});

}  // namespace plimsoll::data
