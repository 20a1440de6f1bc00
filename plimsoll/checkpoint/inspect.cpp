#include "plimsoll/checkpoint/inspect.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

#include "plimsoll/base/error.h"
#include "plimsoll/checkpoint/folder.h"
#include "plimsoll/checkpoint/quote.h"
#include "plimsoll/checkpoint/steps.h"

namespace plimsoll::checkpoint {
namespace fs = std::filesystem;

namespace {

Inspection::Group group_of(const SafetensorsFile& file) {
  return {file.path().filename().string(), file.file_bytes(), file.tensors(), file.metadata()};
}

void inspect_checkpoint(Inspection& out, bool data) {
  // Whatever can be read is shown, also of a folder that is not whole.
  FolderContents contents;
  try {
    contents = read_folder(out.path);
    out.step = contents.step;
    out.state = contents.state;
    for (const auto& [name, group] : contents.groups) out.groups.push_back(group_of(group.file));
  } catch (const Error& e) {
    out.problem = e.what();
    std::error_code error;
    for (fs::directory_iterator it(out.path, error), end; !error && it != end;
         it.increment(error)) {
      if (it->path().extension() != ".safetensors") continue;
      try {
        out.groups.push_back(group_of(SafetensorsFile(it->path())));
      } catch (const Error&) {
        // The first problem is told already.
      }
    }
    return;
  }
  if (data) {
    for (const auto& [name, group] : contents.groups) verify_data(contents, name);
    out.hashed = true;
  }
  out.whole = true;
}

bool has_step_folders(const fs::path& path) {
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with("step-")) return true;
  }
  return false;
}

}  // namespace

Inspection inspect(const fs::path& path, bool data) {
  Inspection out;
  out.path = path;
  try {
    std::error_code error;
    if (!fs::exists(path, error)) {
      throw Error(path.string() + ": no such file or folder");
    } else if (!fs::is_directory(path, error)) {
      out.kind = Inspection::Kind::kSafetensors;
      out.groups.push_back(group_of(SafetensorsFile(path)));
      if (data) out.hashed = verify_file(path);
      out.whole = true;
    } else if (fs::exists(path / "state.json", error) || fs::exists(path / "DONE", error) ||
               fs::exists(path / "model.safetensors", error)) {
      out.kind = Inspection::Kind::kCheckpoint;
      inspect_checkpoint(out, data);
    } else if (has_step_folders(path)) {
      out.kind = Inspection::Kind::kRoot;
      out.steps = list_steps(path);
      out.whole = !out.steps.empty();
      if (!out.whole) out.problem = path.string() + ": no complete checkpoint";
    } else {
      throw Error(path.string() + ": neither a checkpoint nor a folder of checkpoints");
    }
  } catch (const Error& e) {
    out.whole = false;
    out.problem = e.what();
  }
  return out;
}

std::string describe_state(const nlohmann::json& state) {
  const auto value_text = [](const nlohmann::json& value) {
    if (!value.is_string()) {
      return printable(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 80);
    }
    const auto& text = value.get_ref<const std::string&>();
    const auto lines = std::count(text.begin(), text.end(), '\n');
    return lines > 0 ? fmt::format("a text of {} lines", lines) : printable(text, 80);
  };
  if (!state.is_object()) return fmt::format("state: {}\n", value_text(state));
  std::string out = "state:\n";
  for (const auto& [key, value] : state.items()) {
    std::string text;
    if (value.is_object()) {
      for (const auto& [name, member] : value.items()) {
        text +=
            fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(name), value_text(member));
      }
    } else {
      text = value_text(value);
    }
    out += fmt::format("  {}: {}\n", printable(key), text);
  }
  return out;
}

std::string describe(const Inspection& in, std::size_t max_tensors) {
  std::string text;
  const auto line = [&]<typename... T>(fmt::format_string<T...> format, T&&... values) {
    text += fmt::format(format, std::forward<T>(values)...) + "\n";
  };
  switch (in.kind) {
    case Inspection::Kind::kNothing:
      return in.problem + "\n";
    case Inspection::Kind::kSafetensors:
      line("{}: safetensors file", in.path.string());
      break;
    case Inspection::Kind::kCheckpoint:
      line("{}: checkpoint{}", in.path.string(),
           in.step ? fmt::format(" of step {}", *in.step) : std::string());
      break;
    case Inspection::Kind::kRoot:
      line("{}: folder of checkpoints", in.path.string());
      line("complete steps: {}", fmt::join(in.steps, ", "));
      break;
  }
  for (const auto& group : in.groups) {
    std::map<std::string_view, std::pair<std::size_t, std::uint64_t>> dtypes;
    for (const TensorInfo& info : group.tensors) {
      auto& [count, bytes] = dtypes[dtype_name(info.dtype)];
      ++count;
      bytes += info.bytes();
    }
    line("{}: {} tensors, {} bytes", group.name, group.tensors.size(), group.file_bytes);
    for (const auto& [name, sum] : dtypes) {
      line("  {}: {} tensors, {} bytes", name, sum.first, sum.second);
    }
    for (const auto& [key, value] : group.metadata) {
      line("  {} = {}", printable(key), printable(value));
    }
    for (std::size_t i = 0; i < group.tensors.size() && i < max_tensors; ++i) {
      const TensorInfo& info = group.tensors[i];
      line("    {} {} {}", printable(info.name), dtype_name(info.dtype), shape_text(info.shape));
    }
    if (group.tensors.size() > max_tensors) {
      line("    ... and {} more", group.tensors.size() - max_tensors);
    }
  }
  if (!in.state.is_null()) text += describe_state(in.state);
  if (in.whole && in.kind == Inspection::Kind::kSafetensors) {
    line("checksums: {}", in.hashed ? "those of state.json" : "none, there is no state.json of it");
  }
  if (in.whole) {
    line("whole: yes");
  } else {
    line("whole: no, {}", in.problem);
  }
  return text;
}

std::string describe(const fs::path& path) {
  return describe(inspect(path));
}

}  // namespace plimsoll::checkpoint
