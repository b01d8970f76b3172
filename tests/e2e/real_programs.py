# SPDX-License-Identifier: Apache-2.0
"""Programs in languages that are compiled before they run. Like those of jit_worker.py, each reads lines from standard
input: the name of a function and how many units of work to do in it, each about a millisecond; and answers `done`."""

CPP = """
#include <algorithm>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>
namespace shop {
struct Item { int price; std::string name; };
namespace { __attribute__((noinline)) long noise(long n) { long s = n; while (n-- > 0) s = s * 31 + n; asm volatile("" : "+r"(s)); return s; } }
struct Priced { virtual ~Priced() = default; virtual long price(const std::vector<Item>&) = 0; };
struct Plain : Priced {
  __attribute__((noinline)) long price(const std::vector<Item>& items) override {
    long s = 0;
    for (const Item& item : items) {
      for (int i = 0; i < 40; ++i) {
        s = s * 31 + item.price;
        asm volatile("" : "+r"(s));
      }
      s += noise(2);  // who calls has a frame of its own
    }
    return s;
  }
};
template <typename Key, int Step> __attribute__((noinline)) long tally(std::map<Key, long>& counts, Key key) {
  for (int i = 0; i < 40; i += Step) counts[key] += noise(i);
  return counts[key] + 1;
}
// Overloads: names alone do not tell them apart.
__attribute__((noinline)) long alpha(long n) {
  static std::vector<Item> items(60, Item{3, "x"});
  Plain plain;
  Priced* priced = &plain;
  asm volatile("" : "+r"(priced));
  long s = 0;
  for (long i = 0; i < n; ++i) s += priced->price(items);
  return s + 1;
}
__attribute__((noinline)) long alpha(int n, const std::string& name) { return alpha(long(n)) + long(name.size()); }
__attribute__((noinline)) long beta(long n) {
  static std::map<std::string, long> counts;
  std::function<long(std::string)> count = [](std::string key) { return tally<std::string, 2>(counts, key) + 1; };
  long s = 0;
  for (long i = 0; i < n; ++i) s += count(i % 3 ? "one" : "two");
  return s + 1;
}
}  // namespace shop
int main() {
  char name[64];
  int units = 0;
  while (std::scanf("%63s %d", name, &units) == 2) {
    for (int i = 0; i < units; ++i) name[0] == 'a' ? shop::alpha(200, std::string("x")) : shop::beta(600);
    std::puts("done");
    std::fflush(stdout);
  }
}
"""

RUST = """
use std::collections::HashMap;
use std::hint::black_box;
use std::io::{self, BufRead, Write};

trait Shape { fn area(&self, n: u64) -> u64; }
struct Square { side: u64 }
impl Shape for Square {
    #[inline(never)]
    fn area(&self, n: u64) -> u64 { let mut s = self.side; for i in 0..n { s = black_box(s * 31 + i); } s }
}
mod shapes {
    #[inline(never)]
    pub fn total<T, F: Fn(&T) -> u64>(items: &[T], size: F) -> u64 { items.iter().map(|item| size(item)).sum() }
}
#[inline(never)]
fn alpha(n: u64) -> u64 {
    let squares: Vec<Square> = (0..20).map(|side| Square { side }).collect();
    let mut s = 0;
    for _ in 0..n { s += black_box(shapes::total(&squares, #[inline(never)] |each| each.area(50))); }
    s
}
#[inline(never)]
fn count(counts: &mut HashMap<String, u64>, key: u64) { *counts.entry(key.to_string()).or_insert(0) += key; }
#[inline(never)]
fn beta(n: u64) -> u64 {
    let mut counts = HashMap::new();
    for i in 0..n { count(&mut counts, black_box(i % 100)); }
    counts.len() as u64
}
fn main() {
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let (name, units) = line.split_once(' ').unwrap();
        for _ in 0..units.parse::<u64>().unwrap() {
            if name == "alpha" { black_box(alpha(300)); } else { black_box(beta(8000)); }
        }
        println!("done");
        io::stdout().flush().unwrap();
    }
}
"""

GO = """package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"sort"
)

type shape interface{ area(n int) float64 }
type square struct{ side float64 }

//go:noinline
func (s *square) area(n int) float64 {
	sum := s.side
	for i := 0; i < n; i++ {
		sum = sum*1.0001 + float64(i)
	}
	return sum
}

//go:noinline
func total[T any](items []T, size func(T) float64) (sum float64) {
	for _, item := range items {
		sum += size(item)
	}
	return
}

var kept float64

//go:noinline
func alpha(n int) {
	shapes := []shape{&square{1}, &square{2}, &square{3}}
	for i := 0; i < n; i++ {
		kept += total(shapes, func(s shape) float64 { return s.area(60) })
	}
}

//go:noinline
func beta(n int) {
	for i := 0; i < n; i++ {
		numbers := make([]int, 200)
		counts := map[string]int{}
		for j := range numbers {
			numbers[j] = (j * 7919) % 211
			counts[string(rune('a'+j%26))] += j
		}
		sort.Slice(numbers, func(a, b int) bool { return numbers[a] < numbers[b] })
		kept += float64(numbers[0] + len(counts))
	}
}

func main() {
	runtime.LockOSThread() // spans belong to threads
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var name string
		var units int
		fmt.Sscan(lines.Text(), &name, &units)
		for i := 0; i < units; i++ {
			if name == "alpha" {
				alpha(4000)
			} else {
				beta(40)
			}
		}
		fmt.Println("done")
	}
}
"""
