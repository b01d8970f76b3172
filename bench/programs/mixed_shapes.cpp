// SPDX-License-Identifier: Apache-2.0
// Virtual functions, alloca, realigned frames, and libm below them.
#include <alloca.h>

#include <cmath>
#include <cstring>

#include "mixed.h"
struct Square : Shape {
  double area(int n) const override {
    double s = 0;
    for (int i = 0; i < n; ++i) s += std::sin(i) * s + std::pow(1.0001, i);
    return s;
  }
  std::string name() const override { return "square"; }
};
struct Circle : Shape {
  double area(int n) const override {
    auto* p = static_cast<double*>(alloca(sizeof(double) * n));
    for (int i = 0; i < n; ++i) p[i] = std::exp(-i);
    double s = 0;
    for (int i = 0; i < n; ++i) s += p[i] * std::log(i + 1.0);
    return s;
  }
  std::string name() const override { return "a circle with a long name that goes to the heap"; }
};
struct Wide : Shape {
  __attribute__((noinline)) double area(int n) const override {
    alignas(64) volatile double w[32];
    for (int i = 0; i < 32; ++i) w[i] = i;
    double s = 0;
    for (int i = 0; i < n; ++i) s += w[i & 31] * std::cbrt(i);
    return s;
  }
  std::string name() const override {
    char b[64];
    snprintf(b, sizeof b, "%d %s %f", 3, "wide", 2.5);
    return b;
  }
};
Shape* make_shape(int kind) {
  if (kind % 3 == 0) return new Square;
  if (kind % 3 == 1) return new Circle;
  return new Wide;
}
