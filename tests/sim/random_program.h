#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/driver/machine.h"
#include "sim/driver/random.h"

/// Random programs over several streams, their interpreter, and a brute-force reference that keeps
/// every access and every edge and searches the whole graph.
namespace plimsoll::sim::testing {

enum class Op {
  kTask,
  kCopy,
  kRecord,
  kWait,
  kHostWait,
  kQuery,  // the next step is skipped when the answer is no
  kAllocate,
  kFree,
  kRecordStream,
  kHostAccess,
  kSynchronize,
  kSynchronizeAll,
  kEmptyCache,
  kRenewHost,  // frees a pinned buffer and takes another
  kStale,      // uses memory that was freed
  kOrder,      // record, then another stream waits (or the host polls: `flag`)
  kHostOrder,  // record, then the host waits (or polls: `flag`)
};

struct Step {
  Op op = Op::kTask;
  std::uint32_t stream = 0, event = 0, slot = 0, buffer = 0;
  std::uint64_t size = 0, offset = 0, length = 0;
  Nanoseconds cost = 0;
  bool flag = false;
  bool out = false;
  struct Use {
    std::uint32_t slot;
    std::uint64_t offset, length;
    bool write;
  };
  std::vector<Use> uses;
};
using Program = std::vector<Step>;

struct Shape {
  std::uint32_t streams = 8, slots = 6, events = 6, buffers = 2, steps = 60, wait_weight = 4;
  std::uint64_t capacity = 6 << 20;
  bool stale = false, memory = true, host_waits = true, pageable = true;
  double duplex = 1;
  int launch_queue = 0;
};

Program draw(std::uint64_t seed, const Shape& shape);

/// Every operation and what it comes after. Nodes are numbered so that predecessors come first.
class Reference {
 public:
  struct Used {
    int node;      // the access
    int followed;  // what a later access must come after to be ordered
    Address begin, end;
    bool write;
    OperationKind kind;
    Sequence number;
    std::uint64_t tenancy;  // which use of the memory; 0: of none
  };

  explicit Reference(std::uint32_t streams);
  int on(std::uint32_t stream, std::vector<int> after = {});
  void host(std::vector<int> after = {});
  int node(std::vector<int> after);
  int last(std::uint32_t stream) const { return chains_[stream]; }
  int host_node() const { return host_; }
  std::vector<int> all_streams() const { return chains_; }
  std::uint64_t tenancy_at(Address begin, Address end) const;
  void close();
  bool before(int earlier, int later) const { return reach_[later][earlier]; }

  std::vector<Used> uses;
  std::map<std::uint64_t, int> birth, death;                         // node by tenancy
  std::map<std::uint64_t, Sequence> death_number;                    // of the free
  std::map<Address, std::pair<Address, std::uint64_t>> allocations;  // end, tenancy by begin

 private:
  std::vector<std::vector<int>> before_;
  std::vector<int> chains_;
  int host_ = 0;
  std::vector<std::vector<bool>> reach_;
};

/// Tenancies of host memory are numbered from here.
inline constexpr std::uint64_t kHostTenancies = 1'000'000;

/// All that a run showed.
struct Outcome {
  Nanoseconds now = 0;
  std::uint64_t answers = 0;  // hash of queries, addresses, failures and times
  std::uint64_t memory = 0;   // hash of the final bytes; 0 in Mode::kCost
  std::map<std::string, std::int64_t> statistics;
  std::vector<Span> timeline;
  std::vector<Race> races;  // each by itself
  std::vector<std::string> reports;
  std::map<Sequence, std::size_t> step_of;
};

struct RunOptions {
  Mode mode = Mode::kCost;
  std::uint64_t seed = 1;
  Races races = Races::kOn;
  bool poison = true;
};

Outcome run(const Program& program, const Shape& shape, const RunOptions& options,
            Reference* reference = nullptr);

/// Inserts orders where the detector reports until it is silent; false if that takes too long.
bool repair(Program& program, const Shape& shape);

}  // namespace plimsoll::sim::testing
