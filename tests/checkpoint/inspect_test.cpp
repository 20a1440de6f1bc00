#include "plimsoll/checkpoint/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/checkpoint/sample_folder.h"
#include "tests/checkpoint/temporary.h"

namespace plimsoll::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

TEST(Inspect, DescribesEachKind) {
  const TemporaryFolder root;
  write_sample(root.path(), 5, 1);
  EXPECT_THAT(describe(root / "step-5"),
              AllOf(HasSubstr("checkpoint of step 5"), HasSubstr("model.safetensors: 1 tensors"),
                    HasSubstr("weight.m F32 [1000]"), HasSubstr("F32: 2 tensors, 8000 bytes"),
                    HasSubstr("state:\n  position: 500\n"), EndsWith("whole: yes\n")));
  EXPECT_THAT(describe(root / "step-5" / "model.safetensors"),
              AllOf(HasSubstr("safetensors file"), HasSubstr("step = 5"),
                    HasSubstr("checksums: those of state.json"), EndsWith("whole: yes\n")));
  fs::copy_file(root / "step-5" / "model.safetensors", root / "alone.safetensors");
  EXPECT_THAT(describe(root / "alone.safetensors"),
              AllOf(HasSubstr("checksums: none"), EndsWith("whole: yes\n")));
  EXPECT_THAT(describe(root.path()),
              AllOf(HasSubstr("complete steps: 5"), EndsWith("whole: yes\n")));
  EXPECT_THAT(describe(root / "none"), HasSubstr("no such file or folder"));
  fs::create_directory(root / "other");
  EXPECT_THAT(describe(root / "other"), HasSubstr("neither"));
}

TEST(Inspect, SaysWhyItIsNotWhole) {
  const TemporaryFolder root;
  write_sample(root.path(), 5, 1);
  const fs::path model = root / "step-5" / "model.safetensors";
  std::string bytes = slurp(model);
  bytes.back() ^= 1;
  spill(model, bytes);
  EXPECT_TRUE(inspect(root / "step-5", false).whole);
  EXPECT_THAT(describe(root / "step-5"),
              HasSubstr("whole: no, " + model.string() + ": tensor \"weight\" is damaged"));
  EXPECT_THAT(describe(model),
              HasSubstr("whole: no, " + model.string() + ": tensor \"weight\" is damaged"));
  EXPECT_THAT(describe(root / "step-5" / "optimizer.safetensors"), EndsWith("whole: yes\n"));
  fs::resize_file(model, bytes.size() - 1);
  const Inspection inspection = inspect(root / "step-5");
  EXPECT_FALSE(inspection.whole);
  EXPECT_EQ(inspection.groups.size(), 1u);  // the other file can still be shown
  EXPECT_THAT(describe(inspection),
              AllOf(HasSubstr("optimizer.safetensors: 2 tensors"), HasSubstr("whole: no, ")));
  EXPECT_THAT(describe(model),
              HasSubstr("whole: no, " + model.string() + ": the file is cut short"));
  EXPECT_THAT(describe(root.path()), HasSubstr("no complete checkpoint"));
}

TEST(Inspect, AFileIsComparedWithTheStateBesideIt) {
  const TemporaryFolder root;
  write_sample(root.path(), 5, 1);
  write_sample(root.path(), 6, 2);
  const fs::path model = root / "step-5" / "model.safetensors";
  const fs::path state = root / "step-5" / "state.json";
  EXPECT_TRUE(verify_file(model));
  fs::copy_file(model, root / "step-5" / "other.safetensors");
  EXPECT_FALSE(verify_file(root / "step-5" / "other.safetensors"));
  fs::copy_file(root / "step-6" / "model.safetensors", model, fs::copy_options::overwrite_existing);
  EXPECT_THAT(describe(model), HasSubstr("a file of another checkpoint"));
  spill(state, "{\"format\": \"another\"}");
  EXPECT_FALSE(verify_file(model));
  spill(state, "{");
  EXPECT_THAT(describe(model), HasSubstr("whole: no, " + state.string() + ": not valid JSON"));
}

TEST(Inspect, StatesAreShownInOneLineAMember) {
  EXPECT_EQ(describe_state({{"a", {{"b", 1}, {"c", "x"}}}, {"d", "one\ntwo\n"}, {"e", {1, 2}}}),
            "state:\n  a: b 1, c x\n  d: a text of 2 lines\n  e: [1,2]\n");
  EXPECT_EQ(describe_state(7), "state: 7\n");
}

TEST(Inspect, ListsOnlySoManyTensors) {
  const TemporaryFolder root;
  write_sample(root.path(), 5, 1);
  EXPECT_THAT(describe(inspect(root / "step-5"), 1), HasSubstr("... and 1 more"));
}

}  // namespace
}  // namespace plimsoll::checkpoint
