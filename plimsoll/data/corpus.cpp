#include "plimsoll/data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "plimsoll/base/error.h"
#include "plimsoll/base/hash.h"
#include "plimsoll/config/problems.h"
#include "plimsoll/data/permutation.h"

namespace plimsoll::data {
namespace {

std::vector<std::int64_t> count_tokens(const DocumentSet& documents) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(documents.store().vocab_size()));
  std::vector<std::int32_t> ids;
  constexpr std::int64_t kPiece = 1 << 16;
  for (std::int64_t i = 0; i < documents.size(); ++i) {
    const std::int64_t length = documents.length(i);
    for (std::int64_t first = 0; first < length; first += kPiece) {
      const std::int64_t count = std::min(kPiece, length - first);
      ids.resize(static_cast<std::size_t>(count));
      documents.copy(i, first, count, ids.data());
      for (const std::int32_t id : ids) {
        if (id < 0 || static_cast<std::size_t>(id) >= counts.size()) {
          throw Error(fmt::format("{}: id {} is outside the vocabulary of {}",
                                  documents.store().path().string(), id, counts.size()),
                      "remove the file; it is built again when it is needed");
        }
        ++counts[static_cast<std::size_t>(id)];
      }
    }
  }
  return counts;
}

double sum(const std::vector<std::int64_t>& counts) {
  double total = 0;
  for (const std::int64_t count : counts) total += static_cast<double>(count);
  return total;
}

}  // namespace

DocumentSet::DocumentSet(std::shared_ptr<const TokenStore> store)
    : store_(std::move(store)), size_(store_->documents()), fingerprint_(store_->key()) {}

std::pair<DocumentSet, DocumentSet> DocumentSet::split(
    const std::shared_ptr<const TokenStore>& store, double fraction, std::uint64_t seed) {
  const std::int64_t total = store->documents();
  if (total < 2) {
    throw Error(
        fmt::format("cannot hold out validation documents: there is only {} document", total),
        "set data.text_documents = \"blank_lines\" to cut a text into documents, or use "
        "data.validation_files");
  }
  const auto hash = [&](std::int64_t i) {
    return mix64(mix64(seed + 0x9e3779b97f4a7c15) ^ static_cast<std::uint64_t>(i));
  };
  const auto limit = static_cast<std::uint64_t>(fraction * 0x1p64);
  auto held_out = std::make_shared<std::vector<std::int64_t>>();
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (std::int64_t i = 0; i < total; ++i) {
    const std::uint64_t value = hash(i);
    if (value < limit) held_out->push_back(i);
    if (value < hash(lowest)) lowest = i;
    if (value > hash(highest)) highest = i;
  }
  if (held_out->empty()) held_out->push_back(lowest);
  if (static_cast<std::int64_t>(held_out->size()) == total) std::erase(*held_out, highest);

  std::pair<DocumentSet, DocumentSet> sets;
  for (DocumentSet* set : {&sets.first, &sets.second}) {
    const bool kept = set == &sets.first;
    set->store_ = store;
    set->held_out_ = held_out;
    set->part_ = kept ? Part::kKept : Part::kHeldOut;
    const auto held = static_cast<std::int64_t>(held_out->size());
    set->size_ = kept ? total - held : held;
    set->fingerprint_ = xxh3_hex(
        fmt::format("{}/{}/{}/{}", store->key(), fraction, seed, kept ? "kept" : "held out"));
  }
  return sets;
}

std::int64_t DocumentSet::tokens() const {
  if (part_ == Part::kAll) return store_ ? store_->stats().tokens : 0;
  std::int64_t held = 0;
  for (const std::int64_t i : *held_out_) held += store_->length(i);
  return part_ == Part::kHeldOut ? held : store_->stats().tokens - held;
}

std::int64_t DocumentSet::number(std::int64_t i) const {
  if (part_ == Part::kAll) return i;
  const std::vector<std::int64_t>& held = *held_out_;
  if (part_ == Part::kHeldOut) return held[static_cast<std::size_t>(i)];
  // held[k] - k kept documents come before held[k]: find how many held ones come before ours.
  std::int64_t low = 0;
  auto high = static_cast<std::int64_t>(held.size());
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (held[static_cast<std::size_t>(middle)] - middle <= i) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return i + low;
}

double unigram_entropy(const DocumentSet& documents) {
  const std::vector<std::int64_t> counts = count_tokens(documents);
  const double total = sum(counts);
  double entropy = 0;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / total;
    entropy -= share * std::log(share);
  }
  return entropy;
}

double unigram_cross_entropy(const DocumentSet& documents, const DocumentSet& counted) {
  const std::vector<std::int64_t> seen = count_tokens(counted);
  const std::vector<std::int64_t> counts = count_tokens(documents);
  if (seen.size() != counts.size()) {
    throw Error(fmt::format("token streams of different vocabularies: {} and {}", counts.size(),
                            seen.size()));
  }
  const double total = sum(counts);
  const double seen_total = sum(seen) + static_cast<double>(seen.size());
  double loss = 0;
  for (std::size_t id = 0; id < counts.size(); ++id) {
    if (counts[id] == 0) continue;
    const double share = static_cast<double>(counts[id]) / total;
    loss -= share * std::log((static_cast<double>(seen[id]) + 1.0) / seen_total);
  }
  return loss;
}

Corpus open_corpus(const DataConfig& config, const TokenizerView& tokenizer, std::uint64_t seed,
                   const OnBuildProgress& progress) {
  config::Problems problems;
  config.validate(problems);
  problems.throw_if_any();
  // Both are looked up first: a missing validation file should not show after minutes of work.
  const std::vector<std::string> files = expand_files(config.files, "data.files");
  const std::vector<std::string> validation_files =
      expand_files(config.validation_files, "data.validation_files");
  auto store = open_token_store(files, config, tokenizer, progress);
  Corpus corpus;
  if (config.validation_fraction > 0) {
    std::tie(corpus.train, corpus.validation) =
        DocumentSet::split(store, config.validation_fraction, seed);
    return corpus;
  }
  corpus.train = DocumentSet(std::move(store));
  if (!validation_files.empty()) {
    corpus.validation =
        DocumentSet(open_token_store(validation_files, config, tokenizer, progress));
  }
  return corpus;
}

}  // namespace plimsoll::data
