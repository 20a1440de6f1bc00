#include "plimsoll/data/batch_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plimsoll/base/error.h"
#include "plimsoll/data/permutation.h"

namespace plimsoll::data {
namespace {

constexpr std::size_t kOpenBins = 8;

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

void check_positive(std::int64_t value, std::string_view what) {
  if (value < 1) throw UsageError(fmt::format("{} = {}: must be at least 1", what, value));
}

template <typename Value>
void check_same(std::string_view field, const Value& saved, const Value& now) {
  if (saved == now) return;
  throw Error(
      fmt::format("cannot continue in the data: {} was {}, now it is {}", field, saved, now),
      "continue with the settings and data of the saved run, or start a new run");
}

}  // namespace

std::int64_t Batch::valid_tokens() const {
  return static_cast<std::int64_t>(targets.size()) -
         std::count(targets.begin(), targets.end(), kNoLoss);
}

void Batch::clear() {
  tokens.clear();
  targets.clear();
  positions.clear();
  documents.clear();
}

Packing parse_packing(std::string_view name) {
  if (name == "concat") return Packing::kConcat;
  if (name == "first_fit") return Packing::kFirstFit;
  throw UsageError(fmt::format("data.packing = \"{}\": must be concat, first_fit", name));
}

const char* name(Packing packing) {
  return packing == Packing::kConcat ? "concat" : "first_fit";
}

BatchStream::BatchStream(DocumentSet documents, StreamConfig config)
    : documents_(std::move(documents)), config_(config) {
  check_positive(config_.tokens_per_batch, "tokens per batch");
  check_positive(config_.max_context, "maximal context");
  check_positive(config_.world, "number of data ranks");
  if (config_.tokens_per_batch > INT32_MAX) {
    throw UsageError(fmt::format("tokens per batch = {}: must be at most {}",
                                 config_.tokens_per_batch, INT32_MAX));
  }
  if (config_.rank < 0 || config_.rank >= config_.world) {
    throw UsageError(
        fmt::format("data rank {}: must be from 0 to {}", config_.rank, config_.world - 1));
  }
  if (!config_.repeat && config_.world > 1) {
    throw UsageError(
        fmt::format("data.repeat = false with {} data ranks: the ranks would run out of data at "
                    "different steps",
                    config_.world),
        "set data.repeat = true and bound the run by its steps");
  }
  if (documents_.size() == 0) throw Error("there are no documents to make batches from");
  if (documents_.size() < config_.world) {
    throw Error(
        fmt::format("{} documents are too few for {} data ranks", documents_.size(), config_.world),
        "use fewer ranks, or cut the text into more documents (data.text_documents)");
  }
  const std::int64_t share = documents_.size() / config_.world;
  const std::int64_t longer = documents_.size() % config_.world;
  slice_size_ = share + (config_.rank < longer ? 1 : 0);
  slice_begin_ = config_.rank * share + std::min(config_.rank, longer);
  if (config_.packing == Packing::kFirstFit) check_first_fit();

  state_.data = documents_.fingerprint();
  state_.packing = name(config_.packing);
  state_.shuffle = config_.shuffle;
  state_.seed = config_.seed;
  state_.rank = config_.rank;
  state_.world = config_.world;
  state_.tokens_per_batch = config_.tokens_per_batch;
  state_.max_context = config_.max_context;
}

/// Without a document that fits, first fit would look for one for ever.
void BatchStream::check_first_fit() const {
  // Shuffled slices get other documents in each epoch.
  const std::int64_t begin = config_.shuffle ? 0 : slice_begin_;
  const std::int64_t end = config_.shuffle ? documents_.size() : slice_begin_ + slice_size_;
  const std::int64_t longest = std::min(config_.tokens_per_batch, config_.max_context);
  for (std::int64_t i = begin; i < end; ++i) {
    if (documents_.length(i) - 1 <= longest) return;
  }
  throw Error(
      fmt::format("none of {} documents fits in {} tokens (first-fit packing drops longer ones)",
                  end - begin, longest),
      "set data.packing = \"concat\", or raise the context length");
}

std::int64_t BatchStream::document_at(std::int64_t epoch, std::int64_t index) const {
  const std::int64_t place = slice_begin_ + index;
  if (!config_.shuffle) return place;
  return Permutation(documents_.size(), config_.seed + static_cast<std::uint64_t>(epoch))(place);
}

bool BatchStream::next(Batch& batch) {
  batch.clear();
  const bool made =
      config_.packing == Packing::kConcat ? next_concat(batch) : next_first_fit(batch);
  if (!made) {
    batch.clear();
    return false;
  }
  batch.documents.push_back(static_cast<std::int32_t>(batch.tokens.size()));
  ++state_.rows;
  return true;
}

/// True when the slice is used up and there is no further epoch; begins the next epoch otherwise.
bool BatchStream::at_end() {
  if (state_.index < slice_size_) return false;
  if (!config_.repeat) return true;
  ++state_.epoch;
  state_.index = 0;
  return false;
}

bool BatchStream::next_concat(Batch& batch) {
  const std::int64_t row = config_.tokens_per_batch;
  std::int64_t filled = 0;
  while (filled < row && !at_end()) {
    const std::int64_t document = document_at(state_.epoch, state_.index);
    const std::int64_t inputs = documents_.length(document) - 1;
    const std::int64_t count = std::min(row - filled, inputs - state_.offset);
    append(batch, document, state_.offset, count);
    filled += count;
    state_.offset += count;
    if (state_.offset == inputs) {
      ++state_.index;
      state_.offset = 0;
    }
  }
  if (filled == row) return true;
  if (filled == 0 || !config_.pad_last) return false;
  pad(batch);
  return true;
}

bool BatchStream::next_first_fit(Batch& batch) {
  const std::int64_t row = config_.tokens_per_batch;
  const std::int64_t longest = std::min(row, config_.max_context);
  std::vector<std::vector<std::int64_t>>& bins = state_.bins;
  std::vector<std::int64_t> loads;
  for (const auto& bin : bins) {
    std::int64_t load = 0;
    for (const std::int64_t document : bin) load += documents_.length(document) - 1;
    loads.push_back(load);
  }
  while (!at_end()) {
    const std::int64_t document = document_at(state_.epoch, state_.index);
    const std::int64_t inputs = documents_.length(document) - 1;
    if (inputs > longest) {
      ++state_.dropped_long;
      ++state_.index;
      continue;
    }
    std::size_t bin = 0;
    while (bin < bins.size() && loads[bin] + inputs > row) ++bin;
    if (bin == bins.size()) {
      if (bins.size() == kOpenBins) {
        // The document stays for the next call.
        emit_bin(batch, at(std::max_element(loads.begin(), loads.end()) - loads.begin()));
        return true;
      }
      bins.emplace_back();
      loads.push_back(0);
    }
    bins[bin].push_back(document);
    loads[bin] += inputs;
    ++state_.index;
    if (loads[bin] == row) {
      emit_bin(batch, bin);
      return true;
    }
  }
  if (bins.empty()) return false;
  emit_bin(batch, 0);
  return true;
}

void BatchStream::append(Batch& batch, std::int64_t document, std::int64_t first,
                         std::int64_t count) {
  scratch_.resize(at(count + 1));
  documents_.copy(document, first, count + 1, scratch_.data());
  batch.tokens.insert(batch.tokens.end(), scratch_.begin(), scratch_.end() - 1);
  batch.targets.insert(batch.targets.end(), scratch_.begin() + 1, scratch_.end());
  std::int32_t position = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    // A segment begins with the piece, and wherever the document begins a new context.
    if (i == 0 || (first + i) % config_.max_context == 0) {
      position = 0;
      batch.documents.push_back(static_cast<std::int32_t>(batch.positions.size()));
    }
    batch.positions.push_back(position++);
  }
}

