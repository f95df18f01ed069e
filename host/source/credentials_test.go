package source_test

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"weir.dev/weir/host/source"
)

func TestParseDockerConfig(t *testing.T) {
	const auth = `{"username":"x","password":"y"}`
	tests := []struct{ name, text, want string }{
		{"one", `{"auths":{"a.example":` + auth + `}}`, ""},
		{"not JSON", `secret`, "docker configuration: not JSON with auths, or an auth that is not base64 of user:password"},
		{"an auth that is not base64", `{"auths":{"a.example":{"auth":"sec ret"}}}`, "docker configuration: not JSON with auths, or an auth that is not base64 of user:password"},
		{"none", `{"auths":{}}`, "docker configuration: no auths are in it"},
		{"no registry", `{"auths":{"https://":` + auth + `}}`, `docker configuration: "https://" names no registry`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			_, err := source.ParseDockerConfig([]byte(tc.text))
			if got := errorText(err); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDockerConfigLogins(t *testing.T) {
	logins, err := source.ParseDockerConfig([]byte(`{"auths":{
		"https://index.docker.io/v1/": {"username":"docker"},
		"a.example": {"username":"a"},
		"https://a.example/team/": {"username":"team"},
		"*.b.example:5000": {"username":"b"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, repository, want string }{
		{"Docker's", "docker.io/library/busybox", "docker"},
		{"by its host", "a.example/quota", "a"},
		{"by its path", "a.example/team/quota", "team"},
		{"not by a part of a name", "a.example/teams/quota", "a"},
		{"by a star", "x.b.example:5000/quota", "b"},
		{"a star is one part", "x.y.b.example:5000/quota", ""},
		{"another port", "x.b.example/quota", ""},
		{"another host", "a.example.org/quota", ""},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			repository, err := name.NewRepository(tc.repository)
			if err != nil {
				t.Fatal(err)
			}
			login, err := logins.Resolve(repository)
			if err != nil {
				t.Fatal(err)
			}
			config, err := login.Authorization()
			if err != nil || config.Username != tc.want {
				t.Errorf("got %q, %v, want %q", config.Username, err, tc.want)
			}
		})
	}
}
