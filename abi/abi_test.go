package abi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/abi"
)

func TestOps(t *testing.T) {
	var all abi.OpSet
	for _, op := range abi.Ops() {
		if got, ok := abi.ParseOp(op.String()); !ok || got != op {
			t.Errorf("ParseOp(%q) = %v, %v", op.String(), got, ok)
		}
		if all.Has(op) {
			t.Errorf("%v twice", op)
		}
		all = all.With(op)
		if !all.Has(op) {
			t.Errorf("%v was not added", op)
		}
		if op.AcceptsPatch() && !op.Mutates() {
			t.Errorf("%v is patched and does not mutate", op)
		}
	}
	for _, op := range []abi.Op{-1, 0, 17, 1000} {
		if op.Valid() || all.With(op) != all || all.Has(op) || op.String() != "unknown" {
			t.Errorf("op %d exists", op)
		}
	}
	if _, ok := abi.ParseOp("unknown"); ok {
		t.Error("unknown is an op")
	}
}

// TestNamesOfTheVersion: the marker and the module of imports are those of the
// version, and the one before is taken too, once there is one.
func TestNamesOfTheVersion(t *testing.T) {
	if want := fmt.Sprint(abi.ExportMarkerPrefix, abi.Version); abi.ExportMarker != want {
		t.Errorf("the marker is %s, want %s", abi.ExportMarker, want)
	}
	if want := fmt.Sprint(abi.ImportModulePrefix, abi.Version); abi.ImportModule != want {
		t.Errorf("imports are of %s, want %s", abi.ImportModule, want)
	}
	if abi.OldestVersion < 1 || abi.OldestVersion > abi.Version || abi.Version > 1 && abi.OldestVersion != abi.Version-1 {
		t.Errorf("a host of version %d takes them from %d on", abi.Version, abi.OldestVersion)
	}
}

func TestManifestOpSet(t *testing.T) {
	m := abi.Manifest{Hooks: []string{"default", "levitate", "convert"}}
	set, unknown := m.OpSet()
	if unknown != "levitate" || !set.Has(abi.OpDefault) || !set.Has(abi.OpConvert) || set.Has(abi.OpConfigure) {
		t.Errorf("OpSet() = %b, %q", set, unknown)
	}
}

func TestErrorTypesAreUpstreams(t *testing.T) {
	upstream := []field.ErrorType{
		field.ErrorTypeNotFound, field.ErrorTypeRequired, field.ErrorTypeDuplicate, field.ErrorTypeInvalid,
		field.ErrorTypeNotSupported, field.ErrorTypeForbidden, field.ErrorTypeTooLong, field.ErrorTypeTooMany,
		field.ErrorTypeTooFew, field.ErrorTypeTooShort, field.ErrorTypeInternal, field.ErrorTypeTypeInvalid,
	}
	ours := abi.ErrorTypes()
	if len(ours) != len(upstream) {
		t.Fatalf("%d types, upstream has %d", len(ours), len(upstream))
	}
	for _, e := range upstream {
		if !slices.Contains(ours, string(e)) {
			t.Errorf("%s is missing", e)
		}
	}
}

func ExampleResult() {
	r := abi.Result{Errors: []abi.FieldError{{
		Type: abi.ErrorTypeInvalid, Field: "spec.replicas", Value: abi.RawJSON("-1"), Detail: "must be at least 0",
	}}}
	b, err := json.Marshal(r)
	fmt.Println(string(b), err)
	// Output: {"errors":[{"type":"FieldValueInvalid","field":"spec.replicas","value":-1,"detail":"must be at least 0"}]} <nil>
}
