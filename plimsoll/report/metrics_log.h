#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "plimsoll/report/append_file.h"
#include "plimsoll/report/record.h"

namespace plimsoll::report {

/// metrics.jsonl (one object a step) and validation.jsonl (one object a pass) of a run folder.
/// Numbers are written so that reading gives the same bits; a number that is not finite becomes
/// null and a text beside it ("loss": null, "loss_text": "nan"); an absent one is null. A record is
/// one write of a whole line. Not thread safe.
class MetricsLog {
 public:
  /// Opens the files of `folder`, which must exist. Records after `last_step` are cut off, so that
  /// the curve of a resumed run has each step once; 0 starts anew. A torn or unreadable end is cut
  /// off; an unreadable line with good ones after it throws Error with file and line.
  MetricsLog(const std::filesystem::path& folder, int64_t last_step);

  /// Throws Error where the file cannot take the record; the file then ends with the last whole
  /// one.
  void write(const StepRecord& record);
  void write(const ValidationRecord& record);
  /// Asks the system to put everything on disk.
  void sync();

 private:
  AppendFile steps_, validations_;
};

/// A record as one line of JSON, without the line break.
std::string to_json(const StepRecord& record);
std::string to_json(const ValidationRecord& record);

/// All records of a metrics.jsonl; a torn last line is left out. Throws Error naming file and line.
std::vector<StepRecord> read_metrics(const std::filesystem::path& file);
/// The same of a validation.jsonl.
std::vector<ValidationRecord> read_validations(const std::filesystem::path& file);
/// Bytes of either up to the end of the last whole record: fewer than the file has where its end is
/// torn. Throws as they do.
uint64_t whole_size(const std::filesystem::path& file);

}  // namespace plimsoll::report
