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
// until the server starts again; from then on they refuse writes, as what they guarded cannot be checked. Its capabilities
// are gone at once.
type Module struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ModuleSpec   `json:"spec"`
	Status            ModuleStatus `json:"status,omitempty"`
}

// ModuleSpec is what the operator wants.
type ModuleSpec struct {
	Source ModuleSource `json:"source"`
	// Verify asks for a signature.
	Verify *ModuleVerify `json:"verify,omitempty"`
	Limits ModuleLimits  `json:"limits,omitempty"`
	// Capabilities that the module is granted beside the documents of its calls: lookup:<resource> to look up objects of
	// a resource of the core group, lookup:<resource>.<group> of another, lookup:* of every resource but secrets,
	// lookup:*.<group> of all of a group, and authorize to ask what users may do. A module that asks for one that is not
	// here is not put in force; one that is taken away is gone at once.
	Capabilities []string `json:"capabilities,omitempty"`
	// Tests must pass before the module is put in force.
	Tests []ModuleTest `json:"tests,omitempty"`
}

// ModuleSource has exactly one member, apart from Digest. What it names is followed: when the bytes change, the module
// is loaded again, without a change of this object. Give a digest to pin it. When the source is away after a restart,
// the bytes that were in force last come from the server's own copy. They may be compressed with gzip: a guest in Go
// is too large for a ConfigMap otherwise. At most 64 MiB are read, packed and unpacked.
//
// While a url or oci cannot be fetched or is not signed yet, the server tries again, first after a second, then less
// often, at the latest after five minutes.
type ModuleSource struct {
	// Inline is the module itself (base64 in JSON).
	Inline []byte `json:"inline,omitempty"`
	// ConfigMapRef names a key of a ConfigMap's binaryData. It is watched.
	ConfigMapRef *ConfigMapKey `json:"configMapRef,omitempty"`
	// SecretRef names a key of a Secret. It is watched.
	SecretRef *SecretKey `json:"secretRef,omitempty"`
	// File is a path on the server, below the directory given by --module-dir. Its size and time are looked at every
	// two seconds. Rename a new version into place, so that it is never read half.
	File string `json:"file,omitempty"`
	// URL is an https address. It needs a digest, and is not fetched again as long as the server has those bytes.
	// Plain http is for loopback only. The server asks the address itself, not by a proxy.
	URL string `json:"url,omitempty"`
	// OCI is an artefact in a registry.
	OCI *ModuleImage `json:"oci,omitempty"`
	// Digest, as sha256:<64 hex digits>, is what the module, unpacked, must have. It is not the digest of an image,
	// which is a part of the image's reference.
	Digest string `json:"digest,omitempty"`
}

// ModuleImage is an artefact in an OCI registry: a manifest with one layer that is a module (application/wasm,
// application/vnd.wasm.content.layer.v1+wasm or application/vnd.module.wasm.content.layer.v1+wasm), or one that is a
// tar with one file *.wasm, perhaps compressed with gzip. Of an index, the manifest for architecture wasm counts, or
// the only one.
type ModuleImage struct {
	// Image is REGISTRY/REPOSITORY with :TAG or @sha256:DIGEST, all written out. A tag is resolved again about every
	// five minutes; what it gave is in status.image.
	Image string `json:"image"`
	// PullSecretRef names a Secret of type kubernetes.io/dockerconfigjson; none: the registry is asked anonymously.
	PullSecretRef *SecretName `json:"pullSecretRef,omitempty"`
	// PlainHTTP allows http to a registry on loopback.
	PlainHTTP bool `json:"plainHTTP,omitempty"`
}

// ModuleVerify asks for a signature by a public key. For oci it is one of cosign's, in its format of simple signing,
// under the tag sha256-<hex>.sig beside the image, unless a detached one is given; for all other sources it is a
// detached one, as cosign sign-blob makes it, of the module or of the bytes as the source has them.
type ModuleVerify struct {
	// PublicKey in PEM: ECDSA on P-256, Ed25519 or RSA. If there are several, one must have signed.
	PublicKey string `json:"publicKey,omitempty"`
	// PublicKeyFrom has the key in place of PublicKey. It is read each time the module is fetched.
	PublicKeyFrom *ModuleKeySource `json:"publicKeyFrom,omitempty"`
	// Signature is the detached one (base64 in JSON, which is how cosign writes it).
	Signature []byte `json:"signature,omitempty"`
	// SignatureURL is the https address of the detached signature, in base64, in place of Signature.
	SignatureURL string `json:"signatureURL,omitempty"`
}

// ModuleKeySource has exactly one member.
type ModuleKeySource struct {
	ConfigMapRef *ConfigMapKey `json:"configMapRef,omitempty"`
	SecretRef    *SecretKey    `json:"secretRef,omitempty"`
}

// ConfigMapKey names a key of a ConfigMap.
type ConfigMapKey struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}

// SecretKey names a key of a Secret.
type SecretKey struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}

// SecretName names a Secret.
type SecretName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
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
	// Objects are all there are to be looked up. Nothing is authorized in a test.
	Objects []runtime.RawExtension `json:"objects,omitempty"`
	// ExpectErrors are the fields that must be refused, "" for a denial of the whole; none means that the object
	// must pass.
	ExpectErrors []string `json:"expectErrors,omitempty"`
	// ExpectObject, when set, must equal the object that the hook gives.
	ExpectObject runtime.RawExtension `json:"expectObject,omitempty"`
}

// Condition types of a Module.
const (
	// ModuleFetched: the bytes are here. It is False with reason SourceAway, while Ready stays True, when a tag cannot
	// be resolved again.
	ModuleFetched = "Fetched"
	// ModuleVerified: digest and signature are what the spec wants.
	ModuleVerified = "Verified"
	ModuleCompiled = "Compiled"
	// ModuleReady is False with reason CapabilityNotGranted while the module waits for a capability that spec.capabilities
	// does not have; the message says which, and what is in force meanwhile.
	ModuleReady = "Ready"
)

// ModuleStatus is what the server makes of it.
type ModuleStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// Digest in force: that of the last good bytes. After a restart that could not bring them back it is kept, with
	// the condition Ready of reason Refused.
	Digest string `json:"digest,omitempty"`
	// Image in force, by the digest of its manifest, if it comes from a registry.
	Image string `json:"image,omitempty"`
	// Hooks that the module in force implements.
	Hooks []string `json:"hooks,omitempty"`
	// Capabilities that the module in force asks for.
	Capabilities []string `json:"capabilities,omitempty"`
	// LastError says why the newest change is not in force.
	LastError string `json:"lastError,omitempty"`
}
