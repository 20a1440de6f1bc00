#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "plimsoll/data/batch_stream.h"

namespace plimsoll::data {

/// Makes batches ahead in a thread of its own. Its methods are for one consumer thread.
class Prefetcher {
 public:
  /// Gives the next batch and the position after it; false at the end. Runs in the thread.
  using Source = std::function<bool(Batch&, StreamState&)>;

  /// `depth` batches ahead; 0: no thread, batches are made in next().
  Prefetcher(BatchStream stream, std::int64_t depth);
  /// `start`: the state before the first batch.
  Prefetcher(Source source, StreamState start, std::int64_t depth);
  /// Stops and joins the thread.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// False at the end. What the source threw is thrown here, after the batches made before it, and
  /// again at each later call.
  bool next(Batch& batch);
  /// The position after the last batch that next() handed out; batches made ahead do not count.
  const StreamState& state() const;
  /// Total time that next() waited for the thread.
  double waited_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::data
