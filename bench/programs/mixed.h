// SPDX-License-Identifier: Apache-2.0
// Parts of mixed.cpp that lie in files of their own, so that calls between them stay calls.
#pragma once
#include <string>
#include <vector>
struct Shape {
  virtual ~Shape() = default;
  virtual double area(int n) const = 0;
  virtual std::string name() const = 0;
};
Shape* make_shape(int kind);
double sort_some(unsigned seed, int n);
int parse(const std::string& text, std::size_t& at);
double throws_sometimes(int n);
std::string regex_some(int n);
double recurse(int depth, double x);
long tail_a(long n, long s);
