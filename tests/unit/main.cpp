// SPDX-License-Identifier: Apache-2.0
// The test runner's main, for unit and BPF tests alike.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
