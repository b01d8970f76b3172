// SPDX-License-Identifier: Apache-2.0
// Sorting, exceptions, regular expressions, recursion, and functions that end in calls of one another.
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>

#include "mixed.h"
double sort_some(unsigned seed, int n) {
  std::vector<std::string> words;
  std::map<std::string, int> counts;
  for (int i = 0; i < n; ++i) {
    seed = seed * 1664525 + 1013904223;
    words.push_back(std::to_string(seed));
  }
  std::sort(words.begin(), words.end(),
            [](const auto& a, const auto& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; });
  for (const auto& w : words) ++counts[w.substr(0, 2)];
  std::function<int(int)> f = [&](int k) { return k + int(counts.size()); };
  return f(int(words.size()));
}
int parse(const std::string& t, std::size_t& at) {
  if (at >= t.size()) throw std::runtime_error("end");
  if (t[at] == '(') {
    ++at;
    int s = 0;
    while (t[at] != ')') s += parse(t, at);
    ++at;
    return s;
  }
  return t[at++] - '0';
}
__attribute__((noinline)) static double deep_throw(int n) {
  if (n == 0) throw std::runtime_error("deep");
  return deep_throw(n - 1) + 1;
}
double throws_sometimes(int n) {
  double s = 0;
  for (int i = 0; i < n; ++i) {
    try {
      s += deep_throw(10);
    } catch (const std::exception& e) {
      s += e.what()[0];
    }
  }
  return s;
}
std::string regex_some(int n) {
  std::regex r("([a-z]+)([0-9]+)");
  std::string s;
  for (int i = 0; i < n; ++i) s = std::regex_replace("abc123 def456 ghi789", r, "$2-$1");
  std::ostringstream o;
  o << s << n << 1.5;
  return o.str();
}
double recurse(int d, double x) {
  if (d == 0) return x;
  return recurse(d - 1, x * 1.01) + recurse(d - 2 < 0 ? 0 : d - 2, x) * 0.5;
}
long tail_b(long n, long s);
__attribute__((noinline)) long tail_a(long n, long s) {
  if (n <= 0) return s;
  return tail_b(n - 1, s * 3);
}
__attribute__((noinline)) long tail_b(long n, long s) {
  if (n <= 0) return s;
  return tail_a(n - 1, s + n);
}
