#include "tests/sim/random_program.h"

#include <algorithm>

#include "tests/sim/tiny_profile.h"

namespace plimsoll::sim::testing {

Program draw(std::uint64_t seed, const Shape& shape) {
  Random random(seed);
  const auto size = [&]() -> std::uint64_t {
    switch (random.below(4)) {
      case 0:
        return 512 + random.below(2000);
      case 1:
        return 4096 + random.below(60000);
      case 2:
        return 200000 + random.below(800000);
      default:
        return 700000 + random.below(300000);
    }
  };
  Program program;
  for (std::uint32_t i = 0; i < shape.slots; ++i) {
    Step step{.op = Op::kAllocate, .slot = i};
    step.stream = random.below(shape.streams);
    step.size = size();
    program.push_back(step);
  }
  const bool host = shape.host_waits, memory = shape.memory;
  const std::pair<Op, std::uint32_t> weights[] = {{Op::kTask, 26},
                                                  {Op::kCopy, 7},
                                                  {Op::kRecord, 10},
                                                  {Op::kWait, 2 * shape.wait_weight},
                                                  {Op::kHostWait, 2u * host},
                                                  {Op::kQuery, 4 * host},
                                                  {Op::kAllocate, 10 * memory},
                                                  {Op::kFree, 7 * memory},
                                                  {Op::kRecordStream, 5 * memory},
                                                  {Op::kHostAccess, 4},
                                                  {Op::kSynchronize, 1 * host},
                                                  {Op::kRenewHost, 1},
                                                  {Op::kStale, 2 * shape.stale}};
  std::uint32_t total = 0;
  for (const auto& [op, weight] : weights) total += weight;
  for (std::uint32_t i = 0; i < shape.steps; ++i) {
    Step step;
    std::uint32_t left = random.below(total);
    for (const auto& [op, weight] : weights) {
      step.op = op;
      if (left < weight) break;
      left -= weight;
    }
    step.stream = random.below(shape.streams);
    step.event = random.below(shape.events);
    step.slot = random.below(shape.slots);
    step.buffer = random.below(shape.buffers);
    step.size = size();
    step.cost = 500 + random.below(random.below(5) != 0 ? 8000 : 60000);
    step.flag = random.below(2) != 0;
    step.out = random.below(2) != 0;
    step.offset = random.below(5) * 100;
    step.length = 50 + random.below(250);
    if (step.op == Op::kCopy && !shape.pageable) step.flag = true;
    if (step.op == Op::kSynchronize && random.below(4) == 0)
      step.op = memory && random.below(2) != 0 ? Op::kEmptyCache : Op::kSynchronizeAll;
    if (step.op == Op::kTask || step.op == Op::kStale) {
      const std::uint32_t uses = step.op == Op::kStale ? 1 : 1 + random.below(3);
      for (std::uint32_t k = 0; k < uses; ++k)
        step.uses.push_back({random.below(shape.slots), random.below(5) * 100,
                             50 + std::uint64_t{random.below(150)}, random.below(2) != 0});
    }
    program.push_back(step);
  }
  return program;
}

// The reference.

Reference::Reference(std::uint32_t streams) {
  host_ = node({});
  for (std::uint32_t i = 0; i < streams; ++i) chains_.push_back(node({host_}));
}

int Reference::node(std::vector<int> after) {
  before_.push_back(std::move(after));
  return static_cast<int>(before_.size()) - 1;
}

int Reference::on(std::uint32_t stream, std::vector<int> after) {
  after.push_back(chains_[stream]);
  after.push_back(host_);
  return chains_[stream] = node(std::move(after));
}

void Reference::host(std::vector<int> after) {
  after.push_back(host_);
  host_ = node(std::move(after));
}

std::uint64_t Reference::tenancy_at(Address begin, Address end) const {
  auto found = allocations.upper_bound(begin);
  if (found == allocations.begin()) return 0;
  --found;
  return end <= found->second.first ? found->second.second : 0;
}

void Reference::close() {
  reach_.assign(before_.size(), {});
  for (std::size_t i = 0; i < before_.size(); ++i) {
    reach_[i].assign(before_.size(), false);
    reach_[i][i] = true;
    for (const int earlier : before_[i])
      for (std::size_t k = 0; k <= static_cast<std::size_t>(earlier); ++k)
        if (reach_[earlier][k]) reach_[i][k] = true;
  }
}

// The interpreter.

namespace {

constexpr std::uint64_t kBuffer = 2048;

struct Slot {
  Address at = 0, freed_at = 0;
  std::uint64_t bytes = 0, size = 0, tenancy = 0;
  std::uint32_t stream = 0;
  std::vector<std::uint32_t> recorded;
};

struct Buffer {
  Address pinned = 0;
  std::uint64_t tenancy = 0;
};

class Interpreter {
 public:
  Interpreter(const Shape& shape, const RunOptions& options, Reference* reference)
      : shape_(shape), reference_(reference), machine_(machine_options(options)) {
    for (std::uint32_t i = 0; i < shape.streams; ++i) streams_.push_back(machine_.create_stream(0));
    for (std::uint32_t i = 0; i < shape.events; ++i) events_.push_back(machine_.create_event());
    event_nodes_.assign(shape.events, -1);
    slots_.resize(shape.slots);
    for (std::uint32_t i = 0; i < shape.buffers; ++i) {
      buffers_.push_back({machine_.allocate_host(kBuffer), kHostTenancies + ++tenancies_});
      pageable_.emplace_back(kBuffer);
      pageable_tenancy_.push_back(kHostTenancies + ++tenancies_);
    }
  }

