#include "plimsoll/data/prefetch.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace plimsoll::data {

struct Prefetcher::Impl {
  struct Item {
    Batch batch;
    StreamState state;
  };

  Impl(Source from, StreamState start, std::int64_t wanted)
      : source(std::move(from)), last(std::move(start)), depth(static_cast<std::size_t>(wanted)) {
    if (wanted > 0) thread = std::thread([this] { run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    room.notify_all();
    if (thread.joinable()) thread.join();
  }

  void run() {
    while (true) {
      Item item;
      {
        std::unique_lock lock(mutex);
        room.wait(lock, [&] { return stop || ready.size() < depth; });
        if (stop) return;
        if (!spare.empty()) {
          item.batch = std::move(spare.back());
          spare.pop_back();
        }
      }
      bool made = false;
      std::exception_ptr thrown;
      try {
        made = source(item.batch, item.state);
      } catch (...) {
        thrown = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex);
        if (made) {
          ready.push_back(std::move(item));
        } else {
          finished = true;
          failure = thrown;
        }
      }
      arrived.notify_one();
      if (!made) return;
    }
  }

  bool next_from_thread(Batch& batch) {
    std::unique_lock lock(mutex);
    if (ready.empty() && !finished) {
      const auto begin = std::chrono::steady_clock::now();
      arrived.wait(lock, [&] { return !ready.empty() || finished; });
      waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    if (ready.empty()) {
      if (failure) std::rethrow_exception(failure);
      return false;
    }
    Item item = std::move(ready.front());
    ready.pop_front();
    // The caller's old batch gives its memory to a later one.
    std::swap(batch, item.batch);
    spare.push_back(std::move(item.batch));
    lock.unlock();
    room.notify_one();
    last = std::move(item.state);
    return true;
  }

  bool next_here(Batch& batch) {
    if (failure) std::rethrow_exception(failure);
    if (finished) return false;
    StreamState state;
    const auto begin = std::chrono::steady_clock::now();
    try {
      finished = !source(batch, state);
    } catch (...) {
      failure = std::current_exception();
      throw;
    }
    waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!finished) last = std::move(state);
    return !finished;
  }

  Source source;      // the thread's alone while it runs
  StreamState last;   // the consumer's
  double waited = 0;  // the consumer's
  std::size_t depth;

  std::mutex mutex;
  std::condition_variable room;
  std::condition_variable arrived;
  std::deque<Item> ready;
  std::vector<Batch> spare;
  std::exception_ptr failure;
  bool finished = false;
  bool stop = false;
  std::thread thread;
};

Prefetcher::Prefetcher(Source source, StreamState start, std::int64_t depth)
    : impl_(std::make_unique<Impl>(std::move(source), std::move(start), depth)) {}

Prefetcher::Prefetcher(BatchStream stream, std::int64_t depth) {
  StreamState start = stream.state();
  // std::function wants something copyable.
  auto shared = std::make_shared<BatchStream>(std::move(stream));
  impl_ = std::make_unique<Impl>(
      [shared](Batch& batch, StreamState& state) {
        if (!shared->next(batch)) return false;
        state = shared->state();
        return true;
      },
      std::move(start), depth);
}

Prefetcher::~Prefetcher() = default;

bool Prefetcher::next(Batch& batch) {
  return impl_->depth == 0 ? impl_->next_here(batch) : impl_->next_from_thread(batch);
}

const StreamState& Prefetcher::state() const {
  return impl_->last;
}

double Prefetcher::waited_seconds() const {
  return impl_->waited;
}

}  // namespace plimsoll::data
