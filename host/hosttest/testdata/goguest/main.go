//go:build wasip1

// Command goguest is a guest of the standard Go toolchain without any SDK.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
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
	counted  int
	settings struct {
		Limit    int64
		Greeting string
	}
)

type object struct {
	Metadata struct{ Name string } `json:"metadata"`
	Spec     struct {
		Replicas int64  `json:"replicas"`
		Case     string `json:"case"`
		Filler   string `json:"filler"`
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
		return prepare()
	case abi.OpValidateUpdate:
		if ask(abi.SlotObject, "spec.sin") != "" {
			return sin()
		}
	}
	var o object
	if err := json.Unmarshal(slot(abi.SlotObject), &o); err != nil {
		return failed(err)
	}
	if o.Spec.Case != "" {
		return clause(o)
	}
	var res abi.Result
	res.Audit = map[string]string{"calls": fmt.Sprint(calls)}
	if o.Spec.Replicas > settings.Limit {
		res.Errors = append(res.Errors, abi.FieldError{
			Type: abi.ErrorTypeInvalid, Field: "spec.replicas", Value: abi.RawJSON(fmt.Sprint(o.Spec.Replicas)),
			Detail: fmt.Sprintf("must not exceed %d", settings.Limit),
		})
	}
	return put(abi.SlotResult, res)
}

func prepare() int32 {
	d := json.NewDecoder(bytes.NewReader(slot(abi.SlotObject)))
	d.UseNumber()
	var o map[string]any
	if err := d.Decode(&o); err != nil {
		return failed(err)
	}
	switch ask(abi.SlotObject, "spec.case") {
	case "mutate":
		o["spec"].(map[string]any)["mutated"] = true
	case "":
		o["status"] = map[string]any{"generation": 1}
	default:
		return 0
	}
	return put(abi.SlotObjectOut, o)
}

// clause does what package abitest asks for.
func clause(o object) int32 {
	warn := func(texts ...string) int32 { return put(abi.SlotResult, abi.Result{Warnings: texts}) }
	switch o.Spec.Case {
	case "errors":
		return put(abi.SlotResult, abi.Result{Errors: []abi.FieldError{
			{Type: abi.ErrorTypeInvalid, Field: "spec.case", Value: abi.RawJSON(`"errors"`), Detail: "asked for"},
			{Type: abi.ErrorTypeRequired, Field: "spec.other"},
		}})
	case "denied":
		return put(abi.SlotResult, abi.Result{Denied: &abi.Denial{Code: 409, Reason: "Conflict", Message: "asked for"}})
	case "warnings":
		return warn("one", "zwei €")
	case "audit":
		return put(abi.SlotResult, abi.Result{Audit: map[string]string{"key": "value"}})
	case "settings":
		return warn(settings.Greeting)
	case "meta":
		var m abi.Meta
		if err := json.Unmarshal(slot(abi.SlotMeta), &m); err != nil {
			return failed(err)
		}
		return warn(m.UID, string(m.Operation), m.Time, m.Name, m.User.Username)
	case "old":
		return warn(ask(abi.SlotOldObject, "spec.case"))
	case "large":
		return warn(fmt.Sprint(len(o.Spec.Filler)))
	case "count":
		counted++
		return warn(fmt.Sprint(counted - 1))
	case "fail":
		return failed(errors.New("asked for"))
	case "trap":
		panic("asked for")
	}
	return 0
}

// ask queries a string; one that is absent is empty.
func ask(s abi.Slot, path string) string {
	n := query(int32(s), unsafe.Pointer(unsafe.StringData(path)), int32(len(path)), unsafe.Pointer(&buf[0]), int32(len(buf)))
	var text string
	if n > 0 {
		_ = json.Unmarshal(buf[:n], &text)
	}
	return text
}

// sin does what the object asks for.
func sin() int32 {
	name := ask(abi.SlotObject, "spec.sin")
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
