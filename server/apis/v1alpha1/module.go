package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Module says where a Wasm artefact comes from and what it may do. Strategies refer
// to it by name.
//
// A change is loaded beside the requests and put in force when it has passed everything; until then, and when it
// fails, the last known good stays in force and status says why. Strategies go on calling a Module that is deleted
// until the server starts again; from then on they refuse writes, as what they guarded cannot be checked.
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

// ModuleSource has exactly one member, apart from Digest. What it names is followed: when the bytes change, the module
// is loaded again, without a change of this object. Give a digest to pin it. When the source is away after a restart,
// the bytes that were in force last come from the server's own copy. They may be compressed with gzip: a guest in Go
// is too large for a ConfigMap otherwise.
type ModuleSource struct {
	// Inline is the module itself (base64 in JSON).
	Inline []byte `json:"inline,omitempty"`
	// ConfigMapRef names a key of a ConfigMap's binaryData. It is watched.
	ConfigMapRef *ConfigMapKey `json:"configMapRef,omitempty"`
	// File is a path on the server, below the directory given by --module-dir. Its size and time are looked at every
	// two seconds. Rename a new version into place, so that it is never read half.
	File string `json:"file,omitempty"`
	// Digest, as sha256:<64 hex digits>, is what the module, unpacked, must have.
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
	// ExpectErrors are the fields that must be refused, "" for a denial of the whole; none means that the object
	// must pass.
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
	// Digest in force: that of the last good bytes. After a restart that could not bring them back it is kept, with
	// the condition Ready of reason Refused.
	Digest string `json:"digest,omitempty"`
	// Hooks that the module in force implements.
	Hooks []string `json:"hooks,omitempty"`
	// LastError says why the newest change is not in force.
	LastError string `json:"lastError,omitempty"`
}
