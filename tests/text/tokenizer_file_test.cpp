// Hostile and unsupported files: one clear error each, naming the field.
#include "plimsoll/text/tokenizer_file.h"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "plimsoll/base/error.h"
#include "plimsoll/text/tokenizer.h"

namespace plimsoll::text {
namespace {

using Json = nlohmann::json;

Json small() {
  return Json::parse(R"({
    "version": "1.0",
    "added_tokens": [{"id": 4, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true},
    "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "aba": 3},
              "merges": ["a b", ["ab", "a"]]}})");
}

std::string error_of(const std::string& json, const std::string& config = "") {
  try {
    Tokenizer::parse(json, "t.json", config);
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_EQ(what.find('\n'), std::string::npos);
    return what;
  }
  return "accepted";
}

std::string error_with(const std::function<void(Json&)>& change) {
  Json file = small();
  change(file);
  return error_of(file.dump());
}

TEST(TokenizerFile, TheSmallOneIsFine) {
  const auto t = Tokenizer::parse(small().dump(), "t.json");
  EXPECT_EQ(t.encode("abaab<s>?"), (std::vector<int32_t>{3, 2, 4}));
  EXPECT_EQ(t.size(), 5);
}

TEST(TokenizerFile, NotJson) {
  EXPECT_EQ(error_of(""), "t.json: the file is empty");
  EXPECT_EQ(error_of("{\n \"a\": }"), "t.json: not JSON at line 2, column 7");
  EXPECT_EQ(error_of(std::string(100000, '[')), "t.json: not JSON at line 1, column 100001");
  EXPECT_EQ(error_of("[1, 2]"), "t.json: must be an object, is an array");
  EXPECT_EQ(error_of("{\"a\": \"\xFF\"}"), "t.json: not UTF-8");
  EXPECT_EQ(error_of(std::string(9999, '[') + std::string(9999, ']')),
            "t.json: nested too deep (more than 1024 levels)");
  EXPECT_EQ(error_of(std::string(kMaxTokenizerBytes + 1, ' ')),
            "t.json: 67108865 bytes, more than the 67108864 that such a file may have");
}

TEST(TokenizerFile, EveryTruncationIsRefused) {
  const std::string json = small().dump();
  for (size_t n = 0; n < json.size(); ++n) {
    ASSERT_NE(error_of(json.substr(0, n)), "accepted") << n;
  }
}

TEST(TokenizerFile, MissingAndMistypedFields) {
  EXPECT_EQ(error_with([](Json& j) { j.erase("model"); }), "t.json: model: missing");
  EXPECT_EQ(error_with([](Json& j) { j["model"].erase("vocab"); }), "t.json: model.vocab: missing");
  EXPECT_EQ(error_with([](Json& j) { j["model"].erase("merges"); }),
            "t.json: model.merges: missing");
  EXPECT_EQ(error_with([](Json& j) { j["pre_tokenizer"] = nullptr; }),
            "t.json: pre_tokenizer: missing");
  EXPECT_EQ(error_with([](Json& j) { j.erase("decoder"); }), "t.json: decoder: missing");
  EXPECT_EQ(error_with([](Json& j) { j["model"]["vocab"] = 3; }),
            "t.json: model.vocab: must be an object, is a number");
  EXPECT_EQ(error_with([](Json& j) { j["model"]["merges"] = "a b"; }),
            "t.json: model.merges: must be an array, is a string");
  EXPECT_EQ(error_with([](Json& j) { j["model"]["ignore_merges"] = "yes"; }),
            "t.json: model.ignore_merges: must be true or false, is a string");
  EXPECT_EQ(error_with([](Json& j) { j["added_tokens"][0].erase("content"); }),
            "t.json: added_tokens[0].content: missing");
}

TEST(TokenizerFile, BadIds) {
  const std::string range = "the id must be an integer from 0 to 4194303";
  for (const Json& id : {Json(-1), Json(4194304), Json(1e30), Json(1.5), Json("1"), Json(nullptr),
                         Json(UINT64_MAX)}) {
    EXPECT_EQ(error_with([&](Json& j) { j["model"]["vocab"]["b"] = id; }),
              "t.json: model.vocab[\"b\"]: " + range)
        << id;
  }
  EXPECT_EQ(error_with([](Json& j) { j["model"]["vocab"]["b"] = 0; }),
            "t.json: model.vocab[\"b\"]: id 0 belongs to another token too");
  EXPECT_EQ(error_with([](Json& j) { j["added_tokens"][0]["id"] = 9; }),
            "t.json: added_tokens[0].id: 9 for \"<s>\", but Hugging Face reads this file as giving "
            "it 4");
  EXPECT_EQ(error_with([](Json& j) { j["added_tokens"][0]["id"] = -3; }),
            "t.json: added_tokens[0].id: must be an integer from 0 to 4194303, is -3");
  // A vocabulary with a hole: the next free id is that of another token.
  EXPECT_EQ(error_with([](Json& j) { j["model"]["vocab"]["b"] = 4; }),
            "t.json: id 4 is given to both \"b\" and \"<s>\"");
  std::string huge = small().dump();
  huge.replace(huge.find("\"b\":1"), 5, "\"b\":1000000000000000019884624838656");
  EXPECT_EQ(error_of(huge), "t.json: a number is malformed or out of range");
}

TEST(TokenizerFile, Duplicates) {
  std::string twice = small().dump();
  twice.replace(twice.find("\"b\":1"), 5, "\"b\":1,\"b\":7");
  EXPECT_EQ(error_of(twice), "t.json: model.vocab[\"b\"]: stands twice");
  EXPECT_EQ(error_with([](Json& j) { j["added_tokens"].push_back(j["added_tokens"][0]); }),
            "t.json: added_tokens[1]: \"<s>\" stands twice");
  std::string models = small().dump();
  models.insert(1, "\"model\":{},");
  EXPECT_EQ(error_of(models), "t.json: model: stands twice");
}

TEST(TokenizerFile, BadMerges) {
  const auto with = [](const Json& merge) {
    return error_with([&](Json& j) { j["model"]["merges"][1] = merge; });
  };
  EXPECT_EQ(with("a x"), "t.json: model.merges[1]: \"x\" is not in model.vocab");
  EXPECT_EQ(with("b a"), "t.json: model.merges[1]: \"ba\" is not in model.vocab");
  EXPECT_EQ(with("ab"), "t.json: model.merges[1]: \"ab\" is not two tokens with a space between");
  EXPECT_EQ(with("a b a"),
            "t.json: model.merges[1]: \"a b a\" is not two tokens with a space between");
  const std::string shape =
      "t.json: model.merges[1]: must be two tokens, as \"a b\" or [\"a\", \"b\"]";
  EXPECT_EQ(with(Json::array({"a"})), shape);
  EXPECT_EQ(with(Json::array({"a", 1})), shape);
  EXPECT_EQ(with(7), shape);
}

TEST(TokenizerFile, WhatIsNotSupportedIsNamed) {
  const auto set = [](const char* pointer, const Json& value) {
    return error_with([&](Json& j) { j[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_EQ(set("/version", "2.0"), "t.json: version: \"2.0\" is not supported (known: 1.0)");
  EXPECT_EQ(set("/model/type", "Unigram"),
            "t.json: model.type: \"Unigram\" is not supported (known: BPE)");
  EXPECT_EQ(set("/model/dropout", 0.1),
            "t.json: model.dropout: 0.1 is not supported (known: none)");
  EXPECT_EQ(set("/model/end_of_word_suffix", "</w>"),
            "t.json: model.end_of_word_suffix: \"</w>\" is not supported (known: none)");
  EXPECT_EQ(set("/model/byte_fallback", true),
            "t.json: model.byte_fallback: true is not supported (known: false)");
  EXPECT_EQ(set("/model/unk_token", "a"),
            "t.json: model.unk_token: \"a\" is not supported in a vocabulary that lacks byte 0x00");
  EXPECT_EQ(set("/model/shiny", 1), "t.json: model: key \"shiny\" is not supported");
  EXPECT_EQ(set("/normalizer", {{"type", "Lowercase"}}),
            "t.json: normalizer.type: \"Lowercase\" is not supported (known: NFC, Sequence)");
  EXPECT_EQ(set("/pre_tokenizer", {{"type", "Metaspace"}}),
            "t.json: pre_tokenizer.type: \"Metaspace\" is not supported (known: ByteLevel, Split, "
            "Digits, Sequence)");
  EXPECT_EQ(set("/pre_tokenizer", {{"type", "Digits"}, {"individual_digits", true}}),
            "t.json: pre_tokenizer: is not supported without ByteLevel at its end");
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", "\\s+"}}}, {"behavior", "Isolated"}};
  EXPECT_EQ(set("/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", {split}}}),
            "t.json: pre_tokenizer.pretokenizers[0].pattern.Regex: \"\\s+\" is not supported "
            "(known: the patterns of GPT-2, Llama 3 and Qwen 3)");
  EXPECT_EQ(set("/decoder", {{"type", "WordPiece"}}),
            "t.json: decoder.type: \"WordPiece\" is not supported (known: ByteLevel)");
  EXPECT_EQ(set("/post_processor", {{"type", "BertProcessing"}}),
            "t.json: post_processor.type: \"BertProcessing\" is not supported (known: ByteLevel, "
            "TemplateProcessing, Sequence)");
}

TEST(TokenizerFile, TemplateOfThePostProcessor) {
  Json file = small();
  file["post_processor"] = Json::parse(R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel"},
    {"type": "TemplateProcessing",
     "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
     "special_tokens": {"<s>": {"id": "<s>", "ids": [4]}}}]})");
  const auto t = Tokenizer::parse(file.dump(), "t.json");
  EXPECT_EQ(t.template_prefix(), (std::vector<int32_t>{4}));
  EXPECT_EQ(t.template_suffix(), (std::vector<int32_t>{}));
}

TEST(TokenizerConfig, SpecialTokensInBothForms) {
  const auto t =
      Tokenizer::parse(small().dump(), "t.json",
                       R"({"bos_token": {"content": "<s>"}, "eos_token": "<e>", "pad_token": null,
          "model_max_length": 1000000000000000019884624838656,
          "added_tokens_decoder": {"5": {"content": "<e>", "special": true},
                                   "4": {"content": "<s>"}}})");
  EXPECT_EQ(t.bos(), 4);
  EXPECT_EQ(t.eos(), 5);
  EXPECT_EQ(t.pad(), std::nullopt);
  EXPECT_EQ(t.encode("a<e>"), (std::vector<int32_t>{0, 5}));
}

