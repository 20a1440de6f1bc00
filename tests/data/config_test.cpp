#include "plimsoll/data/config.h"

#include <cmath>
#include <filesystem>

#include "plimsoll/config/config.h"
#include "tests/expect_error.h"
#include "tests/temp_dir.h"

namespace plimsoll::data {
namespace {

using ::plimsoll::testing::error_of;
using ::plimsoll::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What a recipe with this [data] section would be told.
std::string problems(DataConfig config) {
  config.tokenizer = "t";
  struct Root {
    DataConfig data;
    void describe(config::Fields& f) { f.section("data", data); }
  } root{std::move(config)};
  try {
    config::validate(root);
  } catch (const UsageError& e) {
    return e.what();
  }
  return {};
}

TEST(DataConfig, IsFineWithAFile) {
  DataConfig config;
  config.files = {"x"};
  EXPECT_EQ(problems(config), "");
}

TEST(DataConfig, NamesAllProblemsAtOnce) {
  DataConfig config;
  config.format = "csv";
  config.text_documents = "page";
  config.on_bad_line = "ignore";
  config.invalid_utf8 = "maybe";
  config.packing = "best_fit";
  config.text_field = "";
  config.max_document_bytes = 0;
  config.validation_fraction = std::nan("");
  config.prefetch = -1;
  EXPECT_THAT(problems(config),
              AllOf(HasSubstr("data.files"), HasSubstr("csv"), HasSubstr("page"),
                    HasSubstr("ignore"), HasSubstr("maybe"), HasSubstr("best_fit"),
                    HasSubstr("data.text_field"), HasSubstr("data.max_document_bytes = 0"),
                    HasSubstr("nan"), HasSubstr("data.prefetch = -1")));
}

TEST(DataConfig, TakesOneKindOfValidation) {
  DataConfig config;
  config.files = {"x"};
  config.validation_files = {"y"};
  config.validation_fraction = 0.1;
  EXPECT_THAT(problems(config), HasSubstr("not both"));
}

TEST(ExpandFiles, SortsMatchesAndTakesEachFileOnce) {
  const TempDir dir;
  for (const char* name : {"b.txt", "a.txt", "B.txt", "c.json", "odd[1].txt"}) dir.write(name, "x");
  std::filesystem::create_directory(dir / "folder.txt");
  const std::string base = dir.path().string() + "/";
  EXPECT_THAT(expand_files({base + "c.json", base + "?.txt", base + "a*"}, "data.files"),
              ElementsAre(base + "c.json", base + "B.txt", base + "a.txt", base + "b.txt"));
  EXPECT_THAT(expand_files({base + "odd[1].txt"}, "data.files"), ElementsAre(base + "odd[1].txt"));
  EXPECT_THAT(expand_files({base + "c.json", base + "./c.json"}, "data.files"),
              ElementsAre(base + "c.json"))
      << "one file in two spellings";
}

TEST(ExpandFiles, SaysWhatIsMissing) {
  const TempDir dir;
  EXPECT_THAT(error_of([&] { expand_files({(dir / "none").string()}, "data.files"); }),
              AllOf(HasSubstr("data.files"), HasSubstr("none"), HasSubstr("No such file")));
  EXPECT_THAT(error_of([&] { expand_files({(dir / "*.x").string()}, "data.validation_files"); }),
              AllOf(HasSubstr("data.validation_files"), HasSubstr("no file matches")));
  EXPECT_THAT(error_of([&] { expand_files({dir.path().string()}, "data.files"); }),
              HasSubstr("is a folder"));
  EXPECT_THAT(error_of([] { expand_files({"none.txt"}, ""); }), StartsWith("cannot open none.txt"));
}

}  // namespace
}  // namespace plimsoll::data
