#include "plimsoll/report/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <type_traits>

#include "plimsoll/report/crc32c.h"

namespace plimsoll::report {
namespace {

// Numbers of the fields in TensorFlow's event.proto and summary.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };
enum SessionField { kStatus = 1 };
constexpr uint64_t kSessionStart = 1;

// Wire types of protocol buffers.
enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
void put_fixed(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little && std::is_unsigned_v<T>);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, int field, Wire wire) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | wire);
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event(double wall_time, int64_t step) {
  std::string out;
  put_key(out, kWallTime, kFixed64);
  put_fixed(out, std::bit_cast<uint64_t>(wall_time));
  if (step != 0) {
    put_key(out, kStep, kVarint);
    put_varint(out, static_cast<uint64_t>(step));
  }
  return out;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// Readers take the files of a folder in the order of their names, so the time comes first, fine
/// enough for a run that is resumed at once.
std::string file_name() {
  static std::atomic<int> count{0};
  char host[256] = "host";
  if (::gethostname(host, sizeof host) != 0) std::strcpy(host, "host");
  host[sizeof host - 1] = '\0';
  const auto micros = static_cast<int64_t>(now() * 1e6);
  return fmt::format("events.out.tfevents.{:010d}.{:06d}.{}.{}.{}", micros / 1000000,
                     micros % 1000000, host, ::getpid(), count++);
}

void add(TensorBoard::Scalars& scalars, std::string tag, std::optional<double> value) {
  if (value) scalars.emplace_back(std::move(tag), *value);
}

void add_memory(TensorBoard::Scalars& scalars, const std::string& prefix, const MemoryUse& memory) {
  const auto gib = [](std::optional<uint64_t> bytes) {
    return bytes ? std::optional(static_cast<double>(*bytes) / 0x1p30) : std::nullopt;
  };
  add(scalars, prefix + "memory/max_active(GiB)", gib(memory.active_bytes));
  add(scalars, prefix + "memory/max_active(%)", memory.active_percent);
  add(scalars, prefix + "memory/max_reserved(GiB)", gib(memory.reserved_bytes));
  add(scalars, prefix + "memory/max_reserved(%)", memory.reserved_percent);
}

}  // namespace

TensorBoard::TensorBoard(const std::filesystem::path& folder, int64_t last_step)
    : path_(folder / file_name()), file_(path_) {
  std::string start = frame_event(encode_version(now()));
  if (last_step > 0) start += frame_event(encode_restart(now(), last_step + 1));
  file_.append(start);
}

void TensorBoard::write(const StepRecord& r) {
  Scalars scalars;
  add(scalars, "loss_metrics/global_avg_loss", r.loss);
  add(scalars, "grad_norm", r.grad_norm);
  add(scalars, "lr", r.lr);
  add(scalars, "throughput(tps)", r.tokens_per_second);
  add(scalars, "tflops", r.tflops);
  add(scalars, "mfu(%)", r.mfu);
  add(scalars, "time_metrics/end_to_end(s)", r.seconds);
  add(scalars, "time_metrics/data_loading(s)", r.data_seconds);
  if (r.data_seconds && r.seconds > 0) {
    add(scalars, "time_metrics/data_loading(%)", 100 * *r.data_seconds / r.seconds);
  }
  add_memory(scalars, "", r.memory);
  add(scalars, "n_tokens_seen", static_cast<double>(r.tokens_seen));
  for (const auto& [tag, value] : r.extra) add(scalars, tag, value);
  write(r.step, scalars);
}

void TensorBoard::write(const ValidationRecord& r) {
  Scalars scalars;
  add(scalars, "validation_metrics/loss", r.loss);
  add(scalars, "validation_metrics/throughput(tps)", r.tokens_per_second);
  add_memory(scalars, "validation_metrics/", r.memory);
  write(r.step, scalars);
}

void TensorBoard::write(int64_t step, const Scalars& scalars) {
  file_.append(frame_event(encode_scalars(now(), step, scalars)));
}

std::string frame_event(std::string_view payload) {
  std::string out;
  put_fixed(out, static_cast<uint64_t>(payload.size()));
  put_fixed(out, masked_crc32c(out));
  out += payload;
  put_fixed(out, masked_crc32c(payload));
  return out;
}

EventsCheck check_events(std::string_view bytes) {
  constexpr uint64_t kHead = sizeof(uint64_t) + sizeof(uint32_t), kTail = sizeof(uint32_t);
  const auto number = [&]<class T>(uint64_t at, T value) {
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  EventsCheck out;
  while (out.whole_bytes < bytes.size()) {
    const uint64_t at = out.whole_bytes, left = bytes.size() - at;
    const auto fail = [&](std::string_view what) {
      out.problem = fmt::format("event {} at byte {} {}", out.events + 1, at, what);
      return out;
    };
    if (left < kHead) return fail("is cut short");
    const uint64_t size = number(at, uint64_t{});
    if (masked_crc32c(bytes.substr(at, sizeof size)) != number(at + sizeof size, uint32_t{})) {
      return fail("has a damaged length");
    }
    if (left - kHead < kTail || size > left - kHead - kTail) return fail("is cut short");
    if (masked_crc32c(bytes.substr(at + kHead, size)) != number(at + kHead + size, uint32_t{})) {
      return fail("is damaged");
    }
    ++out.events;
    out.whole_bytes += kHead + size + kTail;
  }
  return out;
}

std::string encode_version(double wall_time) {
  std::string out = event(wall_time, 0);
  put_bytes(out, kFileVersion, "brain.Event:2");
  return out;
}

std::string encode_restart(double wall_time, int64_t first_step) {
  std::string session, out = event(wall_time, first_step);
  put_key(session, kStatus, kVarint);
  put_varint(session, kSessionStart);
  put_bytes(out, kSessionLog, session);
  return out;
}

std::string encode_scalars(double wall_time, int64_t step, const TensorBoard::Scalars& scalars) {
  std::string summary, out = event(wall_time, step);
  for (const auto& [tag, value] : scalars) {
    std::string one;
    put_bytes(one, kTag, tag);
    put_key(one, kSimpleValue, kFixed32);
    put_fixed(one, std::bit_cast<uint32_t>(static_cast<float>(value)));
    put_bytes(summary, kValue, one);
  }
  put_bytes(out, kSummary, summary);
  return out;
}

}  // namespace plimsoll::report
