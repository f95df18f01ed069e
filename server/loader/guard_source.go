package loader

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"weir.dev/weir/host/source"
	"weir.dev/weir/server/apis/v1alpha1"
)

// maxSignatureBytes bounds spec.verify.signature.
const maxSignatureBytes = 4 << 10

// one counts what is set.
func one(set ...bool) bool {
	n := 0
	for _, s := range set {
		if s {
			n++
		}
	}
	return n == 1
}

// member is a field that must not be empty.
type member struct{ name, value string }

func required(path *field.Path, members ...member) field.ErrorList {
	var errs field.ErrorList
	for _, m := range members {
		if m.value == "" {
			errs = append(errs, field.Required(path.Child(m.name), ""))
		}
	}
	return errs
}

func validateKey(key *v1alpha1.ConfigMapKey, path *field.Path) field.ErrorList {
	if key == nil {
		return nil
	}
	return required(path, member{"namespace", key.Namespace}, member{"name", key.Name}, member{"key", key.Key})
}

func validateSource(s *v1alpha1.ModuleSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !one(len(s.Inline) > 0, s.ConfigMapRef != nil, s.SecretRef != nil, s.File != "", s.URL != "", s.OCI != nil) {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "exactly one of inline, configMapRef, secretRef, file, url and oci is required"))
	}
	errs = append(errs, validateKey(s.ConfigMapRef, path.Child("configMapRef"))...)
	errs = append(errs, validateKey((*v1alpha1.ConfigMapKey)(s.SecretRef), path.Child("secretRef"))...)
	if s.File != "" && !filepath.IsLocal(s.File) {
		errs = append(errs, field.Invalid(path.Child("file"), s.File, "must be a path below the server's module directory (--module-dir), without .. and not absolute"))
	}
	if s.URL != "" {
		if err := source.CheckURL(s.URL); err != nil {
			errs = append(errs, field.Invalid(path.Child("url"), field.OmitValueType{}, err.Error())) // it may have a password
		}
		if s.Digest == "" {
			errs = append(errs, field.Required(path.Child("digest"), "what an address has can change: say which module it must be, as weir module inspect prints it"))
		}
	}
	if s.OCI != nil {
		errs = append(errs, validateImage(s.OCI, path.Child("oci"))...)
	}
	if s.Digest != "" {
		if source.CheckDigest(s.Digest) != nil {
			errs = append(errs, field.Invalid(path.Child("digest"), s.Digest, "must be sha256: and 64 hexadecimal digits in lower case"))
		}
	}
	return errs
}

func validateImage(image *v1alpha1.ModuleImage, path *field.Path) field.ErrorList {
	errs := required(path, member{"image", image.Image})
	if image.Image != "" {
		if err := source.CheckImage(image.Image, image.PlainHTTP); err != nil {
			errs = append(errs, field.Invalid(path.Child("image"), field.OmitValueType{}, err.Error()))
		}
	}
	if ref := image.PullSecretRef; ref != nil {
		errs = append(errs, required(path.Child("pullSecretRef"), member{"namespace", ref.Namespace}, member{"name", ref.Name})...)
	}
	return errs
}

func validateVerify(spec *v1alpha1.ModuleSpec, path *field.Path) field.ErrorList {
	v := spec.Verify
	if v == nil {
		return nil
	}
	var errs field.ErrorList
	if !one(v.PublicKey != "", v.PublicKeyFrom != nil) {
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "exactly one of publicKey and publicKeyFrom is required"))
	}
	if v.PublicKey != "" {
		if _, err := source.ParsePublicKeys([]byte(v.PublicKey)); err != nil {
			errs = append(errs, field.Invalid(path.Child("publicKey"), field.OmitValueType{}, err.Error()))
		}
	}
	if from, at := v.PublicKeyFrom, path.Child("publicKeyFrom"); from != nil {
		if !one(from.ConfigMapRef != nil, from.SecretRef != nil) {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "exactly one of configMapRef and secretRef is required"))
		}
		errs = append(errs, validateKey(from.ConfigMapRef, at.Child("configMapRef"))...)
		errs = append(errs, validateKey((*v1alpha1.ConfigMapKey)(from.SecretRef), at.Child("secretRef"))...)
	}
	switch {
	case len(v.Signature) > 0 && v.SignatureURL != "":
		errs = append(errs, field.Invalid(path, field.OmitValueType{}, "at most one of signature and signatureURL may be set"))
	case len(v.Signature) == 0 && v.SignatureURL == "" && spec.Source.OCI == nil:
		errs = append(errs, field.Required(path.Child("signature"), "only an image in a registry has its signature beside it: give signature or signatureURL"))
	}
	if len(v.Signature) > maxSignatureBytes {
		errs = append(errs, field.Invalid(path.Child("signature"), field.OmitValueType{}, fmt.Sprintf("must have at most %d bytes", maxSignatureBytes)))
	}
	if v.SignatureURL != "" {
		if err := source.CheckURL(v.SignatureURL); err != nil {
			errs = append(errs, field.Invalid(path.Child("signatureURL"), field.OmitValueType{}, err.Error()))
		}
	}
	return errs
}
