#include "plimsoll/text/bpe_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "plimsoll/base/error.h"
#include "plimsoll/text/byte_level.h"
#include "plimsoll/text/string_table.h"
#include "plimsoll/text/unicode.h"

namespace plimsoll::text {

namespace {

uint64_t pair_of(uint32_t left, uint32_t right) {
  return uint64_t{left} << 32 | right;
}

// The distinct words as ids of tokens, in one array; merging shortens them in place.
struct WordList {
  std::vector<uint32_t> ids;
  std::vector<size_t> begin;
  std::vector<uint32_t> size;
  std::vector<int64_t> count;
};

// Counts of pairs and the words they stand in. Counts change with every merge; the queue holds old
// ones, which are put right when they come up.
class PairCounts {
 public:
  struct Top {
    uint64_t pair;
    int64_t count;
    std::vector<uint32_t> words;  // where the pair may stand
  };

  void add(uint64_t pair, int64_t change) { entry(pair).count += change; }

  void add_in_word(uint64_t pair, int64_t change, uint32_t word) {
    const uint32_t index = index_of(pair);
    Entry& e = entries_[index];
    e.count += change;
    if (!e.words.empty() && e.words.back() == word) return;
    if (e.words.empty()) touched_.push_back(index);
    e.words.push_back(word);
  }

  // Queues the pairs that came up since the last call, with their words.
  void queue_touched() {
    for (const uint32_t index : touched_) {
      Entry& e = entries_[index];
      if (e.count > 0) {
        queue_.push({e.count, e.pair, static_cast<uint32_t>(words_.size())});
        words_.push_back(std::move(e.words));
      }
      e.words = {};
    }
    touched_.clear();
  }

  // The most frequent pair, of equal ones that of the smaller ids; false when none is left.
  bool pop(Top& top) {
    while (!queue_.empty()) {
      Queued q = queue_.top();
      queue_.pop();
      const int64_t now = entry(q.pair).count;
      if (now != q.count) {
        q.count = now;
        queue_.push(q);
        continue;
      }
      if (now < 1) return false;
      top = {q.pair, now, std::move(words_[q.words])};
      return true;
    }
    return false;
  }

 private:
  struct Entry {
    uint64_t pair;
    int64_t count = 0;
    std::vector<uint32_t> words;  // since the last queue_touched()
  };
  struct Queued {
    int64_t count;
    uint64_t pair;
    uint32_t words;  // in words_
    bool operator<(const Queued& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  uint32_t index_of(uint64_t pair) {
    const auto [found, fresh] = index_.emplace(pair, static_cast<uint32_t>(entries_.size()));
    if (fresh) entries_.push_back({pair, 0, {}});
    return found->second;
  }
  Entry& entry(uint64_t pair) { return entries_[index_of(pair)]; }

  std::unordered_map<uint64_t, uint32_t> index_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> touched_;
  std::vector<std::vector<uint32_t>> words_;
  std::priority_queue<Queued> queue_;
};

// Tokens by id and back, as bytes; specials as they are spelled. A special may equal the bytes of a
// merged token, then they are one token, as for Hugging Face.
struct Vocabulary {
  std::vector<std::string> spellings;
  std::unordered_map<std::string, uint32_t> ids;

