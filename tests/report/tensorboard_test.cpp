#include "plimsoll/report/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "plimsoll/base/error.h"
#include "plimsoll/report/crc32c.h"
#include "tests/report/folder.h"

namespace plimsoll::report {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const unsigned char c : bytes) {
    text += "0123456789abcdef"[c >> 4];
    text += "0123456789abcdef"[c & 15];
  }
  return text;
}

TEST(Crc32c, KnownVectors) {
  // RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string up, down;
  for (int i = 0; i < 32; ++i) up += static_cast<char>(i), down += static_cast<char>(31 - i);
  EXPECT_EQ(crc32c(up), 0x46DD794Eu);
  EXPECT_EQ(crc32c(down), 0x113FDB5Cu);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(masked_crc32c(""), 0xA282EAD8u);
  EXPECT_EQ(masked_crc32c("123456789"), ((0xE3069283u >> 15) | (0xE3069283u << 17)) + 0xA282EAD8u);
}

TEST(Events, TheVersionRecordIsTheFormats) {
  // Wall time 1.0, "brain.Event:2".
  EXPECT_EQ(hex(encode_version(1.0)), "09000000000000f03f1a0d627261696e2e4576656e743a32");
}

TEST(Events, AScalarIsEncodedFieldByField) {
  EXPECT_EQ(hex(encode_scalars(1.0, 300, {{"lr", 0.5}})),
            "09000000000000f03f"  // wall_time
            "10ac02"              // step
            "2a0b"
            "0a09"  // summary, value
            "0a026c72"
            "150000003f");  // tag, simple_value
  EXPECT_EQ(hex(encode_restart(1.0, 7)),
            "09000000000000f03f"
            "1007"
            "3a020801");
}

TEST(Events, FramesHoldLengthsAndMaskedCrcs) {
  const std::string frame = frame_event("abc");
  ASSERT_EQ(frame.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(hex(frame.substr(0, 8)), "0300000000000000");
  uint32_t length_crc = 0, crc = 0;
  std::memcpy(&length_crc, frame.data() + 8, 4);
  std::memcpy(&crc, frame.data() + 15, 4);
  EXPECT_EQ(length_crc, masked_crc32c(std::string_view(frame).substr(0, 8)));
  EXPECT_EQ(crc, masked_crc32c("abc"));
}

TEST(Events, AFileIsCheckedEventByEvent) {
  const std::string two = frame_event("abc") + frame_event("");
  EXPECT_EQ(check_events("").events, 0);
  EXPECT_EQ(check_events(two).events, 2);
  EXPECT_EQ(check_events(two).whole_bytes, two.size());
  EXPECT_EQ(check_events(two).problem, "");
  for (std::size_t size = frame_event("abc").size() + 1; size < two.size(); ++size) {
    const EventsCheck cut = check_events(std::string_view(two).substr(0, size));
    EXPECT_EQ(cut.events, 1);
    EXPECT_EQ(cut.whole_bytes, frame_event("abc").size());
    EXPECT_EQ(cut.problem, "event 2 at byte 19 is cut short");
  }
  for (std::size_t at = 0; at < frame_event("abc").size(); ++at) {
    std::string flipped = two;
    flipped[at] ^= 4;
    EXPECT_EQ(check_events(flipped).events, 0) << at;
    EXPECT_THAT(check_events(flipped).problem, testing::HasSubstr("damaged")) << at;
  }
}

/// A reader written apart from the writer: tags and values of each event of a file.
struct Event {
  int64_t step = 0;
  std::string version;
  int status = 0;
  std::map<std::string, float> scalars;
};

uint64_t varint(std::string_view& in) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(in.at(0));
    in.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
}

std::string_view chunk(std::string_view& in) {
  const std::size_t size = varint(in);
  const std::string_view part = in.substr(0, size);
  EXPECT_EQ(part.size(), size);
  in.remove_prefix(part.size());
  return part;
}

std::vector<Event> events_of(std::string_view in) {
  std::vector<Event> events;
  while (!in.empty()) {
    uint64_t size = 0;
    std::memcpy(&size, in.substr(0, 8).data(), 8);
    std::string_view payload = in.substr(12, size);
    EXPECT_EQ(in.substr(0, 12 + size + 4), frame_event(payload));
    in.remove_prefix(12 + size + 4);
    Event event;
    while (!payload.empty()) {
      const uint64_t key = varint(payload);
      if (key == (1 << 3 | 1)) {
        payload.remove_prefix(8);
      } else if (key == (2 << 3)) {
        event.step = static_cast<int64_t>(varint(payload));
      } else if (key == (3 << 3 | 2)) {
        event.version = chunk(payload);
      } else if (key == (7 << 3 | 2)) {
        event.status = chunk(payload).at(1);
      } else {
        EXPECT_EQ(key, 5u << 3 | 2);
        for (std::string_view summary = chunk(payload); !summary.empty();) {
          EXPECT_EQ(varint(summary), 1u << 3 | 2);
          std::string_view value = chunk(summary);
          EXPECT_EQ(varint(value), 1u << 3 | 2);
          const std::string tag(chunk(value));
          EXPECT_EQ(varint(value), 2u << 3 | 5);
          EXPECT_EQ(value.size(), 4u);
          std::memcpy(&event.scalars[tag], value.data(), 4);
        }
      }
    }
    events.push_back(event);
  }
  return events;
}

TEST(TensorBoard, WritesWhatIsKnownUnderTheKnownTags) {
  Folder folder;
  TensorBoard board(folder.path);
  EXPECT_THAT(board.path().filename().string(), testing::StartsWith("events.out.tfevents."));
  StepRecord r;
  r.step = 1000;
  r.loss = 2.5;
  r.grad_norm = 1.25;
  r.lr = 0.001;
  r.seconds = 2;
  r.data_seconds = 0.5;
  r.tokens_per_second = 4096;
  r.memory.reserved_bytes = uint64_t{3} << 29;
  r.tokens_seen = 5;
  r.extra["loss_metrics/unigram"] = 6;
  board.write(r);
  ValidationRecord v;
  v.step = 1000;
  v.loss = std::nan("");
  board.write(v);
  const auto events = events_of(slurp(board.path()));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[1].step, 1000);
  const std::map<std::string, float> expected = {{"loss_metrics/global_avg_loss", 2.5f},
                                                 {"grad_norm", 1.25f},
                                                 {"lr", 0.001f},
                                                 {"throughput(tps)", 4096},
                                                 {"time_metrics/end_to_end(s)", 2},
                                                 {"time_metrics/data_loading(s)", 0.5f},
                                                 {"time_metrics/data_loading(%)", 25},
                                                 {"memory/max_reserved(GiB)", 1.5f},
                                                 {"n_tokens_seen", 5},
                                                 {"loss_metrics/unigram", 6}};
  EXPECT_EQ(events[1].scalars, expected);
  EXPECT_EQ(events[2].scalars.size(), 1u);
  EXPECT_TRUE(std::isnan(events[2].scalars.at("validation_metrics/loss")));
}

TEST(TensorBoard, AResumedRunSaysFromWhichStep) {
  Folder folder;
  TensorBoard first(folder.path), second(folder.path, 40);
  EXPECT_LT(first.path(), second.path());
  const auto events = events_of(slurp(second.path()));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[1].step, 41);
  EXPECT_EQ(events[1].status, 1);
}

TEST(TensorBoard, AMissingFolderIsNamed) {
  Folder folder;
  EXPECT_THROW(TensorBoard(folder.path / "absent"), Error);
}

}  // namespace
}  // namespace plimsoll::report