  Outcome run(const Program& program) {
    bool skip = false;
    for (std::size_t i = 0; i < program.size(); ++i) {
      if (skip) {
        skip = false;
        continue;
      }
      const Sequence before = machine_.operations();
      skip = !step(program[i], i);
      for (Sequence n = before + 1; n <= machine_.operations(); ++n) outcome_.step_of[n] = i;
      mix(static_cast<std::uint64_t>(machine_.now()));
    }
    machine_.drain();
    outcome_.now = machine_.now();
    outcome_.statistics = machine_.statistics(0).flat();
    outcome_.timeline = machine_.timeline();
    for (const auto& report : machine_.races()) outcome_.reports.push_back(report.text);
    outcome_.memory = memory_hash();
    return std::move(outcome_);
  }

 private:
  MachineOptions machine_options(const RunOptions& options) {
    MachineOptions out;
    out.profile = tiny_profile(shape_.capacity);
    out.profile.duplex_factor = shape_.duplex;
    out.profile.launch_queue = shape_.launch_queue;
    out.mode = options.mode;
    out.seed = options.seed;
    out.races = options.races;
    out.poison = options.poison;
    out.timeline = true;
    out.on_race = [this](const Race& race) { outcome_.races.push_back(race); };
    return out;
  }

  void mix(std::uint64_t value) {
    outcome_.answers = (outcome_.answers ^ value) * 0x9E3779B97F4A7C15ull;
    outcome_.answers ^= outcome_.answers >> 29;
  }

  std::uint64_t memory_hash() {
    if (machine_.mode() == Mode::kCost) return 0;
    std::uint64_t hash = 1;
    const auto add = [&](Address at, std::uint64_t bytes) {
      const std::byte* const from = machine_.for_tasks(at);
      for (std::uint64_t k = 0; k < bytes; ++k)
        hash = hash * 31 + static_cast<std::uint64_t>(from[k]);
    };
    for (const Slot& slot : slots_)
      if (slot.at != 0) add(slot.at, 512);
    for (const Buffer& buffer : buffers_) add(buffer.pinned, kBuffer);
    for (auto& buffer : pageable_) add(reinterpret_cast<Address>(buffer.data()), kBuffer);
    return hash;
  }

  void used(int node, int followed, const Access& bytes, OperationKind kind, Sequence number,
            std::uint64_t tenancy) {
    if (reference_ == nullptr) return;
    reference_->uses.push_back(
        {node, followed, bytes.begin, bytes.end, bytes.write, kind, number, tenancy});
  }

  // Reads into a hash, then writes what follows from it: a wrong order changes the bytes.
  std::function<void()> work(std::uint64_t id, const std::vector<Access>& accesses) {
    return [this, id, accesses] {
      std::uint64_t hash = id * 0x9E37;
      for (const Access& bytes : accesses)
        if (!bytes.write)
          for (Address at = bytes.begin; at < bytes.end; ++at)
            hash = hash * 31 + static_cast<std::uint64_t>(*machine_.for_tasks(at));
      for (const Access& bytes : accesses)
        if (bytes.write)
          for (Address at = bytes.begin; at < bytes.end; ++at) {
            hash = hash * 6364136223846793005ull + 1;
            *machine_.for_tasks(at) = static_cast<std::byte>(hash >> 40);
          }
    };
  }

  void task(const Step& step, std::size_t id, std::vector<Access> accesses) {
    const Sequence number =
        machine_.launch(streams_[step.stream],
                        {.cost = step.cost, .accesses = accesses, .body = work(id, accesses)});
    if (reference_ == nullptr) return;
    const int node = reference_->on(step.stream);
    for (const Access& bytes : accesses)
      used(node, node, bytes, OperationKind::kTask, number,
           reference_->tenancy_at(bytes.begin, bytes.end));
  }