  uint32_t add(const std::string& spelling) {
    const auto [found, fresh] = ids.emplace(spelling, static_cast<uint32_t>(spellings.size()));
    if (fresh) spellings.push_back(spelling);
    return found->second;
  }
};

// Replaces left+right by `merged` in one word and keeps the counts of the pairs around it.
void merge_in_word(WordList& words, uint32_t word, uint64_t pair, uint32_t merged,
                   PairCounts& counts) {
  const auto left = static_cast<uint32_t>(pair >> 32), right = static_cast<uint32_t>(pair);
  uint32_t* ids = words.ids.data() + words.begin[word];
  const uint32_t n = words.size[word];
  const int64_t count = words.count[word];
  uint32_t kept = 0;
  for (uint32_t i = 0; i < n;) {
    if (ids[i] != left || i + 1 == n || ids[i + 1] != right) {
      ids[kept++] = ids[i++];
      continue;
    }
    if (kept > 0) {  // the left neighbour may itself be a merge just made
      counts.add(pair_of(ids[kept - 1], left), -count);
      counts.add_in_word(pair_of(ids[kept - 1], merged), count, word);
    }
    if (i + 2 < n) {
      counts.add(pair_of(right, ids[i + 2]), -count);
      counts.add_in_word(pair_of(merged, ids[i + 2]), count, word);
    }
    ids[kept++] = merged;
    i += 2;
  }
  words.size[word] = kept;
}

void check(const TrainerConfig& config) {
  std::set<std::string> specials;
  for (const std::string& token : config.special_tokens) {
    if (token.empty()) throw UsageError("special_tokens: a special token is empty");
    if (!is_valid_utf8(token)) throw UsageError("special_tokens: a special token is not UTF-8");
    const auto bytes = bytes_of_spelling(token);
    if (bytes && bytes->size() == 1) {
      throw UsageError(
          fmt::format("special_tokens: \"{}\" is the spelling of a single byte", token));
    }
    if (!specials.insert(token).second) {
      throw UsageError(fmt::format("special_tokens: \"{}\" stands twice", token));
    }
  }
  const std::pair<const char*, const std::optional<std::string>&> roles[] = {
      {"pad_token", config.pad_token},
      {"bos_token", config.bos_token},
      {"eos_token", config.eos_token}};
  for (const auto& [name, token] : roles) {
    if (token && !specials.count(*token)) {
      throw UsageError(fmt::format("{}: \"{}\" is not one of special_tokens", name, *token));
    }
  }
  const size_t least = specials.size() + 256;
  if (config.vocab_size < 0 || static_cast<size_t>(config.vocab_size) < least) {
    throw UsageError(
        fmt::format("vocab_size: {} is too small", config.vocab_size),
        fmt::format("256 bytes and {} special tokens need at least {}", specials.size(), least));
  }
  if (pattern_of(config.pattern).empty()) throw UsageError("pattern: must be one of the patterns");
}

}  // namespace

struct BpeTrainer::Words {
  StringTable table;
  std::vector<int64_t> count;
  int64_t total = 0;
};

BpeTrainer::BpeTrainer(TrainerConfig config)
    : config_(std::move(config)), words_(std::make_unique<Words>()) {
  check(config_);
}
BpeTrainer::~BpeTrainer() = default;
BpeTrainer::BpeTrainer(BpeTrainer&&) noexcept = default;
BpeTrainer& BpeTrainer::operator=(BpeTrainer&&) noexcept = default;

void BpeTrainer::feed(std::string_view text) {
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repair_utf8(text, false, repaired);
    text = repaired;
  }
  Words& words = *words_;
  PreTokenizer({config_.pattern}).for_each_word(text, [&](std::string_view word) {
    const auto [index, fresh] = words.table.add(word);
    if (fresh) words.count.push_back(0);
    ++words.count[index];
    ++words.total;
  });
}

TrainedBpe BpeTrainer::finish() {
  const auto counted = std::exchange(words_, std::make_unique<Words>());
  Vocabulary vocabulary;
  for (const std::string& token : config_.special_tokens) vocabulary.add(token);
  std::array<uint32_t, 256> byte_ids;
  std::vector<std::pair<uint16_t, uint8_t>> alphabet;  // in the order of its characters
  alphabet.reserve(256);
  for (int b = 0; b < 256; ++b) {
    alphabet.emplace_back(byte_characters()[static_cast<size_t>(b)], static_cast<uint8_t>(b));
  }
  std::sort(alphabet.begin(), alphabet.end());
  for (const auto& [character, byte] : alphabet) {
    std::string spelling;
    append_utf8(character, spelling);
    byte_ids[byte] = vocabulary.add(spelling);
  }

  WordList words;
  PairCounts counts;
  for (uint32_t w = 0; w < counted->table.size(); ++w) {
    const std::string_view word = counted->table[w];
    words.begin.push_back(words.ids.size());
    words.size.push_back(static_cast<uint32_t>(word.size()));
    words.count.push_back(counted->count[w]);
    for (const char b : word) words.ids.push_back(byte_ids[static_cast<unsigned char>(b)]);
    const uint32_t* ids = words.ids.data() + words.begin[w];
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      counts.add_in_word(pair_of(ids[i], ids[i + 1]), words.count[w], w);
    }
  }
  counts.queue_touched();

  std::vector<uint64_t> merges;
  PairCounts::Top top;
  while (vocabulary.spellings.size() < static_cast<size_t>(config_.vocab_size) && counts.pop(top) &&
         top.count >= config_.min_frequency) {
    const uint32_t merged = vocabulary.add(vocabulary.spellings[top.pair >> 32] +
                                           vocabulary.spellings[static_cast<uint32_t>(top.pair)]);
    merges.push_back(top.pair);
    for (const uint32_t word : top.words) merge_in_word(words, word, top.pair, merged, counts);
    counts.queue_touched();
  }

  // A pair can come up twice; its later rank counts.
  std::unordered_map<uint64_t, size_t> last;
  for (size_t i = 0; i < merges.size(); ++i) last[merges[i]] = i;
  TrainedBpe bpe;
  for (size_t i = 0; i < merges.size(); ++i) {
    if (last[merges[i]] != i) continue;
    bpe.merges.emplace_back(vocabulary.spellings[merges[i] >> 32],
                            vocabulary.spellings[static_cast<uint32_t>(merges[i])]);
  }
  bpe.config = config_;
  bpe.tokens = std::move(vocabulary.spellings);
  bpe.words = counted->total;
  bpe.unique_words = static_cast<int64_t>(counted->table.size());
  return bpe;
}

}  // namespace plimsoll::text
