package server_test

import (
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"weir.dev/weir/server/servertest"
)

// TestNotThereYet: what the README says is not served is not, so that who adds it takes the line out.
func TestNotThereYet(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(readme), "\n## What is not there yet\n")
	if !ok {
		t.Fatal("the README has no such section")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	env := servertest.Start(t, servertest.Options{})
	resources := map[string]string{}
	for _, path := range []string{"/api/v1", "/apis"} {
		code, text, _ := body(t, env, path)
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", path, code, text)
		}
		resources[path] = text
	}
	groups, subresources := 0, 0
	for _, name := range regexp.MustCompile("`([a-z0-9./]+)`").FindAllStringSubmatch(section, -1) {
		group, rest, _ := strings.Cut(name[1], "/")
		switch {
		case group == "pods":
			subresources++
			if strings.Contains(resources["/api/v1"], `"name":"`+name[1]+`"`) {
				t.Errorf("%s is served", name[1])
			}
		case rest != "" || strings.Contains(group, "."):
			groups++
			if code, _, _ := body(t, env, "/apis/"+name[1]); code != http.StatusNotFound {
				t.Errorf("%s is served: %d", name[1], code)
			}
		}
	}
	if groups < 4 || subresources < 3 || !strings.Contains(resources["/api/v1"], `"name":"pods/status"`) || !strings.Contains(resources["/apis"], `"name":"apps"`) {
		t.Errorf("%d groups and %d subresources of pods were looked for in\n%s\n%s", groups, subresources, resources["/api/v1"], resources["/apis"])
	}
}