TEST(TokenizerConfig, BadOnes) {
  const auto with = [](const std::string& config) { return error_of(small().dump(), config); };
  const std::string file = "tokenizer_config.json: ";
  EXPECT_EQ(with("{\"a\""), file + "not JSON at line 1, column 5");
  EXPECT_EQ(with("[]"), file + "must be an object");
  EXPECT_EQ(with(R"({"bos_token": 1})"),
            file + "bos_token: must be a string, or an object with \"content\"");
  EXPECT_EQ(with(R"({"eos_token": {}})"), file + "eos_token.content: must be a string");
  EXPECT_EQ(with(R"({"eos_token": "</s>"})"),
            file + "eos_token: \"</s>\" is not in the vocabulary of tokenizer.json");
  EXPECT_EQ(with(R"({"added_tokens_decoder": []})"),
            file + "added_tokens_decoder: must be an object");
  EXPECT_EQ(with(R"({"added_tokens_decoder": {"x": {"content": "<e>"}}})"),
            file + "added_tokens_decoder[\"x\"]: the key must be a token id");
  EXPECT_EQ(
      with(R"({"added_tokens_decoder": {"9": {"content": "<e>"}}})"),
      file + "added_tokens_decoder[\"9\"]: \"<e>\" would get id 5 beside this tokenizer.json");
  EXPECT_EQ(with(R"({"added_tokens_decoder": {"5": {"content": "<e>", "special": 1}}})"),
            file + "added_tokens_decoder[\"5\"].special: must be true or false");
}

}  // namespace
}  // namespace plimsoll::text
