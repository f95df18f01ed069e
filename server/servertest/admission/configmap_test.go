package admission

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"weir.dev/weir/server/servertest"
)

// TestConfigMapsAndSecrets: what upstream's validation says of their keys and sizes.
func TestConfigMapsAndSecrets(t *testing.T) {
	c := client{servertest.Start(t, servertest.Options{})}
	const most = 1 << 20
	text := func(n int) string { return strings.Repeat("x", n) }
	encoded := func(n int) string { return base64.StdEncoding.EncodeToString([]byte(text(n))) }
	tests := []struct {
		name, resource string
		fields         object
		field, message string // "": it is good
	}{
		{"a full ConfigMap", "configmaps", object{"data": object{"a": text(most - 4)}, "binaryData": object{"b": encoded(4)}}, "", ""},
		{"characters of several bytes", "configmaps", object{"data": object{"a": strings.Repeat("é", most/2)}}, "", ""},
		{"a byte too much", "configmaps", object{"data": object{"a": text(most - 4)}, "binaryData": object{"b": encoded(5)}}, "data", "may not be more than 1048576 bytes"},
		{"characters of several bytes and one more", "configmaps", object{"data": object{"a": strings.Repeat("é", most/2) + "x"}}, "data", "may not be more than 1048576 bytes"},
		{"a key with a slash", "configmaps", object{"data": object{"a/b": "c"}}, "data[a/b]", "a valid config key"},
		{"a key twice", "configmaps", object{"data": object{"a": "c"}, "binaryData": object{"a": encoded(1)}}, "binaryData[a]", "duplicate of key present in data"},
		{"a full Secret", "secrets", object{"data": object{"a": encoded(most)}}, "", ""},
		{"a Secret of a byte too much", "secrets", object{"data": object{"a": encoded(most), "b": encoded(1)}}, "data", "may not be more than 1048576 bytes"},
		{"a Secret of a byte too much as text", "secrets", object{"stringData": object{"a": text(most + 1)}}, "data", "may not be more than 1048576 bytes"},
		{"a key of a Secret with a slash", "secrets", object{"data": object{"a/b": encoded(1)}}, "data[a/b]", "a valid config key"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			a := c.do(t, http.MethodPost, "/api/v1/namespaces/default/"+tc.resource+"?dryRun=All", merged(object{"metadata": object{"name": "sized"}}, tc.fields))
			switch {
			case tc.field == "" && a.code != http.StatusCreated:
				t.Errorf("%.200s", a.String())
			case tc.field == "":
			case a.code != http.StatusUnprocessableEntity || len(a.status.Details.Causes) != 1 || a.status.Details.Causes[0].Field != tc.field ||
				!strings.Contains(a.status.Details.Causes[0].Message, tc.message):
				t.Errorf("%.300s", a.String())
			case len(a.status.Message) > 2000:
				t.Errorf("a message of %d bytes", len(a.status.Message))
			}
		})
	}
}
