// A main() for fuzz targets on machines without libFuzzer: seeded mutation of a corpus and of
// built-in starts, no coverage feedback. It takes the same corpus folders, and an input that it
// wrote can be replayed by either driver.
//
//   fuzz_NAME [--seconds N] [--runs N] [--seed N] [--max-len N] [--artifacts DIR] [FILE|FOLDER ...]
//
// With files only, each is run once as it is (how a crash is replayed).
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);
// Present under AddressSanitizer; its report ends the process without a signal.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

namespace {

using Bytes = std::vector<uint8_t>;
namespace fs = std::filesystem;

// What the crash handler needs, readable from a signal: plain globals.
const uint8_t* g_input = nullptr;
size_t g_input_size = 0;
char g_crash_path[4096];
volatile sig_atomic_t g_written = 0;

void write_all(int fd, const void* data, size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = write(fd, at, size);
    if (n <= 0) return;
    at += n;
    size -= static_cast<size_t>(n);
  }
}

// Async-signal-safe.
void save_crash() {
  if (g_written || g_input == nullptr) return;
  g_written = 1;
  const int fd = open(g_crash_path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (fd >= 0) {
    write_all(fd, g_input, g_input_size);
    close(fd);
  }
  static constexpr char kLine[] = "fuzz: CRASH, input written to ";
  write_all(2, kLine, sizeof kLine - 1);
  write_all(2, g_crash_path, strlen(g_crash_path));
  write_all(2, "\n", 1);
}

void on_signal(int signal_number) {
  save_crash();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void run_one(const Bytes& input) {
  // An exact copy on the heap, so that reading one byte too far is seen by a sanitizer.
  Bytes exact(input.begin(), input.end());
  exact.shrink_to_fit();
  g_input = exact.data();
  g_input_size = exact.size();
  try {
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
  } catch (const std::exception& e) {
    fprintf(stderr, "fuzz: uncaught exception: %s\n", e.what());
    save_crash();
    _exit(1);
  } catch (...) {
    fprintf(stderr, "fuzz: uncaught exception of an unknown type\n");
    save_crash();
    _exit(1);
  }
  g_input = nullptr;
}

Bytes read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(in), {});
}

Bytes bytes_of(std::string_view text) {
  return Bytes(text.begin(), text.end());
}

class Mutator {
 public:
  Mutator(uint64_t seed, size_t max_length) : random_(seed), max_length_(max_length) {}

  Bytes next(const std::vector<Bytes>& corpus) {
    Bytes out;
    // One in sixteen starts from noise; the rest from something that looks right.
    if (corpus.empty() || below(16) == 0) {
      out.resize(below(std::min<size_t>(max_length_, 256) + 1));
      for (auto& b : out) b = byte();
    } else {
      out = corpus[below(corpus.size())];
    }
    const size_t rounds = 1 + below(below(4) == 0 ? 16 : 4);
    for (size_t i = 0; i < rounds; ++i) mutate(out, corpus);
    if (out.size() > max_length_) out.resize(max_length_);
    return out;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(random_() % n); }
  uint8_t byte() { return static_cast<uint8_t>(random_()); }

