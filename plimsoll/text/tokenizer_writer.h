#pragma once

#include <filesystem>
#include <string>

#include "plimsoll/text/bpe_trainer.h"

namespace plimsoll::text {

/// The texts of tokenizer.json and tokenizer_config.json, as Hugging Face reads them.
std::string tokenizer_json(const TrainedBpe& bpe);
std::string tokenizer_config_json(const TrainedBpe& bpe);

/// Writes both into `folder` (created if missing), each whole or not at all, tokenizer.json last.
void write_tokenizer(const TrainedBpe& bpe, const std::filesystem::path& folder);

}  // namespace plimsoll::text
