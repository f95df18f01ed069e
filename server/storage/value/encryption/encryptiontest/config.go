package encryptiontest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Secret returns a key of 32 bytes, always the same for a name, as the file has it.
func Secret(name string) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(name), 32)[:32])
}

// Identity is the provider that does not encrypt.
const Identity = "identity: {}"

// Keys is a provider (aescbc, aesgcm, secretbox) with the keys of those names.
func Keys(kind string, names ...string) string {
	var keys []string
	for _, name := range names {
		keys = append(keys, fmt.Sprintf("{name: %s, secret: %s}", name, Secret(name)))
	}
	return fmt.Sprintf("%s: {keys: [%s]}", kind, strings.Join(keys, ", "))
}

// Entry is one entry of a configuration: resources, comma separated, and their providers.
func Entry(resources string, providers ...string) string {
	var out strings.Builder
	out.WriteString("- resources: [")
	for i, r := range strings.Split(resources, ",") {
		if i > 0 {
			out.WriteString(", ")
		}
		fmt.Fprintf(&out, "%q", strings.TrimSpace(r))
	}
	out.WriteString("]\n  providers:\n")
	for _, p := range providers {
		fmt.Fprintf(&out, "  - %s\n", p)
	}
	return out.String()
}

// Config is a whole EncryptionConfiguration.
func Config(entries ...string) string {
	return "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" + strings.Join(entries, "")
}

// Write replaces a file by another, as an editor and a configuration management do: by a rename.
func Write(t testing.TB, file, content string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(file), ".next")
	if err := os.WriteFile(next, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}
