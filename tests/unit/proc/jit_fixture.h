// SPDX-License-Identifier: Apache-2.0
// Makes jitdump files, byte by byte.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace spanfold::proc::test {

template <typename T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

inline std::string dump_header(std::uint32_t pid) {
  std::string bytes;
  for (const std::uint32_t word : {0x4A695444U, 1U, 40U, 62U, 0U, pid, 0U, 0U, 0U, 0U}) bytes += bytes_of(word);
  return bytes;
}

inline std::string dump_record(std::uint32_t id, std::string_view body) {
  constexpr std::uint32_t kHeaderBytes = 16;
  std::string bytes = bytes_of(id) + bytes_of(static_cast<std::uint32_t>(kHeaderBytes + body.size()));
  return bytes + bytes_of(std::uint64_t{0}) + std::string(body);
}

inline std::string dump_load(std::uint64_t address, std::uint64_t size, std::string_view name) {
  std::string body = bytes_of(std::uint64_t{0});
  for (const std::uint64_t word : {address, address, size, std::uint64_t{1}}) body += bytes_of(word);
  body.append(name).push_back('\0');
  return dump_record(0, body.append(size, '\x90'));
}

inline std::string dump_move(std::uint64_t from, std::uint64_t to, std::uint64_t size) {
  std::string body = bytes_of(std::uint64_t{0});
  for (const std::uint64_t word : {from, from, to, size, std::uint64_t{1}}) body += bytes_of(word);
  return dump_record(1, body);
}

}  // namespace spanfold::proc::test
