package abi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"weir.dev/weir/abi"
)

// TestReadme compares the contract in prose with the constants.
func TestReadme(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	var want []string
	for _, op := range abi.Ops() {
		want = append(want, fmt.Sprintf("| %d | %s |", op, op))
	}
	for s := abi.Slot(0); s < 32; s++ {
		switch {
		case s.Input():
			want = append(want, fmt.Sprintf("| %d | %s | in: ", s, s))
		case s.Output():
			want = append(want, fmt.Sprintf("| %d | %s | out: ", s, s), fmt.Sprintf("at most %d bytes", s.Limit()))
		}
	}
	for name, e := range map[string]abi.Errno{
		"EPERM": abi.EPERM, "ENOENT": abi.ENOENT, "E2BIG": abi.E2BIG, "EFAULT": abi.EFAULT, "EINVAL": abi.EINVAL, "ENOSYS": abi.ENOSYS,
	} {
		want = append(want, fmt.Sprintf("| %d | %s |", e, name))
	}
	want = append(want, abi.ErrorTypes()...)
	for _, e := range []string{abi.ExportMemory, abi.ExportInitialize, abi.ExportMarker, abi.ExportDescribe} {
		want = append(want, "| `"+e+"` |")
	}
	for _, i := range []string{abi.ImportRead + "(slot, off, buf, cap)", abi.ImportQuery + "(slot, path, path_len, buf, cap)",
		abi.ImportWrite + "(slot, ptr, len)", abi.ImportLog + "(level, ptr, len)",
		abi.ImportLookup + "(req, req_len, buf, cap)", abi.ImportAuthorize + "(req, req_len)", abi.ImportModule, abi.ReservedPrefix} {
		want = append(want, "`"+i)
	}
	want = append(want, "`"+abi.ExportInvoke+"`",
		fmt.Sprintf("# The guest contract, version %d\n", abi.Version),
		fmt.Sprintf("This is version %d: hosts that have it take modules of version %d to %d.", abi.Version, abi.OldestVersion, abi.Version),
		"`"+abi.ExportMarkerPrefix+"N`", "`"+abi.ImportModulePrefix+"N`",
		fmt.Sprintf("| path of a query | %d bytes |", abi.MaxPathBytes),
		fmt.Sprintf("| log line | %d bytes", abi.MaxLogLineBytes),
		fmt.Sprintf("| log of one call | %d bytes and %d lines", abi.MaxLogBytes, abi.MaxLogLines),
		fmt.Sprintf("| request of a look-up | %d bytes |", abi.MaxLookupRequestBytes),
		fmt.Sprintf("| answer of a look-up | %d bytes and %d objects |", abi.MaxLookupBytes, abi.MaxLookupItems),
		fmt.Sprintf("| look-ups of one call | %d |", abi.MaxLookups),
		fmt.Sprintf("| objects that the look-ups of one call go through | %d |", abi.MaxLookupRows),
		fmt.Sprintf("| request of authorize | %d bytes |", abi.MaxAuthorizeRequestBytes),
		fmt.Sprintf("| calls of authorize in one call | %d |", abi.MaxAuthorize),
		"`"+abi.LookupCapability("", "<resource>")+"`", "`"+abi.LookupCapability("<group>", "<resource>")+"`", "| `"+abi.CapabilityAuthorize+"` |",
		fmt.Sprintf("%d debug, %d info, %d warn, %d error", abi.LogDebug, abi.LogInfo, abi.LogWarn, abi.LogError),
		fmt.Sprintf("| %d | OK:", abi.StatusOK), fmt.Sprintf("| %d | unimplemented:", abi.StatusUnimplemented), fmt.Sprintf("| %d | failed:", abi.StatusFailed))
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("README.md does not say %q", w)
		}
	}
}

// TestReadmeDocuments decodes the examples strictly, and checks that they
// name every member there is.
func TestReadmeDocuments(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(raw), -1)
	types := []any{&abi.Manifest{}, &abi.Meta{}, &abi.Result{}, &abi.LookupRequest{}, &abi.LookupResult{}, &abi.AuthorizeRequest{}}
	if len(blocks) != len(types) {
		t.Fatalf("%d examples, want %d", len(blocks), len(types))
	}
	for i, b := range blocks {
		d := json.NewDecoder(strings.NewReader(b[1]))
		d.DisallowUnknownFields()
		if err := d.Decode(types[i]); err != nil {
			t.Errorf("%T: %v", types[i], err)
		}
		typ := reflect.TypeOf(types[i]).Elem()
		for j := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(j).Tag.Get("json"), ",")
			if !strings.Contains(b[1], `"`+name+`"`) {
				t.Errorf("the example of %v has no %s", typ, name)
			}
		}
	}
}
