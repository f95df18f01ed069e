package endpoints

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func at(text string) func() time.Time {
	now, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return func() time.Time { return now }
}

func TestTable(t *testing.T) {
	w := newWorld(t, Config{Now: at("2026-01-02T04:04:05Z")})
	w.do(t, "POST", widgetsPath, widget("a", `{"color":"red"}`))
	kubectl := "Accept: application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json"
	list := w.do(t, "GET", widgetsPath, "", kubectl).document(t)
	row := list.Get("rows").Index(0)
	if list.Get("kind").String() != "Table" || list.Get("apiVersion").String() != "meta.k8s.io/v1" || list.Get("metadata", "resourceVersion").String() != "101" {
		t.Errorf("table: %s", list.Bytes())
	}
	if got := string(row.Get("cells").Raw()); got != `["a","60m"]` {
		t.Errorf("cells %s", got)
	}
	if row.Get("object", "kind").String() != "PartialObjectMetadata" || row.Get("object", "spec").Exists() {
		t.Errorf("row object: %s", row.Get("object").Raw())
	}
	one := w.do(t, "GET", widgetsPath+"/a?includeObject=Object", "", kubectl).document(t)
	if one.Get("rows").Len() != 1 || one.Get("rows").Index(0).Get("object", "spec", "color").String() != "red" {
		t.Errorf("one: %s", one.Bytes())
	}
	none := w.do(t, "GET", widgetsPath+"/a?includeObject=None", "", kubectl).document(t)
	if got := string(none.Get("rows").Index(0).Get("object").Raw()); got != "null" {
		t.Errorf("none: %s", got)
	}
	if bad := w.do(t, "GET", widgetsPath+"/a?includeObject=Some", "", kubectl); bad.code != 400 {
		t.Errorf("bad: %d %s", bad.code, bad.body)
	}
	if missing := w.do(t, "GET", widgetsPath+"/none", "", kubectl); missing.code != 404 || missing.get(t, "kind") != "Status" {
		t.Errorf("missing: %d %s", missing.code, missing.body)
	}
}

func TestPartialObjectMetadata(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(t, "POST", widgetsPath, widget("a", `{"color":"red"}`))
	single := "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	plural := "Accept: application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
	one := w.do(t, "GET", widgetsPath+"/a", "", single)
	if one.get(t, "kind") != "PartialObjectMetadata" || one.document(t).Get("spec").Exists() {
		t.Errorf("one: %s", one.body)
	}
	list := w.do(t, "GET", widgetsPath, "", plural).document(t)
	if list.Get("kind").String() != "PartialObjectMetadataList" || list.Get("items").Index(0).Get("metadata", "name").String() != "a" {
		t.Errorf("list: %s", list.Bytes())
	}
	if got := w.do(t, "GET", widgetsPath, "", single); got.code != 406 {
		t.Errorf("metadata of a list: %d %s", got.code, got.body)
	}
	if got := w.do(t, "GET", widgetsPath+"/a", "", "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"); got.code != 406 {
		t.Errorf("list of an object: %d %s", got.code, got.body)
	}
}

func TestNegotiate(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(t, "POST", widgetsPath, widget("a", `{}`))
	tests := []struct {
		name, accept, mediaType string
		code                    int
	}{
		{"none", "", "application/json", 200},
		{"any", "*/*", "application/json", 200},
		{"application", "application/*", "application/json", 200},
		{"quality", "application/json;q=0.5,application/yaml", "application/yaml", 200},
		{"fallback", "application/vnd.kubernetes.protobuf,application/json", "application/json", 200},
		{"unknown conversion falls back", "application/json;as=Foo;g=x;v=y,application/yaml", "application/yaml", 200},
		{"protobuf", "application/vnd.kubernetes.protobuf", "application/json", 406},
		{"html", "text/html", "application/json", 406},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got := w.do(t, "GET", widgetsPath+"/a", "", "Accept: "+tc.accept)
			if got.code != tc.code || got.header.Get("Content-Type") != tc.mediaType {
				t.Errorf("%d %s: %s", got.code, got.header.Get("Content-Type"), got.body)
			}
		})
	}
}

func TestPretty(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(t, "POST", widgetsPath, widget("a", `{}`))
	for path, agent := range map[string]string{"?pretty=true": "x", "": "curl/8"} {
		if got := w.do(t, "GET", widgetsPath+"/a"+path, "", "User-Agent: "+agent); !strings.HasPrefix(got.body, "{\n  \"apiVersion\"") {
			t.Errorf("%s %s: %s", path, agent, got.body)
		}
	}
	if got := w.do(t, "GET", widgetsPath+"/a?pretty=false", "", "User-Agent: curl/8"); strings.Contains(got.body, "\n  ") {
		t.Errorf("not pretty: %s", got.body)
	}
}

func TestGzip(t *testing.T) {
	w := newWorld(t, Config{})
	w.do(t, "POST", widgetsPath, widget("small", `{}`))
	w.do(t, "POST", widgetsPath, widget("big", `{"color":"`+strings.Repeat("abc", 60_000)+`"}`))
	get := func(path string) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), "GET", w.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	if small := get(widgetsPath + "/small"); small.Header.Get("Content-Encoding") != "" {
		t.Errorf("small is compressed")
	}
	big := get(widgetsPath)
	if big.Header.Get("Content-Encoding") != "gzip" || big.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("big: %v", big.Header)
	}
	zip, err := gzip.NewReader(big.Body)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(zip)
	if err != nil || !strings.HasSuffix(string(raw), "}}\n") {
		t.Errorf("%v", err)
	}
}

func TestListPage(t *testing.T) {
	w := newWorld(t, Config{})
	for _, name := range []string{"a", "b", "c"} {
		w.do(t, "POST", widgetsPath, widget(name, `{}`))
	}
	got := w.do(t, "GET", widgetsPath+"?limit=1", "").document(t)
	if meta := string(got.Get("metadata").Raw()); meta != `{"continue":"next","remainingItemCount":2,"resourceVersion":"103"}` {
		t.Errorf("metadata %s", meta)
	}
}
