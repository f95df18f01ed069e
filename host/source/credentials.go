package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
)

// Credentials know how to log in to registries.
type Credentials interface {
	authn.Keychain
}

// UserCredentials returns those of the user who runs the process: of Docker's or Podman's configuration, with the
// credential helpers that it names, which are programs.
func UserCredentials() Credentials { return authn.DefaultKeychain }

// dockerConfig are the logins of a .dockerconfigjson, by registry and perhaps a part of the path behind it.
type dockerConfig map[string]authn.AuthConfig

// ParseDockerConfig reads the logins of a Docker configuration, as a Secret of type kubernetes.io/dockerconfigjson has
// it below .dockerconfigjson. A registry without one is asked anonymously. Credential helpers are not run.
func ParseDockerConfig(text []byte) (Credentials, error) {
	var config struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, errors.New("docker configuration: not JSON with auths, or an auth that is not base64 of user:password") // the cause may quote it
	}
	if len(config.Auths) == 0 {
		return nil, errors.New("docker configuration: no auths are in it")
	}
	logins := dockerConfig{}
	for name, login := range config.Auths {
		key := loginKey(name)
		if _, err := path.Match(key, ""); err != nil || key == "" {
			return nil, fmt.Errorf("docker configuration: %q names no registry", name)
		}
		logins[key] = login
	}
	return logins, nil
}

// loginKey is a registry and path without what Docker puts around it.
func loginKey(name string) string {
	if _, rest, ok := strings.Cut(name, "://"); ok {
		name = rest
	}
	name = strings.TrimSuffix(name, "/")
	name = strings.TrimSuffix(strings.TrimSuffix(name, "/v1"), "/v2")
	host, rest, _ := strings.Cut(name, "/")
	switch host {
	case "docker.io", "registry-1.docker.io":
		host = "index.docker.io" // which is asked
	}
	return strings.TrimSuffix(host+"/"+rest, "/")
}

// Resolve implements authn.Keychain: the login with the longest path that the repository is below. A star stands for
// one part of the name of a host, as for the kubelet.
func (d dockerConfig) Resolve(target authn.Resource) (authn.Authenticator, error) {
	repository := loginKey(target.String())
	host, _, _ := strings.Cut(repository, "/")
	best := ""
	for key := range d {
		pattern, below, _ := strings.Cut(key, "/")
		if !sameHost(pattern, host) || below != "" && !strings.HasPrefix(repository+"/", host+"/"+below+"/") {
			continue
		}
		if best == "" || len(key) > len(best) || len(key) == len(best) && key < best {
			best = key
		}
	}
	if best == "" {
		return authn.Anonymous, nil
	}
	return authn.FromConfig(d[best]), nil
}

// sameHost matches a host with a pattern, part by part.
func sameHost(pattern, host string) bool {
	patterns, parts := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(patterns) != len(parts) {
		return false
	}
	for i := range parts {
		if ok, err := path.Match(patterns[i], parts[i]); !ok || err != nil {
			return false
		}
	}
	return true
}