  void mutate(Bytes& out, const std::vector<Bytes>& corpus) {
    // Tokens of the formats at hand: structure that single bytes would hardly hit on.
    static const char* const kTokens[] = {"{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"",
                                          ":",
                                          ",",
                                          "\\",
                                          "\n",
                                          "\r\n",
                                          "\\u0000",
                                          "\\ud800",
                                          "null",
                                          "true",
                                          "-1",
                                          "0",
                                          "1e999",
                                          "-0.0",
                                          "9223372036854775807",
                                          "18446744073709551616",
                                          "nan",
                                          "inf",
                                          "\"text\"",
                                          "\"dtype\"",
                                          "\"shape\"",
                                          "\"data_offsets\"",
                                          "\"F32\"",
                                          "\"BF16\"",
                                          "__metadata__",
                                          "\"model\"",
                                          "\"vocab\"",
                                          "\"merges\"",
                                          "\"added_tokens\"",
                                          "\"id\"",
                                          "\"content\"",
                                          "=",
                                          "[[",
                                          "]]",
                                          "\"\"\"",
                                          "'''",
                                          "#",
                                          "\xef\xbb\xbf",
                                          "\xc0\x80",
                                          "\xed\xa0\x80",
                                          "\xf4\x90\x80\x80",
                                          "\xff",
                                          "[train]",
                                          "steps",
                                          "lr"};
    const size_t at = below(out.size() + 1);
    switch (below(10)) {
      case 0:
        if (!out.empty()) out[below(out.size())] ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 1:
        if (!out.empty()) out[below(out.size())] = byte();
        break;
      case 2:
        out.insert(out.begin() + static_cast<ptrdiff_t>(at), byte());
        break;
      case 3: {  // drop a stretch
        const size_t n = std::min(out.size() - at, 1 + below(32));
        out.erase(out.begin() + static_cast<ptrdiff_t>(at),
                  out.begin() + static_cast<ptrdiff_t>(at + n));
        break;
      }
      case 4:  // truncate
        out.resize(at);
        break;
      case 5:
      case 6: {
        const std::string_view token = kTokens[below(std::size(kTokens))];
        out.insert(out.begin() + static_cast<ptrdiff_t>(at), token.begin(), token.end());
        break;
      }
      case 7: {  // repeat a stretch, sometimes many times: depth and size
        if (out.empty()) break;
        const size_t from = below(out.size());
        const size_t n = std::min(out.size() - from, 1 + below(64));
        const Bytes piece(out.begin() + static_cast<ptrdiff_t>(from),
                          out.begin() + static_cast<ptrdiff_t>(from + n));
        const size_t times = below(8) == 0 ? 1 + below(512) : 1 + below(3);
        Bytes grown;
        for (size_t i = 0; i < times && grown.size() < max_length_; ++i)
          grown.insert(grown.end(), piece.begin(), piece.end());
        out.insert(out.begin() + static_cast<ptrdiff_t>(from), grown.begin(), grown.end());
        break;
      }
      case 8: {  // an interesting integer over whatever is there
        static constexpr uint64_t kValues[] = {
            0,          1,          0x7f,       0x80,        0xff,      0x7fff,     0xffff,
            0x7fffffff, 0x80000000, 0xffffffff, 100'000'000, INT64_MAX, 1ull << 63, UINT64_MAX};
        const uint64_t value = kValues[below(std::size(kValues))];
        const size_t width = size_t{1} << below(4);
        if (out.size() < width) break;
        memcpy(out.data() + below(out.size() - width + 1), &value, width);
        break;
      }
      case 9: {  // splice with another
        if (corpus.empty()) break;
        const Bytes& other = corpus[below(corpus.size())];
        const size_t from = below(other.size() + 1);
        out.resize(at);
        out.insert(out.end(), other.begin() + static_cast<ptrdiff_t>(from), other.end());
        break;
      }
    }
  }

  std::mt19937_64 random_;
  size_t max_length_;
};

// Starts for each format of this project; a real corpus folder is better and comes on top.
std::vector<Bytes> built_in_starts() {
  std::vector<Bytes> starts;
  for (const std::string_view header :
       {R"({})", R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
        R"({"__metadata__":{"k":"v"},"b":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]}})"}) {
    Bytes file(8);
    const uint64_t size = header.size();
    memcpy(file.data(), &size, 8);
    file.insert(file.end(), header.begin(), header.end());
    file.resize(file.size() + 8);
    starts.push_back(file);
  }
  starts.push_back(bytes_of("{\"text\": \"one\"}\n{\"text\": \"tw\\u00f6\", \"n\": [1, 2.5]}\n"));
  starts.push_back(bytes_of(
      R"({"version":"1.0","added_tokens":[{"id":3,"content":"<e>","special":true,"lstrip":false,"rstrip":false,"normalized":false,"single_word":false}],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}})"));
  starts.push_back(bytes_of(
      "# recipe\n[run]\nname = \"x\"\nseed = 1\n[train]\nsteps = 10\nlr = 3e-4\n[data]\npaths = "
      "[\"a\", 'b']\n[[eval]]\nevery = 5\nwhen = 2020-01-01T00:00:00Z\n"));
  starts.push_back(bytes_of("\n"));
  starts.emplace_back();
  return starts;
}

