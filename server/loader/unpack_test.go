package loader

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

func packed(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestUnpack(t *testing.T) {
	module := []byte("\x00asm and so on")
	good := packed(t, module)
	tests := []struct {
		name string
		data []byte
		want []byte
		text string // of the error
	}{
		{"plain", module, module, ""},
		{"empty", nil, nil, ""},
		{"gzip", good, module, ""},
		{"cut off", good[:len(good)-4], nil, "gzip: unexpected EOF"},
		{"header only", []byte{0x1f, 0x8b}, nil, "gzip:"},
		{"bomb", packed(t, make([]byte, maxArtefactBytes+1)), nil, "unpacked it is larger than"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := unpack(tc.data)
			if !bytes.Equal(got, tc.want) || (err == nil) != (tc.text == "") || (err != nil && !strings.Contains(err.Error(), tc.text)) {
				t.Errorf("%d bytes, error %v", len(got), err)
			}
		})
	}
}
