// SPDX-License-Identifier: Apache-2.0
// Ids of files: GNU and Go build ids out of ELF notes, and OpenTelemetry's htlhash for any file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "proc/byte_source.h"

namespace spanfold::proc {

struct BuildIds {
  std::string gnu;  // hex; empty: none
  std::string go;   // as the file says; empty: none
};

// Adds what a run of ELF notes holds (System V gABI, "Note Section"): the first GNU build id of 1 to 64 bytes and the
// first Go build id win, also over later calls. `alignment` is the segment's p_align: 8 pads to 8, anything else to 4.
void collect_notes(std::string_view notes, std::uint64_t alignment, BuildIds& ids);

// `process.executable.build_id.htlhash` of the OpenTelemetry profiles specification: the first 16 bytes, in hex, of
// SHA-256 over the first 4096 bytes, the last 4096 bytes (they overlap in short files) and the length as big-endian
// u64. Empty where the file is empty or cannot be read.
[[nodiscard]] std::string htlhash_of_file(const ByteSource& source);

// For what is no file (kernel, modules, vDSO): FNV-1a of 128 bits over the build id's hex text. Empty for none.
[[nodiscard]] std::string htlhash_of_build_id(std::string_view build_id_hex);

}  // namespace spanfold::proc
