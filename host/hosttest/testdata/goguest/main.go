//go:build wasip1

// Command goguest is a guest of the standard Go toolchain without any SDK.
package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"strings"
	"time"
	"unsafe"

	"weir.dev/weir/abi"
)

//go:wasmimport weir.v1 read
func read(slot, off int32, buf unsafe.Pointer, size int32) int32

//go:wasmimport weir.v1 query
func query(slot int32, path unsafe.Pointer, n int32, buf unsafe.Pointer, size int32) int32

//go:wasmimport weir.v1 write
func write(slot int32, ptr unsafe.Pointer, n int32) int32

//go:wasmexport weir_abi_v1
func marker() {}

//go:wasmexport weir_describe
func describe() int32 {
	return put(abi.SlotManifest, abi.Manifest{
		Name:    "goguest",
		Version: "1.0.0",
		Hooks:   []string{"configure", "prepareForCreate", "validateCreate", "validateUpdate"},
	})
}

var (
	buf      = make([]byte, 64<<10)
	calls    int
	settings struct{ Limit int }
)

type object struct {
	Metadata struct{ Name string } `json:"metadata"`
	Spec     struct {
		Replicas int64  `json:"replicas"`
		Sin      string `json:"sin"`
	} `json:"spec"`
}

//go:wasmexport weir_invoke
func invoke(op int32) int32 {
	calls++
	switch abi.Op(op) {
	case abi.OpConfigure:
		_ = json.Unmarshal(slot(abi.SlotSettings), &settings)
		return 0
	case abi.OpPrepareForCreate:
		var o map[string]any
		if err := json.Unmarshal(slot(abi.SlotObject), &o); err != nil {
			return failed(err)
		}
		o["status"] = map[string]any{"generation": 1}
		return put(abi.SlotObjectOut, o)
	case abi.OpValidateUpdate:
		return sin()
	}
	var o object
	if err := json.Unmarshal(slot(abi.SlotObject), &o); err != nil {
		return failed(err)
	}
	var res abi.Result
	res.Audit = map[string]string{"calls": fmt.Sprint(calls)}
	if o.Spec.Replicas > int64(settings.Limit) {
		res.Errors = append(res.Errors, abi.FieldError{
			Type: abi.ErrorTypeInvalid, Field: "spec.replicas", Value: abi.RawJSON(fmt.Sprint(o.Spec.Replicas)),
			Detail: fmt.Sprintf("must not exceed %d", settings.Limit),
		})
	}
	return put(abi.SlotResult, res)
}

// sin does what the object asks for.
func sin() int32 {
	path := "spec.sin"
	n := query(int32(abi.SlotObject), unsafe.Pointer(unsafe.StringData(path)), int32(len(path)), unsafe.Pointer(&buf[0]), int32(len(buf)))
	if n < 0 {
		return failed(abi.Errno(-n))
	}
	var name string
	_ = json.Unmarshal(buf[:n], &name)
	switch name {
	case "panic":
		panic("boom")
	case "loop":
		for {
		}
	case "recurse":
		return recurse(1)
	case "grow":
		var all [][]byte
		for {
			b := make([]byte, 1<<20)
			b[0] = byte(len(all))
			all = append(all, b)
		}
	case "exit":
		os.Exit(3)
	case "deadlock":
		select {}
	case "time":
		before := time.Now()
		time.Sleep(time.Hour)
		done := make(chan time.Duration)
		go func() { time.Sleep(time.Minute); done <- time.Since(before) }()
		return put(abi.SlotResult, abi.Result{Audit: map[string]string{
			"time": before.UTC().Format(time.RFC3339Nano), "slept": (<-done).String(), "random": fmt.Sprint(rand.Int63()),
		}})
	case "deep":
		return put(abi.SlotResult, abi.Result{Warnings: []string{strings.Repeat("x", int(nested(800)))}})
	case "log":
		for range 1000 {
			fmt.Println("a line of the log that is not long")
		}
		return 0
	}
	return failed(fmt.Errorf("no such sin %q", name))
}

//go:noinline
func recurse(n int32) int32 { return recurse(n+1) + 1 }

//go:noinline
func nested(n int32) int32 {
	if n == 0 {
		return 0
	}
	return nested(n-1) + 1
}

func slot(s abi.Slot) []byte {
	n := read(int32(s), 0, unsafe.Pointer(&buf[0]), int32(len(buf)))
	if int(n) > len(buf) {
		buf = make([]byte, n)
		n = read(int32(s), 0, unsafe.Pointer(&buf[0]), int32(len(buf)))
	}
	return buf[:max(n, 0)]
}

func put(s abi.Slot, v any) int32 {
	b, err := json.Marshal(v)
	if err != nil {
		return int32(abi.StatusFailed)
	}
	write(int32(s), unsafe.Pointer(unsafe.SliceData(b)), int32(len(b)))
	return int32(abi.StatusOK)
}

func failed(err error) int32 {
	put(abi.SlotResult, abi.Result{Failure: err.Error()})
	return int32(abi.StatusFailed)
}

func main() {}
