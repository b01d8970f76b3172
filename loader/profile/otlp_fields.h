// SPDX-License-Identifier: Apache-2.0
// Field numbers of the OTLP profiles messages that spanfold writes and reads.
// Source of the format: opentelemetry-proto 1.10 and newer, package opentelemetry.proto.profiles.v1development, with
// opentelemetry.proto.common.v1 and opentelemetry.proto.resource.v1. Wire types in the comments: v varint, f fixed64,
// l length-delimited; "packed" fields may arrive unpacked.
#pragma once

#include <cstdint>

namespace spanfold::profile::otlp {

using Field = std::uint32_t;

namespace profiles_data {
inline constexpr Field kResourceProfiles = 1;  // l, repeated
inline constexpr Field kDictionary = 2;        // l; several merge
}  // namespace profiles_data

namespace dictionary {  // all l, repeated; row 0 of each is the zero value
inline constexpr Field kMapping = 1;
inline constexpr Field kLocation = 2;
inline constexpr Field kFunction = 3;
inline constexpr Field kLink = 4;
inline constexpr Field kString = 5;
inline constexpr Field kAttribute = 6;
inline constexpr Field kStack = 7;
}  // namespace dictionary

namespace resource_profiles {
inline constexpr Field kResource = 1;       // l
inline constexpr Field kScopeProfiles = 2;  // l, repeated
}  // namespace resource_profiles

namespace resource {
inline constexpr Field kAttributes = 1;  // l, repeated KeyValue
}

namespace scope_profiles {
inline constexpr Field kScope = 1;     // l
inline constexpr Field kProfiles = 2;  // l, repeated
}  // namespace scope_profiles

namespace scope {
inline constexpr Field kName = 1;     // l
inline constexpr Field kVersion = 2;  // l
}  // namespace scope

namespace profile {
inline constexpr Field kSampleType = 1;         // l, ValueType
inline constexpr Field kSamples = 2;            // l, repeated
inline constexpr Field kTimeUnixNano = 3;       // f
inline constexpr Field kDurationNano = 4;       // v
inline constexpr Field kPeriodType = 5;         // l, ValueType
inline constexpr Field kPeriod = 6;             // v, int64
inline constexpr Field kProfileId = 7;          // l, 16 bytes
inline constexpr Field kAttributeIndices = 11;  // packed v
}  // namespace profile

namespace value_type {
inline constexpr Field kType = 1;  // v, string index
inline constexpr Field kUnit = 2;  // v, string index
}  // namespace value_type

namespace sample {
inline constexpr Field kStackIndex = 1;          // v
inline constexpr Field kAttributeIndices = 2;    // packed v
inline constexpr Field kLinkIndex = 3;           // v
inline constexpr Field kValues = 4;              // packed v, int64
inline constexpr Field kTimestampsUnixNano = 5;  // packed f
}  // namespace sample

namespace link {
inline constexpr Field kTraceId = 1;  // l, 16 bytes
inline constexpr Field kSpanId = 2;   // l, 8 bytes
}  // namespace link

namespace mapping {
inline constexpr Field kMemoryStart = 1;       // v
inline constexpr Field kMemoryLimit = 2;       // v
inline constexpr Field kFileOffset = 3;        // v
inline constexpr Field kFilename = 4;          // v, string index
inline constexpr Field kAttributeIndices = 5;  // packed v
}  // namespace mapping

namespace stack {
inline constexpr Field kLocationIndices = 1;  // packed v, leaf first
}

namespace location {
inline constexpr Field kMappingIndex = 1;      // v
inline constexpr Field kAddress = 2;           // v
inline constexpr Field kLines = 3;             // l, repeated; innermost inlined function first
inline constexpr Field kAttributeIndices = 4;  // packed v
}  // namespace location

namespace line {
inline constexpr Field kFunctionIndex = 1;  // v
inline constexpr Field kLine = 2;           // v
}  // namespace line

namespace function {
inline constexpr Field kName = 1;      // v, string index
inline constexpr Field kFilename = 3;  // v, string index
}  // namespace function

namespace attribute {               // KeyValueAndUnit
inline constexpr Field kKey = 1;    // v, string index
inline constexpr Field kValue = 2;  // l, AnyValue
inline constexpr Field kUnit = 3;   // v, string index
}  // namespace attribute

namespace key_value {
inline constexpr Field kKey = 1;          // l
inline constexpr Field kValue = 2;        // l, AnyValue
inline constexpr Field kKeyStrindex = 3;  // v, string index
}  // namespace key_value

namespace any_value {
inline constexpr Field kString = 1;          // l
inline constexpr Field kInt = 3;             // v, int64
inline constexpr Field kStringStrindex = 8;  // v, string index
}  // namespace any_value

}  // namespace spanfold::profile::otlp
