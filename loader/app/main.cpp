// SPDX-License-Identifier: Apache-2.0
// spanfold: which code ran inside a trace span. Picks the command; everything else is in the rooms.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "app/commands.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return spanfold::app::run_command(words);
}
