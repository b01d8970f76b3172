// SPDX-License-Identifier: Apache-2.0
// A Go program that encodes, decodes, grows stacks, panics, collects garbage and is interrupted.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"
)

type item struct {
	ID   int               `json:"id"`
	Name string            `json:"name"`
	Tags map[string]string `json:"tags"`
	Sub  []item            `json:"sub,omitempty"`
}

func build(d int) item {
	it := item{ID: d, Name: fmt.Sprintf("item-%d", d), Tags: map[string]string{"a": "b", "c": fmt.Sprint(d)}}
	if d > 0 {
		it.Sub = append(it.Sub, build(d-1), build(d-1))
	}
	return it
}

//go:noinline
func deep(n int) int {
	var pad [128]byte
	pad[n&127] = byte(n)
	if n == 0 {
		return 1
	}
	return deep(n-1) + int(pad[n&127])
}

func panics(n int) (r int) {
	defer func() {
		if e := recover(); e != nil {
			r = n
		}
	}()
	var m []int
	return m[n]
}

func work(id int, wg *sync.WaitGroup, ch chan int) {
	re := regexp.MustCompile(`([a-z]+)-(\d+)`)
	for i := 0; ; i++ {
		b, _ := json.Marshal(build(4))
		var it item
		if err := json.Unmarshal(b, &it); err != nil {
			panic(err)
		}
		re.ReplaceAllString(it.Name, "$2$1")
		var buf bytes.Buffer
		if i%20 == 0 {
			z := gzip.NewWriter(&buf)
			z.Write(b)
			z.Close()
		}
		words := strings.Fields(strings.Repeat("the quick brown fox ", 20))
		sort.Strings(words)
		go func() { ch <- deep(60) }()
		<-ch
		panics(i)
		if i%50 == 0 {
			runtime.GC()
			os.ReadFile("/proc/self/stat")
			time.Sleep(time.Millisecond)
		}
	}
}

func main() {
	var wg sync.WaitGroup
	for i := 0; i < 3; i++ {
		go work(i, &wg, make(chan int))
	}
	select {}
}
