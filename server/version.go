package server

import (
	"encoding/json"
	"net/http"
	"runtime"

	"k8s.io/apimachinery/pkg/version"
)

// KubernetesVersion is the version of the Kubernetes API that the server speaks. Clients compare it
// with their own.
const KubernetesVersion = "v1.37.2"

// versionInfo is what /version answers.
func versionInfo() version.Info {
	return version.Info{
		Major: "1", Minor: "37", GitVersion: KubernetesVersion, GitTreeState: "clean",
		GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: runtime.GOOS + "/" + runtime.GOARCH,
		EmulationMajor: "1", EmulationMinor: "37", MinCompatibilityMajor: "1", MinCompatibilityMinor: "36",
	}
}

func serveVersion(w http.ResponseWriter, _ *http.Request) {
	body, err := json.MarshalIndent(versionInfo(), "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n'))
}