[[noreturn]] void usage(const char* message) {
  fprintf(stderr,
          "fuzz: %s\nusage: fuzz_NAME [--seconds N] [--runs N] [--seed N] [--max-len N] "
          "[--artifacts DIR] [FILE|FOLDER ...]\n",
          message);
  exit(2);
}

uint64_t number(const char* text) {
  char* end = nullptr;
  errno = 0;
  const uint64_t value = strtoull(text, &end, 10);
  if (errno != 0 || end == text || *end != '\0' || *text == '-') usage("a number is expected");
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  using Clock = std::chrono::steady_clock;
  uint64_t seconds = 0, runs = 0, max_length = 4096;
  uint64_t seed = std::random_device{}();
  std::string artifacts = ".";
  std::vector<fs::path> paths;
  if (LLVMFuzzerInitialize) LLVMFuzzerInitialize(&argc, &argv);
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    if (arg.substr(0, 2) != "--") {
      paths.emplace_back(argv[i]);
      continue;
    }
    if (i + 1 == argc) usage("a value is missing");
    const char* value = argv[++i];
    if (arg == "--seconds") {
      seconds = number(value);
    } else if (arg == "--runs") {
      runs = number(value);
    } else if (arg == "--seed") {
      seed = number(value);
    } else if (arg == "--max-len") {
      max_length = number(value);
    } else if (arg == "--artifacts") {
      artifacts = value;
    } else {
      usage("unknown option");
    }
  }

  std::error_code ignored;
  fs::create_directories(artifacts, ignored);
  const std::string name = fs::path(argv[0]).filename().string();
  snprintf(g_crash_path, sizeof g_crash_path, "%s/crash-%s-%llu", artifacts.c_str(), name.c_str(),
           static_cast<unsigned long long>(seed));
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_crash);
  for (const int s : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGALRM}) signal(s, on_signal);

  std::vector<Bytes> corpus;
  bool folders = false;
  for (const auto& path : paths) {
    if (fs::is_directory(path)) {
      folders = true;
      std::vector<fs::path> files;
      for (const auto& entry : fs::recursive_directory_iterator(path))
        if (entry.is_regular_file()) files.push_back(entry.path());
      std::sort(files.begin(), files.end());  // the same corpus order on every machine
      for (const auto& file : files) corpus.push_back(read_file(file));
    } else if (fs::is_regular_file(path)) {
      corpus.push_back(read_file(path));
    } else {
      usage((path.string() + ": no such file or folder").c_str());
    }
  }
  if (!paths.empty() && !folders && seconds == 0 && runs == 0) {
    for (const auto& input : corpus) run_one(input);
    printf("fuzz: %s: %zu executions (replay)\n", name.c_str(), corpus.size());
    return 0;
  }
  if (seconds == 0 && runs == 0) seconds = 60;
  for (auto& start : built_in_starts()) corpus.push_back(std::move(start));

  printf("fuzz: %s: seed %llu, %zu starts\n", name.c_str(), static_cast<unsigned long long>(seed),
         corpus.size());
  fflush(stdout);
  Mutator mutator(seed, max_length);
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  uint64_t executions = 0;
  for (const auto& input : corpus) {
    run_one(input);
    ++executions;
  }
  while ((runs == 0 || executions < runs) &&
         (seconds == 0 || elapsed() < static_cast<double>(seconds))) {
    // An input that hangs is a finding as well: SIGALRM writes it and ends the process.
    alarm(30);
    run_one(mutator.next(corpus));
    ++executions;
  }
  alarm(0);
  printf("fuzz: %s: %llu executions in %.1f s, seed %llu\n", name.c_str(),
         static_cast<unsigned long long>(executions), elapsed(),
         static_cast<unsigned long long>(seed));
  return 0;
}