  void copy(const Step& step) {
    Slot& slot = slots_[step.slot];
    if (slot.at == 0) return;
    const bool pinned = step.flag;
    const std::uint64_t bytes = std::min<std::uint64_t>(slot.bytes, 500);
    const Address host = (pinned ? buffers_[step.buffer].pinned
                                 : reinterpret_cast<Address>(pageable_[step.buffer].data())) +
                         step.offset;
    const std::uint64_t host_tenancy =
        pinned ? buffers_[step.buffer].tenancy : pageable_tenancy_[step.buffer];
    const Stream stream = streams_[step.stream];
    if (step.out) {
      const Sequence number = machine_.copy(stream, host, slot.at, bytes);
      if (reference_ == nullptr) return;
      const int node = reference_->on(step.stream);
      used(node, node, {slot.at, slot.at + bytes, false}, OperationKind::kTask, number,
           slot.tenancy);
      used(node, node, {host, host + bytes, true}, OperationKind::kTask, number, host_tenancy);
      if (!pinned) reference_->host({node});
      return;
    }
    const Sequence number = machine_.copy(stream, slot.at, host, bytes);
    if (reference_ == nullptr) return;
    if (!pinned) {
      reference_->host();
      used(reference_->host_node(), reference_->host_node(), {host, host + bytes, false},
           OperationKind::kHost, number, host_tenancy);
    }
    const int node = reference_->on(step.stream);
    if (pinned)
      used(node, node, {host, host + bytes, false}, OperationKind::kTask, number, host_tenancy);
    used(node, node, {slot.at, slot.at + bytes, true}, OperationKind::kTask, number, slot.tenancy);
  }

  void release(Slot& slot) {
    machine_.free(slot.at);
    if (reference_ != nullptr) {
      const int own = reference_->on(slot.stream);
      std::vector<int> after{own};
      for (const std::uint32_t stream : slot.recorded) after.push_back(reference_->last(stream));
      const int node = reference_->node(after);
      used(node, own, {slot.at, slot.at + slot.size, true}, OperationKind::kFree,
           machine_.operations(), slot.tenancy);
      reference_->death[slot.tenancy] = node;
      reference_->death_number[slot.tenancy] = machine_.operations();
      reference_->allocations.erase(slot.at);
    }
    slot.freed_at = slot.at;
    slot.at = 0;
  }

  void allocate(const Step& step) {
    Slot& slot = slots_[step.slot];
    if (slot.at != 0) release(slot);
    while (slot.at == 0) {
      try {
        slot.at = machine_.allocate(0, step.size, streams_[step.stream]);
      } catch (const OutOfMemoryError&) {
        mix(77);
        const auto victim =
            std::ranges::find_if(slots_, [](const Slot& other) { return other.at != 0; });
        if (victim == slots_.end()) return;
        release(*victim);
      }
    }
    slot.bytes = step.size;
    slot.size = machine_.find(slot.at)->bytes;
    slot.stream = step.stream;
    slot.tenancy = ++tenancies_;
    slot.recorded.clear();
    if (first_ == 0) first_ = slot.at;
    mix(slot.at - first_);  // addresses differ between runs, distances must not
    if (reference_ == nullptr) return;
    reference_->allocations[slot.at] = {slot.at + slot.size, slot.tenancy};
    const int node = reference_->on(step.stream);
    used(node, node, {slot.at, slot.at + slot.size, true}, OperationKind::kAllocation,
         machine_.operations(), slot.tenancy);
    reference_->birth[slot.tenancy] = node;
  }

  void host_access(const Step& step, std::size_t id) {
    const Buffer& buffer = buffers_[step.buffer];
    const Access bytes{buffer.pinned + step.offset, buffer.pinned + step.offset + step.length,
                       step.flag};
    machine_.host_access(bytes, 0, [&] {
      if (!bytes.write) return;
      for (Address at = bytes.begin; at < bytes.end; ++at)
        *reinterpret_cast<std::uint8_t*>(at) = static_cast<std::uint8_t>(id * 37 + (at & 4095));
    });
    if (reference_ == nullptr) return;
    reference_->host();
    used(reference_->host_node(), reference_->host_node(), bytes, OperationKind::kHost,
         machine_.operations(), buffer.tenancy);
  }

  void poll(Event event) {
    while (!machine_.query(event)) {
    }
  }

  void order(const Step& step) {
    const Event event = machine_.create_event();
    machine_.record(event, streams_[step.stream]);
    const int node = reference_ == nullptr ? -1 : reference_->on(step.stream);
    const bool by_host = step.op == Op::kHostOrder || step.flag;
    if (!by_host)
      machine_.wait(streams_[step.slot], event);
    else if (step.flag)
      poll(event);
    else
      machine_.synchronize(event);
    machine_.destroy_event(event);
    if (reference_ == nullptr) return;
    if (by_host)
      reference_->host({node});
    else
      reference_->on(step.slot, {node});
  }

