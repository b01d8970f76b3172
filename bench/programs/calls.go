// SPDX-License-Identifier: Apache-2.0
// A Go program that calls C, which calls back.
package main

/*
#include <stdlib.h>
#include <string.h>
extern int goCompare(void*, void*);
extern long goWork(long);
static int compare(const void* a, const void* b) { return goCompare((void*)a, (void*)b); }
static long spin(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
static void sort(int* p, long n) { qsort(p, n, sizeof *p, compare); }
static long call(long depth) { char pad[64]; memset(pad, (int)depth, sizeof pad); if (depth == 0) return goWork(200) + pad[3]; return call(depth - 1) + pad[5]; }
static long spin_out(long n) { return spin(n) + 1; }
*/
import "C"
import "unsafe"

//export goCompare
func goCompare(a, b unsafe.Pointer) C.int {
	return *(*C.int)(a) - *(*C.int)(b)
}

//go:noinline
func inner(n int) int {
	s := 0
	for i := 0; i < n*100; i++ {
		s += i ^ s
	}
	return s + int(C.spin_out(1000))
}

//export goWork
func goWork(n C.long) C.long { return C.long(inner(int(n))) }

func work() {
	numbers := make([]C.int, 500)
	for i := 1; ; i++ {
		for k := range numbers {
			numbers[k] = C.int((k * 7919 * i) % 1009)
		}
		C.sort(&numbers[0], C.long(len(numbers)))
		for k := 0; k < 20; k++ {
			C.call(C.long(k))
		}
		C.spin_out(10000)
	}
}

func main() {
	go work()
	work()
}
