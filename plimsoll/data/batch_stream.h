#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plimsoll/data/corpus.h"
#include "plimsoll/data/stream_state.h"

namespace plimsoll::data {

/// The label of a token that has no loss.
inline constexpr std::int32_t kNoLoss = -100;

/// One packed row. tokens, targets and positions have the same length, tokens_per_batch.
struct Batch {
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;    ///< the next token, or kNoLoss
  std::vector<std::int32_t> positions;  ///< 0 at the start of each segment
  /// n + 1 offsets of the n segments that do not attend to each other; first 0, last tokens.size().
  std::vector<std::int32_t> documents;

  /// Number of targets that are not kNoLoss.
  std::int64_t valid_tokens() const;
  /// Empties it, keeping the memory.
  void clear();
};

enum class Packing { kConcat, kFirstFit };
/// "concat" or "first_fit"; UsageError otherwise.
Packing parse_packing(std::string_view name);
const char* name(Packing packing);

struct StreamConfig {
  std::int64_t tokens_per_batch = 0;
  std::int64_t max_context = 0;
  Packing packing = Packing::kConcat;
  bool shuffle = true;
  std::uint64_t seed = 0;
  std::int64_t rank = 0;
  std::int64_t world = 1;
  /// Start over after the last document. Without it the ranks run out at different times, so it is
  /// an error with world > 1.
  bool repeat = true;
  /// Concat without repeat: pad the last short row rather than drop it (for a full validation
  /// pass).
  bool pad_last = false;
  std::int32_t pad_id = 0;
};

/// Packed rows from a set of documents. inputs = document[:-1], targets = document[1:].
///
/// Order: each epoch is shuffled by seed + epoch (or kept); each rank takes one contiguous slice,
/// sizes differ by at most one, the low ranks have the longer ones.
/// Concat: documents end to end, cut anywhere by rows; positions are arange mod max_context within
/// a document and start at 0 again at a row's start; the rest of a document after a cut keeps its
/// remaining boundaries. The remainder of an epoch goes on in the next; without repeat it is
/// dropped, or padded.
/// First fit: whole documents into the first of up to 8 open rows with room; when none has room the
/// fullest is given out. Those with more than max_context (or a row's) inputs are dropped and
/// counted. Padding: pad_id, kNoLoss, position 0, each pad token a segment of its own.
///
/// The same state and config give the same rows on every machine. One thread at a time.
class BatchStream {
 public:
  /// Error: no documents, fewer documents than ranks, sizes below 1, rank outside world, first
  /// fit with no document that fits.
  BatchStream(DocumentSet documents, StreamConfig config);

  /// The next row; false, and an empty batch, when the documents ran out.
  bool next(Batch& batch);

  /// The position after the last row. A stream that is restored to it continues with the same rows.
  StreamState state() const { return state_; }
  /// Error that names the field and both values if the state is of other data, seed, rank, world,
  /// packing or sizes, or is impossible.
  void restore(const StreamState& state);

  const StreamConfig& config() const { return config_; }
  /// Documents of this rank in one epoch.
  std::int64_t slice_size() const { return slice_size_; }

 private:
  void check_first_fit() const;
  bool next_concat(Batch& batch);
  bool next_first_fit(Batch& batch);
  std::int64_t document_at(std::int64_t epoch, std::int64_t index) const;
  bool at_end();
  void append(Batch& batch, std::int64_t document, std::int64_t first, std::int64_t count);
  void pad(Batch& batch) const;
  void emit_bin(Batch& batch, std::size_t bin);

  DocumentSet documents_;
  StreamConfig config_;
  std::int64_t slice_begin_ = 0;
  std::int64_t slice_size_ = 0;
  StreamState state_;
  std::vector<std::int32_t> scratch_;
};

}  // namespace plimsoll::data
