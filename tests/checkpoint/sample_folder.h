#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/checkpoint/folder.h"
#include "plimsoll/checkpoint/steps.h"

namespace plimsoll::checkpoint {

/// A checkpoint of two groups whose values are all `value`.
inline std::filesystem::path write_sample(const std::filesystem::path& root, std::int64_t step,
                                          float value, const Gate& gate = {},
                                          std::int64_t elements = 1000) {
  const std::vector<float> data(static_cast<std::size_t>(elements), value);
  const std::vector<TensorView> one{
      {"weight", DType::F32, {elements}, data.data(), data.size() * sizeof(float)}};
  const std::vector<TensorView> two{
      {"weight.m", DType::F32, {elements}, data.data(), data.size() * sizeof(float)},
      {"weight.v", DType::F32, {elements}, data.data(), data.size() * sizeof(float)}};
  return write_folder(root, step, {{"model", one}, {"optimizer", two}}, {{"position", step * 100}},
                      gate);
}

/// The checkpoint is complete and every part of it, state included, is of `step` and `value`.
inline void expect_whole(const std::filesystem::path& root, std::int64_t step, float value) {
  const FolderContents contents = read_folder(step_path(root, step));
  EXPECT_EQ(contents.step, step);
  EXPECT_EQ(contents.state["position"], step * 100);
  for (const auto& [name, group] : contents.groups) {
    verify_data(contents, name);
    for (const TensorInfo& info : group.file.tensors()) {
      const auto bytes = group.file.bytes(info);
      const auto* data = reinterpret_cast<const float*>(bytes.data());
      EXPECT_TRUE(std::all_of(data, data + info.shape[0], [&](float v) { return v == value; }));
    }
  }
}

inline std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace plimsoll::checkpoint
