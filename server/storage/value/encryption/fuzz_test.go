package encryption_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"weir.dev/weir/server/storage/value"
	"weir.dev/weir/server/storage/value/encryption"
	. "weir.dev/weir/server/storage/value/encryption/encryptiontest"
)

// FuzzTransformFromStorage reads any bytes: nothing panics, and no encrypted row is returned as it is.
func FuzzTransformFromStorage(f *testing.F) {
	plugin := NewPlugin(f)
	file := filepath.Join(f.TempDir(), "f")
	providers := []string{Keys("aescbc", "a"), Keys("aesgcm", "a"), Keys("secretbox", "a"), plugin.Patient("fuzz")}
	for i := range providers {
		Write(f, file, Config(Entry("secrets", providers[i], Identity)))
		e, err := encryption.Open(f.Context(), encryption.Config{File: file})
		if err != nil {
			f.Fatal(err)
		}
		stored, err := e.For(secrets).TransformToStorage(f.Context(), plain, key)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(stored)
		f.Add(stored[:len(stored)-16])
		e.Close()
	}
	f.Add(append([]byte("k8s:enc:aescbc:v1:a:"), make([]byte, 16)...))
	Write(f, file, Config(Entry("secrets", append(providers, Identity)...)))
	e, err := encryption.Open(f.Context(), encryption.Config{File: file})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(e.Close)
	transformer := e.For(secrets)
	f.Fuzz(func(t *testing.T, stored []byte) {
		out, _, err := transformer.TransformFromStorage(t.Context(), stored, key)
		if err == nil && bytes.HasPrefix(stored, []byte(value.EncryptedPrefix)) && bytes.Equal(out, stored) {
			t.Errorf("%q is returned as it is", stored)
		}
	})
}
