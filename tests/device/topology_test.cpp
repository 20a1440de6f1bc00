#include "plimsoll/device/topology.h"

#include <gtest/gtest.h>

#include "plimsoll/base/error.h"

namespace plimsoll::device {
namespace {

TEST(Topology, ReadsThisMachine) {
  const Topology t = read_topology();
  EXPECT_GE(t.processors, 1);
  EXPECT_GE(t.cores, 1);
  EXPECT_GE(t.processors, t.cores);
  EXPECT_FALSE(t.nodes.empty());
}

TEST(Topology, TwoNodes) {
  const Topology t = read_topology("package:2 [numa(memory=1073741824)] core:4 pu:2");
  EXPECT_EQ(t.packages, 2);
  EXPECT_EQ(t.cores, 8);
  EXPECT_EQ(t.processors, 16);
  ASSERT_EQ(t.nodes.size(), 2u);
  EXPECT_EQ(t.nodes[0].cpus, "0-7");
  EXPECT_EQ(t.nodes[1].cpus, "8-15");
  EXPECT_EQ(t.nodes[1].index, 1);
  EXPECT_EQ(t.nodes[1].bytes, int64_t{1} << 30);
}

TEST(Topology, NonsenseIsAnError) {
  EXPECT_THROW(read_topology("nonsense"), Error);
}

}  // namespace
}  // namespace plimsoll::device
