package encryption_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	storagevalue "k8s.io/apiserver/pkg/storage/value"

	"weir.dev/weir/server/storage/value"
	"weir.dev/weir/server/storage/value/encryption"
	. "weir.dev/weir/server/storage/value/encryption/encryptiontest"
)

// loadUpstream returns kube-apiserver's transformers of a file.
func loadUpstream(t *testing.T, file string) (storagevalue.ResourceTransformers, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file, true, "")
	if err != nil {
		return nil, err
	}
	return encryptionconfig.StaticTransformers(config.Transformers), nil
}

// What kube-apiserver has stored is read, and the other way round, with the same resources encrypted by the same
// providers and the same rows stale.
func TestUpstream(t *testing.T) {
	plugin := NewPlugin(t)
	tests := []struct{ name, content string }{
		{"each provider", Config(Entry("secrets", Keys("aesgcm", "a")), Entry("configmaps", Keys("aescbc", "a")),
			Entry("pods", Keys("secretbox", "a")), Entry("widgets.example.com", plugin.Patient("upstream1")))},
		{"order", Config(Entry("secrets", Keys("aesgcm", "b", "a"), Keys("secretbox", "a"), Identity), Entry("configmaps", Keys("aesgcm", "a")),
			Entry("pods", Keys("secretbox", "a")), Entry("widgets.example.com", Identity, Keys("aesgcm", "b", "a")))},
		{"wildcards", Config(Entry("secrets,deployments.apps", Keys("aesgcm", "a")), Entry("*.apps", Keys("aesgcm", "b")),
			Entry("*.", Keys("secretbox", "c")), Entry("*.*", Keys("aescbc", "d")))},
		{"core only", Config(Entry("*.", Keys("secretbox", "c"), Identity))},
		{"entries add up", Config(Entry("secrets,pods", Keys("aesgcm", "a")), Entry("secrets", Keys("secretbox", "b"), Identity), Entry("*.*", Identity))},
		{"a key of the same name", Config(Entry("secrets", "aesgcm: {keys: [{name: a, secret: "+Secret("x")+"}]}", Keys("aesgcm", "a")),
			Entry("*.*", Keys("aesgcm", "a")))},
		{"a key named like the start of another", Config(Entry("secrets", "aesgcm: {keys: [{name: a, secret: "+Secret("x")+"}, {name: 'a:b', secret: "+Secret("y")+"}]}"),
			Entry("*.*", "aesgcm: {keys: [{name: 'a:b', secret: "+Secret("y")+"}]}"))},
	}
	var resources []schema.GroupResource
	for _, name := range []string{"secrets", "configmaps", "pods", "deployments.apps", "statefulsets.apps", "widgets.example.com", "events"} {
		resources = append(resources, schema.ParseGroupResource(name))
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f := open(t, tc.content, encryption.Intervals{})
			up, err := loadUpstream(t, f.file)
			if err != nil {
				t.Fatal(err)
			}
			rows := [][]byte{plain, []byte("k8s:enc:aesgcm:v1:none:x"), []byte("k8s:enc:rot13:v1:a:x"), {}}
			for _, gr := range resources {
				mine := f.write(gr, plain, key)
				theirs, err := up.TransformerForResource(gr).TransformToStorage(t.Context(), plain, storagevalue.DefaultContext(key))
				if err != nil {
					t.Fatal(err)
				}
				if len(mine) < 30 || !bytes.Equal(mine[:18], theirs[:18]) {
					t.Errorf("%s: written as %.30q, upstream as %.30q", gr, mine, theirs)
				}
				rows = append(rows, mine, theirs)
			}
			for _, gr := range resources {
				for _, stored := range rows {
					for _, at := range []value.Key{key, key + "2"} {
						got, want := read(t, f.For(gr), stored, at), readUpstream(t, up.TransformerForResource(gr), stored, at)
						if got != want {
							t.Errorf("%s: %.40q at %s: got %s, upstream %s", gr, stored, at, got, want)
						}
					}
				}
			}
		})
	}
}

func outcome(out []byte, stale bool, err error) string {
	return fmt.Sprintf("%q, stale %t, error %t", out, stale, err != nil)
}

func read(t *testing.T, transformer value.Transformer, stored []byte, key value.Key) string {
	return outcome(transformer.TransformFromStorage(t.Context(), stored, key))
}

func readUpstream(t *testing.T, transformer storagevalue.Transformer, stored []byte, key value.Key) string {
	return outcome(transformer.TransformFromStorage(t.Context(), stored, storagevalue.DefaultContext(key)))
}

