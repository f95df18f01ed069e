package loader_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/host"
)

// Contract 3: a change that fails to fetch, verify, compile or pass its tests never replaces what works.
func TestRefusedModuleLeavesTheLastKnownGood(t *testing.T) {
	f := start(t)
	good := host.Digest(stamp("v001"))
	f.ready(t, modules, module("stamp", inline(stamp("v001"))))
	f.ready(t, strategies, onConfigMaps(calls("stamp")))
	dir, err := f.ModuleDir()
	if err != nil {
		t.Fatal(err)
	}
	large := filepath.Join(dir, "large.wasm")
	if err := os.WriteFile(large, append([]byte("\x00asm\x01\x00\x00\x00"), make([]byte, 9<<20)...), 0o600); err != nil {
		t.Fatal(err)
	}
	text := configMap("text", "(module)")
	if _, err := f.client.Resource(configMaps).Namespace("default").Create(t.Context(), text, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		source map[string]any
		more   map[string]any
		// step is the condition that is false, "" for none but Ready.
		step, reason string
		message      string
	}{
		{"broken bytes", map[string]any{"inline": base64.StdEncoding.EncodeToString([]byte("#!/bin/sh"))}, nil,
			"Compiled", "CompileFailed", "compile: module[stamp]: refused: not a wasm module"},
		{"wrong digest", map[string]any{"inline": base64.StdEncoding.EncodeToString(stamp("v002")), "digest": good}, nil,
			"Verified", "DigestMismatch", "verify: digest mismatch: the source has digest " + host.Digest(stamp("v002")) + ", " + good + " is wanted"},
		{"failing tests", inline(stamp("v002")), map[string]any{"tests": []any{
			map[string]any{"name": "unstamped", "hook": "validateCreate", "object": map[string]any{"data": map[string]any{"v": "v001"}}},
			map[string]any{"name": "absent", "hook": "validateDelete", "object": map[string]any{}},
		}}, "", "", `2 of 2 tests failed: test "unstamped": refused: data.v: was stamped by another version than v002; test "absent": the module does not implement hook "validateDelete"`},
		{"missing file", map[string]any{"file": "absent.wasm"}, nil,
			"Fetched", "FetchFailed", "(--module-dir): absent.wasm: no such file or directory"},
		{"large file", map[string]any{"file": "large.wasm"}, nil,
			"Compiled", "CompileFailed", "module of 9437192 bytes, more than 8388608"},
		{"missing ConfigMap", map[string]any{"configMapRef": map[string]any{"namespace": "default", "name": "absent", "key": "wasm"}}, nil,
			"Fetched", "FetchFailed", `fetch: configmaps "default/absent" not found`},
		{"missing key", map[string]any{"configMapRef": map[string]any{"namespace": "default", "name": "text", "key": "wasm"}}, nil,
			"Fetched", "FetchFailed", `fetch: configmap default/text has no key "wasm" in binaryData`},
		{"key of data", map[string]any{"configMapRef": map[string]any{"namespace": "default", "name": "text", "key": "v"}}, nil,
			"Fetched", "FetchFailed", `fetch: configmap default/text has key "v" in data: a module is binary, put it in binaryData`},
	}
	refused := 0.0
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f.put(t, modules, module("stamp", tc.source, tc.more))
			got := f.settled(t, modules, "stamp")
			if c := condition(got, "Ready"); c.Reason != "LastKnownGood" || !strings.Contains(c.Message, good+" stays in force: ") || !strings.Contains(c.Message, tc.message) {
				t.Errorf("Ready is %+v, want the message %q", c, tc.message)
			}
			if text, _, _ := unstructured.NestedString(got.Object, "status", "lastError"); !strings.Contains(text, tc.message) {
				t.Errorf("status.lastError is %q", text)
			}
			if digest, _, _ := unstructured.NestedString(got.Object, "status", "digest"); digest != good {
				t.Errorf("status.digest is %s, want %s", digest, good)
			}
			reached := true
			for _, kind := range []string{"Fetched", "Verified", "Compiled"} {
				c, want := condition(got, kind), metav1.ConditionTrue
				switch {
				case kind == tc.step:
					want, reached = metav1.ConditionFalse, false
					if c.Reason != tc.reason || !strings.Contains(c.Message, tc.message) {
						t.Errorf("%s is %+v", kind, c)
					}
				case !reached:
					want = metav1.ConditionUnknown
				}
				if c.Status != want {
					t.Errorf("%s is %s, want %s", kind, c.Status, want)
				}
			}
			refused++
			if n := f.metric(t, `weir_configuration_loads_total{kind="Module",result="refused"}`); n != refused {
				t.Errorf("%v loads were refused, want %v", n, refused)
			}
			e := f.event(t, "Module", "stamp", tc.message)
			for path, want := range map[string]string{"type": "Warning", "reason": "Refused", "involvedObject.apiVersion": "weir.dev/v1alpha1", "involvedObject.uid": string(got.GetUID())} {
				if v, _, _ := unstructured.NestedString(e.Object, strings.Split(path, ".")...); v != want {
					t.Errorf("%s of the event is %q, want %q", path, v, want)
				}
			}
			if v := f.serves(t); v != "v001" {
				t.Errorf("%q serves, want v001", v)
			}
		})
	}
	f.ready(t, modules, module("stamp", inline(stamp("v003"))))
	if v := f.serves(t); v != "v003" {
		t.Errorf("%q serves when the module is mended, want v003", v)
	}
	got, err := f.client.Resource(modules).Get(t.Context(), "stamp", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text, found, _ := unstructured.NestedString(got.Object, "status", "lastError"); found && text != "" {
		t.Errorf("status.lastError is still %q", text)
	}
}

