#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plimsoll/config/config.h"

/// A recipe with every kind of field, as components write theirs.
namespace plimsoll::config::sample {

struct Group {
  std::string match = ".*";
  double lr_scale = 1;
  std::optional<double> weight_decay;

  void describe(Fields& f) {
    f.field("match", match, "which parameters").required();
    f.field("lr_scale", lr_scale, "factor on the learning rate").at_least(0);
    f.field("weight_decay", weight_decay, "instead of the optimizer's");
  }
  void validate(Problems& p) const { p.check(match != "(", "match", "is no regular expression"); }
};

struct AdamW {
  double lr = 8e-4;
  double floor = 0;
  std::vector<double> betas = {0.9, 0.95};
  std::string moments = "fp32";
  std::vector<Group> groups;

  void describe(Fields& f) {
    f.field("lr", lr, "learning rate at the top of the schedule").above(0).may_change();
    f.field("floor", floor, "the lowest | smallest rate").at_most(1);
    f.field("betas", betas, "decay of the two moments").at_least(0).below(1);
    f.choice("moments", moments, {"fp32", "bf16"}, "type of the moments");
    f.tables("groups", groups, "first match wins");
  }
  void validate(Problems& p) const {
    p.check(betas.size() == 2, "betas", "has {} entries, needs 2", betas.size());
    p.check(floor <= lr, "floor", "is above lr = {}", lr);
  }
};

struct Data {
  std::vector<std::string> files;
  std::vector<int64_t> weights;
  std::optional<std::vector<std::string>> extensions;
  int64_t seq_len = 2048;

  void describe(Fields& f) {
    f.field("files", files, "what to read");
    f.field("weights", weights, "one for each file");
    f.field("extensions", extensions, "only such files");
    f.field("seq_len", seq_len, "tokens of a row").at_least(1).at_most(1 << 20);
  }
};

struct Memory {
  uint64_t slab = uint64_t{64} << 20;
  std::optional<uint64_t> budget;
  bool pin = true;
  std::optional<bool> huge_pages;

  void describe(Fields& f) {
    f.bytes("slab", slab, "pinned staging memory");
    f.bytes("budget", budget, "what the device may use").above(0);
    f.field("pin", pin, "lock pages");
    f.field("huge_pages", huge_pages, "absent: as the system likes");
  }
};

struct Train {
  int64_t steps = 100;
  std::optional<int64_t> stop_after;
  double limit = 1;
  AdamW optim;

  void describe(Fields& f) {
    f.field("steps", steps, "length of the schedule").at_least(1).may_change();
    f.field("stop_after", stop_after, "stop earlier");
    f.field("limit", limit, "clip at this norm").allow_non_finite();
    f.section("optim", optim, "AdamW");
  }
};

struct Recipe {
  std::string name = "run";
  std::optional<std::string> note;
  Data data;
  Memory memory;
  Train train;

  void describe(Fields& f) {
    f.field("name", name, "of the run");
    f.field("note", note, "free text");
    f.section("data", data);
    f.section("memory", memory, "who holds what").may_change();
    f.section("train", train);
  }
  void validate(Problems& p) const {
    p.check(train.stop_after.value_or(0) <= train.steps, "train.stop_after",
            "is after the last step, {}", train.steps);
  }
};

}  // namespace plimsoll::config::sample