  void after_event(const Step& step, bool host) {
    if (reference_ == nullptr || event_nodes_[step.event] < 0) return;
    if (host)
      reference_->host({event_nodes_[step.event]});
    else
      reference_->on(step.stream, {event_nodes_[step.event]});
  }

  // False: the next step is to be skipped.
  bool step(const Step& step, std::size_t id) {
    const Stream stream = streams_[step.stream];
    const Event event = events_[step.event];
    Slot& slot = slots_[step.slot];
    switch (step.op) {
      case Op::kTask: {
        std::vector<Access> accesses;
        for (const auto& use : step.uses)
          if (const Address at = slots_[use.slot].at; at != 0)
            accesses.push_back({at + use.offset % 400,
                                at + std::min<std::uint64_t>(512, use.offset % 400 + use.length),
                                use.write});
        if (!accesses.empty()) task(step, id, accesses);
        break;
      }
      case Op::kStale:
        if (slot.at == 0 && slot.freed_at != 0)
          task(step, id, {{slot.freed_at, slot.freed_at + 100, step.flag}});
        break;
      case Op::kCopy:
        copy(step);
        break;
      case Op::kRecord:
        machine_.record(event, stream);
        if (reference_ != nullptr) event_nodes_[step.event] = reference_->on(step.stream);
        break;
      case Op::kWait:
        machine_.wait(stream, event);
        after_event(step, /*host=*/false);
        break;
      case Op::kHostWait:
        machine_.synchronize(event);
        after_event(step, /*host=*/true);
        break;
      case Op::kQuery: {
        const bool done = machine_.query(event);
        mix(done);
        if (!done) return false;
        after_event(step, /*host=*/true);
        break;
      }
      case Op::kAllocate:
        allocate(step);
        break;
      case Op::kFree:
        if (slot.at != 0) release(slot);
        break;
      case Op::kRecordStream:
        if (slot.at == 0) break;
        machine_.record_stream(slot.at, stream);
        if (step.stream != slot.stream && std::ranges::count(slot.recorded, step.stream) == 0)
          slot.recorded.push_back(step.stream);
        break;
      case Op::kHostAccess:
        host_access(step, id);
        break;
      case Op::kSynchronize:
        machine_.synchronize(stream);
        if (reference_ != nullptr) reference_->host({reference_->last(step.stream)});
        break;
      case Op::kSynchronizeAll:
        machine_.synchronize_device(0);
        if (reference_ != nullptr) reference_->host(reference_->all_streams());
        break;
      case Op::kEmptyCache: {
        const auto free = machine_.memory_info(0).first;
        machine_.empty_cache(0);
        if (reference_ != nullptr && machine_.memory_info(0).first != free)
          reference_->host(reference_->all_streams());
        break;
      }
      case Op::kRenewHost: {
        Buffer& buffer = buffers_[step.buffer];
        machine_.free_host(buffer.pinned);
        buffer = {machine_.allocate_host(kBuffer), kHostTenancies + ++tenancies_};
        if (reference_ != nullptr) reference_->host();
        break;
      }
      case Op::kOrder:
      case Op::kHostOrder:
        order(step);
        break;
    }
    return true;
  }

  const Shape shape_;
  Reference* const reference_;
  Outcome outcome_;
  Machine machine_;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<int> event_nodes_;
  std::vector<Slot> slots_;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<std::byte>> pageable_;
  std::vector<std::uint64_t> pageable_tenancy_;
  std::uint64_t tenancies_ = 0;
  Address first_ = 0;
};

}  // namespace

Outcome run(const Program& program, const Shape& shape, const RunOptions& options,
            Reference* reference) {
  return Interpreter(shape, options, reference).run(program);
}

bool repair(Program& program, const Shape& shape) {
  for (int round = 0; round < 400; ++round) {
    const Outcome outcome = run(program, shape, {});
    if (outcome.races.empty()) return true;
    const Race& race = outcome.races.front();
    std::size_t at = outcome.step_of.at(race.second.number);
    if (race.use_after_free) {
      program.erase(program.begin() + static_cast<std::ptrdiff_t>(at));
      continue;
    }
    Step order;
    order.op = race.second.kind == OperationKind::kHost ? Op::kHostOrder : Op::kOrder;
    order.stream = race.first.stream;
    order.slot = race.second.stream;
    order.flag = round % 3 == 0 && shape.host_waits;
    // What follows a query may be skipped: the order goes before both.
    if (at > 0 && program[at - 1].op == Op::kQuery) --at;
    program.insert(program.begin() + static_cast<std::ptrdiff_t>(at), order);
  }
  return false;
}

}  // namespace plimsoll::sim::testing