// A module that never was good is refused, and nothing is in force.
func TestRefusedFirstModule(t *testing.T) {
	f := start(t)
	f.put(t, modules, module("stamp", map[string]any{"inline": base64.StdEncoding.EncodeToString([]byte("\x00asm"))}))
	f.put(t, strategies, onConfigMaps(calls("stamp")))
	if c := condition(f.settled(t, modules, "stamp"), "Ready"); c.Reason != "Refused" {
		t.Errorf("Ready is %+v", c)
	}
	if c := condition(f.settled(t, strategies, "configmaps"), "Ready"); c.Reason != "Refused" || !strings.Contains(c.Message, "module[stamp] is not ready: compile: ") {
		t.Errorf("Ready of the strategy is %+v", c)
	}
	if v := f.serves(t); v != "" {
		t.Errorf("%q serves", v)
	}
}

// A new version of a module may refuse the settings of a strategy, which then keeps the old version.
func TestModuleThatRefusesSettingsInUse(t *testing.T) {
	f := start(t)
	f.ready(t, modules, module("sayer", inline(stamp("v001")))) // has no settings to refuse
	f.ready(t, strategies, onConfigMaps(callsWith("sayer", map[string]any{"bad": true})))
	if v := f.serves(t); v != "v001" {
		t.Fatalf("%q serves, want v001", v)
	}
	f.ready(t, modules, module("sayer", inline(sayer())))
	got := f.until(t, f.client.Resource(strategies), "configmaps", func(obj *unstructured.Unstructured) bool {
		return condition(obj, "Ready").Status == metav1.ConditionFalse
	})
	if c := condition(got, "Ready"); c.Reason != "LastKnownGood" || !strings.Contains(c.Message, "these settings are bad") {
		t.Errorf("Ready is %+v", c)
	}
	if v := f.serves(t); v != "v001" {
		t.Errorf("%q serves, want v001", v)
	}
	f.event(t, "Strategy", "configmaps", "these settings are bad")
}

func TestEventsAreBounded(t *testing.T) {
	f := start(t)
	began := time.Now()
	for i := range 30 {
		patch := fmt.Sprintf(`{"spec":{"source":{"inline":%q}}}`, base64.StdEncoding.EncodeToString([]byte{'x', byte(i)}))
		if i == 0 {
			f.put(t, modules, module("broken", inline([]byte("x"))))
		} else if _, err := f.client.Resource(modules).Patch(t.Context(), "broken", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		f.settled(t, modules, "broken")
	}
	e := f.event(t, "Module", "broken", "not a wasm module")
	most := 11 + int64(time.Since(began)/(30*time.Second)) // ten at once, then one in half a minute
	if n, _, _ := unstructured.NestedInt64(e.Object, "count"); n < 2 || n > most {
		t.Errorf("the event was counted %d times, want 2 to %d", n, most)
	}
	list, err := f.client.Resource(events).Namespace("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 1 {
		t.Errorf("%d events, want 1", len(list.Items))
	}
}
