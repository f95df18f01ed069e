package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Module says where a Wasm artefact comes from and what it may do. Strategies refer
// to it by name.
type Module struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ModuleSpec   `json:"spec"`
	Status            ModuleStatus `json:"status,omitempty"`
}

// ModuleSpec is what the operator wants.
type ModuleSpec struct {
	Source ModuleSource `json:"source"`
	Limits ModuleLimits `json:"limits,omitempty"`
	// Tests must pass before the module is put in force.
	Tests []ModuleTest `json:"tests,omitempty"`
}

// ModuleSource has exactly one member, apart from Digest.
type ModuleSource struct {
	// Inline is the module itself (base64 in JSON).
	Inline []byte `json:"inline,omitempty"`
	// ConfigMapRef names a key of a ConfigMap's binaryData.
	ConfigMapRef *ConfigMapKey `json:"configMapRef,omitempty"`
	// File is a path on the server, below the directory given by --module-dir.
	File string `json:"file,omitempty"`
	// Digest, as sha256:<64 hex digits>, is what the bytes must have.
	Digest string `json:"digest,omitempty"`
}

// ConfigMapKey names a key of a ConfigMap.
type ConfigMapKey struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}

// ModuleLimits bound one guest. Zero means the server's default.
type ModuleLimits struct {
	// MemoryBytes of a guest.
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// Fuel of one request, in instructions.
	Fuel int64 `json:"fuel,omitempty"`
	// TimeoutMilliseconds of one call.
	TimeoutMilliseconds int64 `json:"timeoutMilliseconds,omitempty"`
}

// ModuleTest is one call and what must come of it.
type ModuleTest struct {
	Name string `json:"name"`
	// Hook as in the manifest, e.g. validateCreate.
	Hook      string               `json:"hook"`
	Settings  runtime.RawExtension `json:"settings,omitempty"`
	Object    runtime.RawExtension `json:"object"`
	OldObject runtime.RawExtension `json:"oldObject,omitempty"`
	// ExpectErrors are the fields that must be refused; none means that the object must pass.
	ExpectErrors []string `json:"expectErrors,omitempty"`
	// ExpectObject, when set, must equal the object that the hook gives.
	ExpectObject runtime.RawExtension `json:"expectObject,omitempty"`
}

// Condition types of a Module.
const (
	ModuleFetched  = "Fetched"
	ModuleVerified = "Verified"
	ModuleCompiled = "Compiled"
	ModuleReady    = "Ready"
)

// ModuleStatus is what the server makes of it.
type ModuleStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// Digest in force: that of the last good bytes.
	Digest string `json:"digest,omitempty"`
	// Hooks that the module in force implements.
	Hooks []string `json:"hooks,omitempty"`
	// LastError says why the newest change is not in force.
	LastError string `json:"lastError,omitempty"`
}
