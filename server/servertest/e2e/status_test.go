package e2e_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"weir.dev/weir/server/servertest"
)

// TestStatusIsOfTheResourcesKind writes and reads the status subresource as what it is, the resource in part: it takes the
// same patches, is shown in the same columns, has the same fields, and is converted from the same versions.
func TestStatusIsOfTheResourcesKind(t *testing.T) {
	env := servertest.Start(t, servertest.Options{})
	must := func(code int, want string, method, path, contentType, body string) {
		t.Helper()
		got, answer := send(t, env, method, path, contentType, body)
		if got != code || !bytes.Contains(answer, []byte(want)) {
			t.Errorf("%s %s: %d %s, want %d with %s", method, path, got, answer, code, want)
		}
	}
	const strategic, merge = "application/strategic-merge-patch+json", "application/merge-patch+json"
	web := deploymentsPath + "/web"
	must(201, "", "POST", deploymentsPath, "", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`)
	for _, condition := range []string{"Available", "Progressing"} { // merged by their type
		must(200, `"type":"Available"`, "PATCH", web+"/status", strategic, `{"status":{"conditions":[{"type":"`+condition+`","status":"True"}]}}`)
	}
	must(200, `"type":"Progressing"`, "GET", web+"/status", "", "")
	must(415, "application/merge-patch+json", "PATCH", web+"/scale", strategic, `{"spec":{"replicas":2}}`)
	must(422, `unknown field \"status.ready\"`, "PATCH", web+"/status?fieldValidation=Strict", merge, `{"status":{"ready":1}}`)

	req, err := http.NewRequestWithContext(t.Context(), "GET", env.URL()+web+"/status", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	resp, err := env.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if table, err := io.ReadAll(resp.Body); err != nil || !bytes.Contains(table, []byte(`"name":"Up-to-date"`)) {
		t.Errorf("table: %s, %v", table, err)
	}

	version := func(name, storage string) string {
		return `{"name":"` + name + `","served":true,"storage":` + storage + `,"subresources":{"status":{}},"schema":{"openAPIV3Schema":{"type":"object","properties":{"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}}`
	}
	must(201, "", "POST", crdsPath, "", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"boats.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"boats","kind":"Boat"},"versions":[`+version("v1", "true")+`,`+version("v2", "false")+`]}}`)
	const boats = "/namespaces/default/boats"
	deadline := time.Now().Add(30 * time.Second)
	for { // until it is served
		code, answer := send(t, env, "POST", "/apis/example.com/v2"+boats, "", `{"apiVersion":"example.com/v2","kind":"Boat","metadata":{"name":"b"}}`)
		if code == 201 {
			break
		}
		if code != 404 || time.Now().After(deadline) {
			t.Fatalf("%d %s", code, answer)
		}
	}
	must(200, `"phase":"afloat"`, "PATCH", "/apis/example.com/v2"+boats+"/b/status", merge, `{"status":{"phase":"afloat"}}`)
	must(422, `unknown field \"status.colour\"`, "PATCH", "/apis/example.com/v2"+boats+"/b/status?fieldValidation=Strict", merge, `{"status":{"colour":"red"}}`)
	must(415, merge, "PATCH", "/apis/example.com/v2"+boats+"/b/status", strategic, `{}`)
	for _, v := range []string{"v1", "v2"} {
		code, answer := send(t, env, "GET", "/apis/example.com/"+v+boats+"/b/status", "", "")
		if code != 200 || !strings.Contains(string(answer), `"apiVersion":"example.com/`+v+`","kind":"Boat"`) || !strings.Contains(string(answer), `"phase":"afloat"`) {
			t.Errorf("%s: %d %s", v, code, answer)
		}
	}
}
