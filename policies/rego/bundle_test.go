package rego

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

type entry struct {
	name, text string
	kind       byte
}

func pack(t *testing.T, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Size: int64(len(e.text)), Mode: 0o600, Typeflag: e.kind}
		if e.kind == tar.TypeSymlink {
			h.Linkname, h.Size = e.text, 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := w.Write([]byte(e.text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestBundle(t *testing.T) {
	packed := pack(t,
		entry{".manifest", `{"revision":"r1","roots":["team","limits"]}`, tar.TypeReg},
		entry{"/team/policy.rego", "package team\ndeny contains sprintf(\"over %d\", [data.limits.replicas.max]) if input.object.spec.replicas > data.limits.replicas.max", tar.TypeReg},
		entry{"team/policy_test.rego", "package team\ntest_it if true", tar.TypeReg},
		entry{"limits", "", tar.TypeDir},
		entry{"limits/data.json", `{"replicas":{"max":5},"other":1}`, tar.TypeReg},
		entry{"./policy.wasm", "\x00asm", tar.TypeReg},
	)
	b, err := ReadBundle(packed, "")
	if err != nil {
		t.Fatal(err)
	}
	if b.Revision != "r1" || len(b.Modules) != 1 || string(b.Data.Bytes()) != `{"limits":{"other":1,"replicas":{"max":5}}}` {
		t.Errorf("got %+v, %s", b, b.Data.Bytes())
	}
	if _, err := ReadBundle(packed, b.Digest); err != nil {
		t.Error(err)
	}
	p, err := newEngine(t, Config{}).Compile(b.Source("spec.rego.bundle", "team"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.Judge(t.Context(), review(t, `{"spec":{"replicas":6}}`))
	if err != nil || render(d) != "over 5" {
		t.Errorf("got %v, %v", d, err)
	}
}

func TestBundleRefuses(t *testing.T) {
	module := entry{"a.rego", "package a\ndeny contains \"m\"", tar.TypeReg}
	many := make([]entry, 0, maxBundleFiles+1)
	for i := range maxBundleFiles + 1 {
		many = append(many, entry{strings.Repeat("a", i/50+1) + "/" + strings.Repeat("b", i%50+1) + ".rego", "", tar.TypeReg})
	}
	tests := []struct {
		name   string
		packed []byte
		digest string
		want   string
	}{
		{"digest", pack(t, module), "sha256:00", "bundle: digest is sha256:"},
		{"no archive", []byte("text"), "", "bundle: not a tar.gz: "},
		{"cut off", pack(t, module)[:40], "", "bundle: not a tar.gz: "},
		{"too large", make([]byte, maxBundleBytes+1), "", "bundle: 4194305 bytes are more than 4194304"},
		{"parent", pack(t, entry{"../a.rego", "", tar.TypeReg}), "", `bundle: "../a.rego" is not a path within the bundle`},
		{"parent within", pack(t, entry{"a/../../b.rego", "", tar.TypeReg}), "", `bundle: "a/../../b.rego" is not a path within the bundle`},
		{"backslash", pack(t, entry{`a\b.rego`, "", tar.TypeReg}), "", `bundle: "a\\b.rego" is not a path within the bundle`},
		{"link", pack(t, entry{"a.rego", "/etc/passwd", tar.TypeSymlink}), "", `bundle: "a.rego" is neither a file nor a directory`},
		{"twice", pack(t, module, module), "", `bundle: "a.rego" is there twice`},
		{"bomb", pack(t, entry{"data.json", strings.Repeat(" ", maxUnpackedBytes+1), tar.TypeReg}), "", "bundle: unpacks to more than 16777216 bytes"},
		{"many files", pack(t, many...), "", "bundle: more than 1024 files"},
		{"data", pack(t, entry{"data.json", `{"a":`, tar.TypeReg}), "", "bundle: data.json: "},
		{"data is a list", pack(t, entry{"data.json", `[]`, tar.TypeReg}), "", "bundle: data.json: data must be an object"},
		{"yaml", pack(t, entry{"data.yaml", `a: b`, tar.TypeReg}), "", "bundle: data.yaml: data must be JSON"},
		{"root of a module", pack(t, module, entry{".manifest", `{"roots":["b"]}`, tar.TypeReg}), "", "bundle: a.rego: package a is outside the roots of the manifest"},
		{"root of data", pack(t, module, entry{"data.json", `{"b":1}`, tar.TypeReg}, entry{".manifest", `{"roots":["a"]}`, tar.TypeReg}), "", "bundle: data b is outside the roots of the manifest"},
		{"only wasm", pack(t, entry{"policy.wasm", "x", tar.TypeReg}), "", "bundle: it has no modules in Rego"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := ReadBundle(tc.packed, tc.digest); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
