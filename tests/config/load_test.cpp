#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "plimsoll/base/error.h"
#include "plimsoll/config/config.h"
#include "tests/config/sample.h"

namespace plimsoll::config {
namespace {

using sample::Recipe;
using testing::ElementsAre;
using testing::HasSubstr;

/// The problems that reading gives, one per line.
std::string problems_of(const std::string& text, const std::vector<std::string>& sets = {}) {
  Recipe recipe;
  try {
    load(Source{"r.toml", text}, sets, describe(recipe));
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

Recipe read(const std::string& text, const std::vector<std::string>& sets = {}) {
  Recipe recipe;
  load(Source{"r.toml", text}, sets, describe(recipe));
  return recipe;
}

TEST(Load, ReadsEveryKindOfField) {
  const Recipe r = read(R"(
name = "debug"
note = "first"
[data]
files = ["a.txt", 'b.txt']
weights = [1, 2]
extensions = ["txt"]
seq_len = 512
[memory]
slab = "2 MiB"
budget = 1024
pin = false
huge_pages = true
[train]
steps = 7
stop_after = 3
limit = inf
[train.optim]
lr = 1
betas = [0, 0.5]
moments = "bf16"
[[train.optim.groups]]
match = "bias"
weight_decay = 0
[[train.optim.groups]]
match = "x"
lr_scale = 0.5
)");
  EXPECT_EQ(r.name, "debug");
  EXPECT_EQ(r.note, "first");
  EXPECT_THAT(r.data.files, ElementsAre("a.txt", "b.txt"));
  EXPECT_THAT(r.data.weights, ElementsAre(1, 2));
  EXPECT_THAT(*r.data.extensions, ElementsAre("txt"));
  EXPECT_EQ(r.data.seq_len, 512);
  EXPECT_EQ(r.memory.slab, 2u << 20);
  EXPECT_EQ(r.memory.budget, 1024u);
  EXPECT_FALSE(r.memory.pin);
  EXPECT_EQ(r.memory.huge_pages, true);
  EXPECT_EQ(r.train.steps, 7);
  EXPECT_EQ(r.train.stop_after, 3);
  EXPECT_TRUE(std::isinf(r.train.limit));
  EXPECT_EQ(r.train.optim.lr, 1.0);
  EXPECT_THAT(r.train.optim.betas, ElementsAre(0.0, 0.5));
  EXPECT_EQ(r.train.optim.moments, "bf16");
  ASSERT_EQ(r.train.optim.groups.size(), 2u);
  EXPECT_EQ(r.train.optim.groups[0].weight_decay, 0.0);
  EXPECT_EQ(r.train.optim.groups[1].lr_scale, 0.5);
}

TEST(Load, AnEmptyFileLeavesTheDefaults) {
  Recipe defaults;
  Recipe r = read("");
  EXPECT_EQ(to_toml(r), to_toml(defaults));
}

TEST(Load, TablesReplaceWhatTheVectorHeld) {
  Recipe r;
  r.train.optim.groups.resize(3);
  r.train.optim.groups[0].lr_scale = 9;
  load(Source{"r.toml", "[[train.optim.groups]]\nmatch = \"a\"\n"}, {}, describe(r));
  ASSERT_EQ(r.train.optim.groups.size(), 1u);
  EXPECT_EQ(r.train.optim.groups[0].lr_scale, 1);
}

TEST(Load, NamesTheNearestKeyAndTheLine) {
  EXPECT_EQ(problems_of("[train]\nstpes = 3\n"),
            "r.toml:2: unknown key train.stpes; did you mean train.steps?");
  EXPECT_EQ(problems_of("[tain]\nsteps = 3\n"),
            "r.toml:1: unknown section tain; did you mean train?");
  EXPECT_EQ(problems_of("[memory]\nseq-len = 3\n"),
            "r.toml:2: unknown key memory.seq-len; known here: slab, budget, pin, huge_pages");
  EXPECT_EQ(problems_of("[train]\nmoments = \"bf16\"\n"),
            "r.toml:2: unknown key train.moments; did you mean train.optim.moments?");
  EXPECT_EQ(problems_of("[[train.optim.groups]]\nmatch='a'\nlrscale = 1\n"),
            "r.toml:3: unknown key train.optim.groups.0.lrscale; did you mean "
            "train.optim.groups.0.lr_scale?");
}

TEST(Load, SaysWhatWasExpectedAndWhatFound) {
  EXPECT_EQ(problems_of("[train]\nsteps = \"many\"\n"),
            "r.toml:2: train.steps: expected an integer, found a text (\"many\")");
  EXPECT_EQ(problems_of("train.steps = 1.5"),
            "r.toml:1: train.steps: expected an integer, found a number (1.5)");
  EXPECT_EQ(problems_of("data.files = [\"a\", 1]"),
            "r.toml:1: data.files: expected a list of texts, found a list");
  EXPECT_EQ(problems_of("train = 3"),
            "r.toml:1: train: expected a section [train], found an integer (3)");
  EXPECT_EQ(
      problems_of("[train]\noptim.groups = 3\n"),
      "r.toml:2: train.optim.groups: expected tables [[train.optim.groups]], found an integer (3)");
  EXPECT_EQ(problems_of("train.optim.groups = [{match='a'}, 4]"),
            "r.toml:1: train.optim.groups.1: expected tables [[train.optim.groups]], found an "
            "integer (4)\n"
            "r.toml: train.optim.groups.1.match is required");
  EXPECT_THAT(problems_of("memory.slab = \"big\""),
              HasSubstr("expected a size such as \"512 MiB\", found a text"));
  EXPECT_THAT(problems_of("memory.slab = -1"), HasSubstr("found an integer (-1)"));
  EXPECT_THAT(problems_of("memory.pin = 1"), HasSubstr("expected true or false"));
  EXPECT_THAT(problems_of("name = 2024-01-01"), HasSubstr("expected a text, found a date"));
}

TEST(Load, ChecksRangesChoicesAndFiniteness) {
  EXPECT_EQ(problems_of("train.steps = 0"), "r.toml:1: train.steps = 0: must be at least 1");
  EXPECT_EQ(problems_of("[train.optim]\nlr = nan\nfloor = -1"),
            "r.toml:2: train.optim.lr = nan: must be a finite number\n"
            "r.toml:3: train.optim.floor = -1.0: is above lr = nan");
  EXPECT_EQ(problems_of("train.optim.betas = [0.9, 1]"),
            "r.toml:1: train.optim.betas = [0.9, 1.0]: must be at least 0 and below 1");
  EXPECT_EQ(problems_of("train.optim.moments = \"fp8\""),
            "r.toml:1: train.optim.moments = \"fp8\": must be one of \"fp32\", \"bf16\"");
  EXPECT_EQ(problems_of("memory.budget = 0"), "r.toml:1: memory.budget = 0: must be above 0");
}

TEST(Load, ReportsAllProblemsAtOnceInOrder) {
  EXPECT_EQ(
      problems_of("[train]\nsteps = 0\nstop_after = 5\nwarmup = 3\n[train.optim]\nbetas = [0.5]\n",
                  {"data.seq_len=0", "nonsense", "memory.pin=maybe"}),
      "r.toml:4: unknown key train.warmup; known here: steps, stop_after, limit, optim\n"
      "--set nonsense: expected section.key=value\n"
      "--set: memory.pin: expected true or false, found a text (\"maybe\")\n"
      "r.toml:3: train.stop_after = 5: is after the last step, 0\n"
      "--set: data.seq_len = 0: must be at least 1 and at most 1048576\n"
      "r.toml:2: train.steps = 0: must be at least 1\n"
      "r.toml:6: train.optim.betas = [0.5]: has 1 entries, needs 2");
}

TEST(Load, ValidateOfAnElementIsLocated) {
  EXPECT_EQ(
      problems_of("[[train.optim.groups]]\nmatch = \"a\"\n[[train.optim.groups]]\nmatch = \"(\"\n"),
      "r.toml:4: train.optim.groups.1.match = \"(\": is no regular expression");
  EXPECT_EQ(problems_of("[[train.optim.groups]]\nlr_scale = 2.0\n"),
            "r.toml: train.optim.groups.0.match is required");
}

TEST(Load, ValuesSetInCodeAreCheckedToo) {
  Recipe r;
  r.train.optim.floor = 0.5;
  try {
    validate(r);
    FAIL();
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(), "train.optim.floor = 0.5 (default): is above lr = 0.0008");
  }
}

TEST(Load, SyntaxErrorsHaveLineAndColumnAndHideTheRest) {
  const std::string text = problems_of("name = \"x\"\n[train\nsteps = 0\n", {"train.steps=0"});
  EXPECT_THAT(text, testing::StartsWith("r.toml:2:"));
  EXPECT_THAT(text, testing::Not(HasSubstr("\n")));
  EXPECT_THAT(problems_of("[train]\nsteps = 1\nsteps = 2\n"), HasSubstr("r.toml:3:"));
  EXPECT_THAT(problems_of("[train]\n[data]\n[train]\n"), HasSubstr("r.toml:3:"));
}

TEST(Sets, ValuesAreTomlOrBareText) {
  const Recipe r =
      read("", {"name=my-run", "note=5", "train.steps = 12", "train.optim.lr=1e-3",
                "memory.slab=1GiB", "memory.budget=3", "data.files=[\"a\", \"b\"]",
                "train.optim.moments=bf16", "memory.pin=false", "data.extensions=txt"});
  EXPECT_EQ(r.name, "my-run");
  EXPECT_EQ(r.note, "5");
  EXPECT_EQ(r.train.steps, 12);
  EXPECT_EQ(r.train.optim.lr, 1e-3);
  EXPECT_EQ(r.memory.slab, uint64_t{1} << 30);
  EXPECT_EQ(r.memory.budget, 3u);
  EXPECT_THAT(r.data.files, ElementsAre("a", "b"));
  EXPECT_THAT(*r.data.extensions, ElementsAre("txt"));
  EXPECT_FALSE(r.memory.pin);
}

TEST(Sets, TheLastOneWinsAndOverridesTheFile) {
  const Recipe r = read("train.steps = 1", {"train.steps=2", "train.steps=3"});
  EXPECT_EQ(r.train.steps, 3);
}

TEST(Sets, NoneUnsetsAnOptional) {
  const Recipe r = read("memory.budget = 5\ntrain.stop_after = 3\nnote = \"x\"",
                        {"memory.budget=none", "train.stop_after=none", "note=none"});
  EXPECT_FALSE(r.memory.budget);
  EXPECT_FALSE(r.train.stop_after);
  EXPECT_EQ(r.note, "none");  // a text may be any text
}

TEST(Sets, ReachIntoTablesAndSections) {
  const std::string file = "[[train.optim.groups]]\nmatch='a'\n[[train.optim.groups]]\nmatch='b'\n";
  const Recipe r = read(file, {"train.optim.groups.1.lr_scale=3", "data={seq_len=4}"});
  EXPECT_EQ(r.train.optim.groups[0].lr_scale, 1);
  EXPECT_EQ(r.train.optim.groups[1].lr_scale, 3);
  EXPECT_EQ(r.data.seq_len, 4);
  EXPECT_EQ(read("", {"train.optim.groups=[{match='q'}]"}).train.optim.groups.at(0).match, "q");
  for (const char* set : {"train.optim.groups.2.lr_scale=3", "train.optim.groups.x.lr_scale=3",
                          "train.optim.groups.0=3"}) {
    EXPECT_THAT(problems_of(file, {set}), HasSubstr("train.optim.groups has 2 tables")) << set;
  }
}

TEST(Sets, UnknownKeysNameTheNearest) {
  EXPECT_EQ(problems_of("", {"train.opt.lr=1"}),
            "--set: unknown section train.opt; did you mean train.optim?");
  EXPECT_EQ(problems_of("", {"train.lr=1"}),
            "--set: unknown key train.lr; did you mean train.optim.lr?");
}

TEST(Sets, ABadFormIsNamed) {
  for (const char* set : {"", "=", "=3", "name", " =x", "."}) {
    EXPECT_NE(problems_of("", {set}), "") << set;
  }
  // A line break may not smuggle in another key.
  EXPECT_THAT(problems_of("", {"train.steps=1\nname = 'x'"}),
              HasSubstr("train.steps: expected an integer"));
}

TEST(ReadSource, SaysWhyAFileCannotBeRead) {
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      read_source(path);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "";
  };
  const std::filesystem::path folder = testing::TempDir();
  EXPECT_THAT(message(folder / "absent.toml"), HasSubstr("No such file"));
  EXPECT_THAT(message(folder), HasSubstr("it is a folder"));
  EXPECT_THAT(message("/dev/zero"), HasSubstr("larger than"));
  const std::filesystem::path file = folder / "plimsoll_config_test.toml";
  std::ofstream(file) << "train.steps = 5\n";
  Recipe r;
  read_file(file, r);
  EXPECT_EQ(r.train.steps, 5);
  load(file, {"train.steps=6"}, r);
  EXPECT_EQ(r.train.steps, 6);
  std::filesystem::remove(file);
}

TEST(Describe, NamesAreBareAndUnique) {
  Fields f;
  int64_t a = 0;
  f.field("a", a, "");
  EXPECT_THROW(f.field("a", a, ""), std::logic_error);
  EXPECT_THROW(f.field("a b", a, ""), std::logic_error);
  EXPECT_THROW(f.field("", a, ""), std::logic_error);
}

}  // namespace
}  // namespace plimsoll::config
