// SPDX-License-Identifier: Apache-2.0
#include "profile/dictionary.h"

#include <array>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "profile/otlp_fields.h"
#include "profile/text.h"

namespace spanfold::profile {
namespace {

// Rows kept in mind for each table of a growing dictionary; twice that for a while (see RowMemory), 32 bytes each.
// Links come with every span and are rarely used again; the rest grows with the code that runs.
struct Limits {
  std::size_t mappings, locations, functions, links, strings, attributes, stacks;
};
constexpr Limits kLimits = {16384, 131072, 65536, 65536, 65536, 16384, 131072};
constexpr Limits kNoLimits = {};

bool empty(const AttributeValue& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr && text->empty();
}

}  // namespace

Dictionary::Dictionary(bool bounded)
    : mappings_((bounded ? kLimits : kNoLimits).mappings),
      locations_((bounded ? kLimits : kNoLimits).locations),
      functions_((bounded ? kLimits : kNoLimits).functions),
      links_((bounded ? kLimits : kNoLimits).links),
      strings_((bounded ? kLimits : kNoLimits).strings),
      attributes_((bounded ? kLimits : kNoLimits).attributes),
      stacks_((bounded ? kLimits : kNoLimits).stacks),
      stack_keys_((bounded ? kLimits : kNoLimits).stacks) {}

void Dictionary::start(Hash128 seed) {
  seed_ = seed;
  rows_.clear();
  protozero::pbf_writer writer(rows_);
  const auto begin = [&](Table& table, otlp::Field field) {
    table.memory.clear();
    table.rows = 1;
    writer.add_message(field, protozero::data_view{});
  };
  begin(mappings_, otlp::dictionary::kMapping);
  begin(locations_, otlp::dictionary::kLocation);
  begin(functions_, otlp::dictionary::kFunction);
  begin(links_, otlp::dictionary::kLink);
  begin(strings_, otlp::dictionary::kString);
  begin(attributes_, otlp::dictionary::kAttribute);
  begin(stacks_, otlp::dictionary::kStack);
  stack_keys_.clear();
}

void Dictionary::start_batch() {
  batch_frames_.clear();
  batch_mappings_.clear();
}

template <typename Write>
std::uint32_t Dictionary::row(Table& table, std::uint32_t field, Hash128 key, Write write) {
  if (const std::uint32_t known = table.memory.find(key)) return known;
  const std::uint32_t added = table.rows++;
  table.memory.insert(key, added);
  protozero::pbf_writer rows(rows_);
  write(rows, field);
  return added;
}

std::uint32_t Dictionary::string(std::string_view bytes) {
  if (bytes.empty()) return 0;
  return row(strings_, otlp::dictionary::kString, hasher().bytes(bytes).result(),
             [&](protozero::pbf_writer& rows, otlp::Field field) { rows.add_string(field, to_valid_utf8(bytes)); });
}

std::uint32_t Dictionary::link(const SpanContext& span) {
  if (!span.valid()) return 0;
  const std::string_view trace(reinterpret_cast<const char*>(span.trace_id.data()), span.trace_id.size());
  const std::string_view id(reinterpret_cast<const char*>(span.span_id.data()), span.span_id.size());
  return row(links_, otlp::dictionary::kLink, hasher().bytes(trace).bytes(id).result(),
             [&](protozero::pbf_writer& rows, otlp::Field field) {
               protozero::pbf_writer link(rows, field);
               link.add_bytes(otlp::link::kTraceId, trace.data(), trace.size());
               link.add_bytes(otlp::link::kSpanId, id.data(), id.size());
             });
}

std::uint32_t Dictionary::attribute(std::string_view key, const AttributeValue& value) {
  const std::uint32_t name = string(key);
  const auto* text = std::get_if<std::string>(&value);
  Hasher hash = hasher().word(name).word(value.index());
  const Hash128 content = text != nullptr
                              ? hash.bytes(*text).result()
                              : hash.word(static_cast<std::uint64_t>(std::get<std::int64_t>(value))).result();
  return row(attributes_, otlp::dictionary::kAttribute, content, [&](protozero::pbf_writer& rows, otlp::Field field) {
    protozero::pbf_writer attribute(rows, field);
    attribute.add_uint32(otlp::attribute::kKey, name);
    protozero::pbf_writer any(attribute, otlp::attribute::kValue);
    if (text != nullptr) {
      any.add_string(otlp::any_value::kString, to_valid_utf8(*text));
    } else {
      any.add_int64(otlp::any_value::kInt, std::get<std::int64_t>(value));
    }
  });
}

std::uint32_t Dictionary::function(const SourceLine& source) {
  if (source.function == nullptr || source.function->empty()) return 0;
  const std::uint32_t name = string(*source.function);
  const std::uint32_t file = source.file == nullptr ? 0 : string(*source.file);
  return row(functions_, otlp::dictionary::kFunction, hasher().word(name).word(file).result(),
             [&](protozero::pbf_writer& rows, otlp::Field field) {
               protozero::pbf_writer function(rows, field);
               function.add_uint32(otlp::function::kName, name);
               if (file != 0) function.add_uint32(otlp::function::kFilename, file);
             });
}

std::uint32_t Dictionary::mapping(const Mapping* mapping) {
  if (mapping == nullptr || *mapping == Mapping{}) return 0;
  const auto [known, added] = batch_mappings_.try_emplace(mapping, 0);
  if (added) known->second = new_mapping(*mapping);
  return known->second;
}

std::uint32_t Dictionary::new_mapping(const Mapping& mapping) {
  const std::uint32_t filename = string(mapping.filename);
  std::array<std::uint32_t, 3> ids{};
  std::size_t id_count = 0;
  const auto add = [&](std::string_view key, const AttributeValue& value) {
    if (!empty(value)) ids[id_count++] = attribute(key, value);
  };
  add("process.executable.build_id.gnu", mapping.build_id_gnu);
  add("process.executable.build_id.go", mapping.build_id_go);
  add("process.executable.build_id.htlhash", mapping.htlhash);
  Hasher hash = hasher().word(mapping.memory_start).word(mapping.memory_limit).word(mapping.file_offset).word(filename);
  for (const std::uint32_t id : ids) hash.word(id);
  return row(mappings_, otlp::dictionary::kMapping, hash.result(), [&](protozero::pbf_writer& rows, otlp::Field field) {
    protozero::pbf_writer body(rows, field);
    body.add_uint64(otlp::mapping::kMemoryStart, mapping.memory_start);
    body.add_uint64(otlp::mapping::kMemoryLimit, mapping.memory_limit);
    body.add_uint64(otlp::mapping::kFileOffset, mapping.file_offset);
    body.add_uint32(otlp::mapping::kFilename, filename);
    body.add_packed_uint32(otlp::mapping::kAttributeIndices, ids.begin(), ids.begin() + id_count);
  });
}

std::uint32_t Dictionary::new_location(const Frame& frame) {
  const std::uint32_t mapping_row = mapping(frame.mapping);
  const SourceLine only{.function = frame.function};
  const std::span<const SourceLine> lines = frame.lines == nullptr ? std::span(&only, 1) : std::span(*frame.lines);
  const std::uint32_t type = attribute("profile.frame.type", std::string(frame_type_name(frame.type)));
  Hasher content = hasher().word(mapping_row).word(frame.address).word(type);
  line_rows_.clear();
  for (const SourceLine& line : lines) {
    content.word(line_rows_.emplace_back(function(line))).word(line.line);
  }
  return row(locations_, otlp::dictionary::kLocation, content.result(),
             [&](protozero::pbf_writer& rows, otlp::Field field) {
               protozero::pbf_writer body(rows, field);
               if (mapping_row != 0) body.add_uint32(otlp::location::kMappingIndex, mapping_row);
               if (frame.address != 0) body.add_uint64(otlp::location::kAddress, frame.address);
               for (std::size_t i = 0; i < lines.size(); ++i) {
                 if (line_rows_[i] == 0) continue;
                 protozero::pbf_writer line(body, otlp::location::kLines);
                 line.add_uint32(otlp::line::kFunctionIndex, line_rows_[i]);
                 if (lines[i].line != 0) line.add_int64(otlp::line::kLine, lines[i].line);
               }
               body.add_packed_uint32(otlp::location::kAttributeIndices, &type, &type + 1);
             });
}

std::uint32_t Dictionary::location(const Frame& frame) {
  const Hash128 key = hasher()
                          .word(reinterpret_cast<std::uintptr_t>(frame.mapping))
                          .word(reinterpret_cast<std::uintptr_t>(frame.function))
                          .word(reinterpret_cast<std::uintptr_t>(frame.lines))
                          .word(frame.address)
                          .word(static_cast<std::uint64_t>(frame.type))
                          .result();
  if (const std::uint32_t known = batch_frames_.find(key)) return known;
  const std::uint32_t added = new_location(frame);
  batch_frames_.insert(key, added);
  return added;
}

std::uint32_t Dictionary::stack(std::span<const Frame> frames, std::uint64_t stack_key) {
  if (frames.empty()) return 0;
  const Hash128 key = hasher().word(stack_key).result();
  if (stack_key != 0) {
    if (const std::uint32_t known = stack_keys_.find(key)) return known;
  }
  scratch_.clear();
  Hasher hash = hasher().word(frames.size());
  for (const Frame& frame : frames) hash.word(scratch_.emplace_back(location(frame)));
  const std::uint32_t stack_row =
      row(stacks_, otlp::dictionary::kStack, hash.result(), [&](protozero::pbf_writer& rows, otlp::Field field) {
        protozero::pbf_writer(rows, field)
            .add_packed_uint32(otlp::stack::kLocationIndices, scratch_.begin(), scratch_.end());
      });
  if (stack_key != 0) stack_keys_.insert(key, stack_row);
  return stack_row;
}

std::string Dictionary::take_rows() { return std::exchange(rows_, {}); }

}  // namespace spanfold::profile