void BatchStream::pad(Batch& batch) const {
  while (std::ssize(batch.tokens) < config_.tokens_per_batch) {
    batch.documents.push_back(static_cast<std::int32_t>(batch.tokens.size()));
    batch.tokens.push_back(config_.pad_id);
    batch.targets.push_back(kNoLoss);
    batch.positions.push_back(0);
  }
}

void BatchStream::emit_bin(Batch& batch, std::size_t bin) {
  for (const std::int64_t document : state_.bins[bin]) {
    append(batch, document, 0, documents_.length(document) - 1);
  }
  pad(batch);
  state_.bins.erase(state_.bins.begin() + static_cast<std::ptrdiff_t>(bin));
}

void BatchStream::restore(const StreamState& saved) {
  check_same("the version of the position", saved.version, state_.version);
  check_same("the data (fingerprint of files, tokenizer, reading options and split)", saved.data,
             state_.data);
  check_same("the number of data ranks", saved.world, state_.world);
  check_same("the data rank", saved.rank, state_.rank);
  check_same("the seed", saved.seed, state_.seed);
  check_same("data.shuffle", saved.shuffle, state_.shuffle);
  check_same("data.packing", saved.packing, state_.packing);
  check_same("tokens per batch", saved.tokens_per_batch, state_.tokens_per_batch);
  check_same("the maximal context", saved.max_context, state_.max_context);

  const auto refuse = [](const std::string& why) {
    throw Error(fmt::format("cannot continue in the data: the saved position is damaged: {}", why));
  };
  const auto check_range = [&](std::string_view field, std::int64_t value, std::int64_t limit) {
    if (value < 0 || value > limit) {
      refuse(fmt::format("{} is {}, must be from 0 to {}", field, value, limit));
    }
  };
  check_range("epoch", saved.epoch, INT64_MAX);
  check_range("index", saved.index, slice_size_);
  check_range("rows", saved.rows, INT64_MAX);
  check_range("dropped_long", saved.dropped_long, INT64_MAX);
  const bool within = config_.packing == Packing::kConcat && saved.index < slice_size_;
  // length - 2: the last input of a document is never left over as "given out".
  check_range("offset", saved.offset,
              within ? documents_.length(document_at(saved.epoch, saved.index)) - 2 : 0);
  check_range("number of open rows", std::ssize(saved.bins),
              config_.packing == Packing::kFirstFit ? std::int64_t{kOpenBins} : 0);
  for (const auto& bin : saved.bins) {
    std::int64_t load = 0;
    for (const std::int64_t document : bin) {
      check_range("a document of an open row", document, documents_.size() - 1);
      load += documents_.length(document) - 1;
      check_range("tokens in an open row", load, config_.tokens_per_batch - 1);
    }
    if (bin.empty()) refuse("an open row without documents");
  }
  state_ = saved;
}

}  // namespace plimsoll::data
