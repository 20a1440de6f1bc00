// What tests/peers/compare_tokenizer.py drives: our side of each comparison, over pipes.
//   tokenizer_probe encode TOKENIZER [as_text]   strings on stdin, ids on stdout
//   tokenizer_probe decode TOKENIZER [keep]      ids on stdin, strings on stdout
//   tokenizer_probe train FOLDER SIZE MIN_FREQUENCY PATTERN(0..2) FILE lines|whole SPECIAL...
//   tokenizer_probe speed TOKENIZER FILE         MB/s: first pass, best of the later ones
// A string is its length (u32) and bytes; a list of ids is its length (u32) and the ids (i32).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "plimsoll/base/error.h"
#include "plimsoll/base/files.h"
#include "plimsoll/text/tokenizer.h"
#include "plimsoll/text/tokenizer_writer.h"

namespace {

using namespace plimsoll;
using namespace plimsoll::text;

template <class T>
void put(const T* data, size_t n) {
  const auto size = static_cast<uint32_t>(n);
  std::fwrite(&size, sizeof size, 1, stdout);
  std::fwrite(data, sizeof(T), n, stdout);
}

template <class T>
bool get(std::vector<T>& data) {
  uint32_t size = 0;
  if (std::fread(&size, sizeof size, 1, stdin) != 1) return false;
  data.resize(size);
  return std::fread(data.data(), sizeof(T), size, stdin) == size;
}

void encode(const std::vector<std::string>& a) {
  const auto tokenizer = Tokenizer::load(a.at(1));
  const auto specials = a.size() > 2 ? SpecialTokens::kAsText : SpecialTokens::kRecognise;
  std::vector<char> text;
  while (get(text)) {
    const auto ids = tokenizer.encode({text.data(), text.size()}, specials);
    put(ids.data(), ids.size());
  }
}

void decode(const std::vector<std::string>& a) {
  const auto tokenizer = Tokenizer::load(a.at(1));
  std::vector<int32_t> ids;
  while (get(ids)) {
    const std::string text = tokenizer.decode(ids, a.size() == 2);
    put(text.data(), text.size());
  }
}

double now() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(t).count();
}

void train(const std::vector<std::string>& a) {
  const std::string text = read_file(a.at(5));
  const double begin = now();
  TrainerConfig config;
  config.vocab_size = std::atoi(a.at(2).c_str());
  config.min_frequency = std::atoi(a.at(3).c_str());
  config.pattern = static_cast<Splitter>(std::atoi(a.at(4).c_str()));
  config.special_tokens.assign(a.begin() + 7, a.end());
  config.bos_token = config.eos_token = config.pad_token = std::nullopt;
  if (!config.special_tokens.empty()) config.eos_token = config.special_tokens[0];
  BpeTrainer trainer(config);
  if (a.at(6) == "whole") {
    trainer.feed(text);
  } else {
    for (size_t i = 0; i < text.size();) {
      const size_t end = std::min(text.find('\n', i), text.size() - 1) + 1;
      trainer.feed(std::string_view(text).substr(i, end - i));
      i = end;
    }
  }
  const TrainedBpe bpe = trainer.finish();
  const double seconds = now() - begin;
  write_tokenizer(bpe, a.at(1));
  std::printf("%d entries, %zu merges, %lld words (%lld distinct), %.3f s\n", bpe.size(),
              bpe.merges.size(), static_cast<long long>(bpe.words),
              static_cast<long long>(bpe.unique_words), seconds);
}

void speed(const std::vector<std::string>& a) {
  const std::string text = read_file(a.at(2));
  double t = now();
  const auto tokenizer = Tokenizer::load(a.at(1));
  std::printf("load %.4f s\n", now() - t);
  std::vector<int32_t> ids;
  double first = 0, best = 0;
  for (int pass = 0; pass < 10; ++pass) {
    ids.clear();
    t = now();
    tokenizer.encode(text, ids);
    const double rate = static_cast<double>(text.size()) / 1e6 / (now() - t);
    if (pass == 0) first = rate;
    best = std::max(best, rate);
  }
  std::printf("%zu bytes, %zu ids, first %.1f MB/s, best %.1f MB/s\n", text.size(), ids.size(),
              first, best);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> a(argv + 1, argv + argc);
  try {
    if (a.empty()) return 2;
    if (a[0] == "encode") encode(a);
    if (a[0] == "decode") decode(a);
    if (a[0] == "train") train(a);
    if (a[0] == "speed") speed(a);
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