// A configuration is refused if upstream refuses it; and KMS v1 is.
func TestRefused(t *testing.T) {
	const kms = "kms: {apiVersion: v2, name: %s, endpoint: %q, timeout: %s}"
	tests := []struct {
		name, content string
		// want are parts of the error; none: it is accepted.
		want []string
	}{
		{"good", Config(Entry("secrets", Keys("aesgcm", "a"))), nil},
		{"masked by the group", Config(Entry("*.apps", Identity), Entry("deployments.apps", Keys("aesgcm", "a"))),
			[]string{"resources[1].resources[0]", `"deployments.apps" is masked by the earlier "*.apps"`}},
		{"masked by all", Config(Entry("*.*", Identity), Entry("secrets", Identity)), []string{`masked by the earlier "*.*"`}},
		{"the group after a resource", Config(Entry("secrets", Identity), Entry("*.", Identity)), nil},
		{"overlap", Config(Entry("secrets,*.", Identity)), []string{"overlapping"}},
		{"twice", Config(Entry("secrets,secrets", Identity)), []string{"multiple times"}},
		{"star", Config(Entry("*", Identity)), []string{"use '*.'"}},
		{"star of a resource", Config(Entry("secrets.*", Identity)), []string{"across groups"}},
		{"capitals", Config(Entry("Secrets", Identity)), []string{"capital letters"}},
		{"events.k8s.io", Config(Entry("events.events.k8s.io", Identity)), []string{"'events' API group"}},
		{"no resources", Config("- resources: []\n  providers: [{identity: {}}]\n"), []string{"at least one"}},
		{"no providers", Config("- resources: [secrets]\n  providers: []\n"), []string{"at least one"}},
		{"nothing", Config("[]\n"), nil},
		{"empty provider", Config(Entry("secrets", "{}")), []string{"does not contain any of the expected providers"}},
		{"two in one", Config("- resources: [secrets]\n  providers: [{identity: {}, " + Keys("aesgcm", "a") + "}]\n"), []string{"more than one provider"}},
		{"no keys", Config(Entry("secrets", "aesgcm: {keys: []}")), []string{"at least one keys"}},
		{"short key", Config(Entry("secrets", "secretbox: {keys: [{name: a, secret: c2hvcnQtc2VjcmV0LWtleQ==}]}")), []string{"secret is not of the expected length, got 16"}},
		{"not base64", Config(Entry("secrets", "secretbox: {keys: [{name: a, secret: 'c2hvcnQtc2VjcmV0LWtleQ!'}]}")), []string{"base64"}},
		{"key without name", Config(Entry("secrets", "aescbc: {keys: [{secret: "+Secret("a")+"}]}")), []string{"name"}},
		{"unknown field", Config(Entry("secrets", "aesgcm: {keys: [{name: a, geheim: "+Secret("a")+"}]}")), []string{"geheim"}},
		{"a secret as a field", Config(Entry("secrets", "aesgcm: {keys: [{name: a, "+Secret("a")+": x}]}")), []string{"unknown field", "REDACTED"}},
		{"a secret where a list is", Config(Entry("secrets", "aesgcm: {keys: "+Secret("a")+"}")), []string{"cannot unmarshal"}},
		{"a secret twice", Config(Entry("secrets", "aesgcm: {keys: [{name: a, secret: "+Secret("a")+", secret: "+Secret("b")+"}]}")), []string{"secret"}},
		{"another kind", "apiVersion: v1\nkind: Secret\n", []string{"Secret"}},
		{"another kind of the group", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n", []string{"not an EncryptionConfiguration"}},
		{"no kind", "a: b\n", []string{"Kind"}},
		{"kms of a scheme", Config(Entry("secrets", fmt.Sprintf(kms, "p", "tcp://1.2.3.4", "1s"))), []string{"only unix"}},
		{"kms without a name", Config(Entry("secrets", fmt.Sprintf(kms, `""`, "unix:///x", "1s"))), []string{"name"}},
		{"kms with a colon", Config(Entry("secrets", fmt.Sprintf(kms, "a:b", "unix:///x", "1s"))), []string{"must not contain ':'"}},
		{"kms twice", Config(Entry("secrets", fmt.Sprintf(kms, "a", "unix:///x", "1s"), fmt.Sprintf(kms, "a", "unix:///x", "1s"))), []string{"unique"}},
		{"kms v1", Config(Entry("secrets", "kms: {apiVersion: v1, name: p, endpoint: 'unix:///x'}")),
			[]string{"resources[0].providers[0].kms.apiVersion", "KMS v1 is not served", "write apiVersion: v2"}},
		{"kms v1 by default", Config(Entry("secrets", "kms: {name: p, endpoint: 'unix:///x'}")), []string{"KMS v1 is not served", "a missing apiVersion"}},
		{"kms v3", Config(Entry("secrets", "kms: {apiVersion: v3, name: p, endpoint: 'unix:///x'}")), []string{"unsupported apiVersion"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f")
			Write(t, file, tc.content)
			e, err := encryption.Open(t.Context(), encryption.Config{File: file})
			if err == nil {
				e.Close()
			}
			if _, upstream := loadUpstream(t, file); (upstream == nil) != (err == nil) {
				t.Errorf("got %v, upstream %v", err, upstream)
			}
			if len(tc.want) == 0 {
				return
			}
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range append(slices.Clone(tc.want), file) {
				if !bytes.Contains([]byte(err.Error()), []byte(part)) {
					t.Errorf("error %q lacks %q", err, part)
				}
			}
			for _, secret := range []string{Secret("a"), Secret("b"), "c2hvcnQtc2VjcmV0LWtleQ"} {
				if bytes.Contains([]byte(err.Error()), []byte(secret[:10])) {
					t.Errorf("error %q holds a secret", err)
				}
			}
		})
	}
}
