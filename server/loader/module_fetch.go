package loader

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/host/source"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

// dockerConfigKey of a Secret has the logins of registries.
const dockerConfigKey = ".dockerconfigjson"

// fetch gets the bytes of the source and verifies them.
func (l *moduleLoad) fetch(ctx context.Context) (*source.Artefact, error) {
	if a := l.keptBytes(ctx); a != nil {
		return a, nil
	}
	from, err := l.openSource(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	a, err := from.Fetch(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch: %w", err)
	}
	l.progress.fetched, l.progress.from = true, "from "+from.String()
	if a.Image != "" {
		l.progress.from = "from " + a.Image
		l.fetchedImage(a.ImageDigest())
	}
	want, err := l.expectation(ctx)
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	switch err := l.cfg.Sources.Verify(ctx, from, a, want); {
	case errors.Is(err, source.ErrDigest) && l.object.Spec.Source.SecretRef != nil:
		// Who reads the status need not read the secret: its digest tells a short one.
		return nil, fmt.Errorf("verify: %w: the secret's key has another digest than %s", source.ErrDigest, want.Digest)
	case err != nil:
		return nil, fmt.Errorf("verify: %w", err)
	}
	l.progress.verified, l.progress.by = true, verifiedBy(want)
	l.reached()
	return a, nil
}

// fetchedImage notes which manifest a tag gave, so that the same is not loaded again.
func (l *moduleLoad) fetchedImage(digest string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.currentLocked(); s != nil && s.source == l.watch && l.watch != nil && l.watch.what.image.Image != "" {
		l.watch.version, l.watch.away = digest, nil
	}
}

func verifiedBy(want *source.Expectation) string {
	switch {
	case want.Keys != nil && want.Digest != "":
		return "digest and signature are good"
	case want.Keys != nil:
		return "the signature is good"
	case want.Digest != "":
		return "the digest is good"
	}
	return "neither a digest nor a signature is asked for"
}

// keptBytes returns the server's own copy of a source in the network, if spec.source.digest and what else is asked for
// prove that it is the same; otherwise nil.
func (l *moduleLoad) keptBytes(ctx context.Context) *source.Artefact {
	spec := &l.object.Spec
	if spec.Source.Digest == "" || spec.Source.URL == "" && spec.Source.OCI == nil || spec.Verify != nil && len(spec.Verify.Signature) == 0 {
		return nil
	}
	data, err := l.artefacts.get(spec.Source.Digest)
	if err != nil {
		return nil // the source has it
	}
	from := source.Given("the server's own copy", data)
	a, err := from.Fetch(ctx)
	if err != nil {
		return nil
	}
	want, err := l.expectation(ctx)
	if err != nil || l.cfg.Sources.Verify(ctx, from, a, want) != nil {
		return nil // what is signed may be the packed bytes
	}
	if l.object.Status.Digest == a.Digest {
		a.Image = l.object.Status.Image
	}
	l.progress.fetched, l.progress.from = true, "from the server's own copy of these bytes"
	l.progress.verified, l.progress.by = true, verifiedBy(want)
	l.reached()
	return a
}

// openSource returns the source of the module.
func (l *moduleLoad) openSource(ctx context.Context) (source.Source, error) {
	s := &l.object.Spec.Source
	switch {
	case len(s.Inline) > 0:
		return source.Given("spec.source.inline", s.Inline), nil
	case s.File != "":
		data, err := l.artefacts.file(s.File)
		return source.Given("file "+s.File, data), err
	case s.ConfigMapRef != nil:
		data, err := bytesOf(configMapResource, l.given, *s.ConfigMapRef)
		return source.Given(keyName(configMapResource, *s.ConfigMapRef), data), err
	case s.SecretRef != nil:
		ref := v1alpha1.ConfigMapKey(*s.SecretRef)
		data, err := bytesOf(secretResource, l.given, ref)
		return source.Given(keyName(secretResource, ref), data), err
	case s.URL != "":
		return l.cfg.Sources.URL(s.URL)
	case s.OCI != nil:
		return l.openImage(ctx, s.OCI)
	}
	return nil, errors.New("spec.source names no source: set one of inline, configMapRef, secretRef, file, url and oci")
}

// openImage returns an image with the login that its Secret has now.
func (l *Loader) openImage(ctx context.Context, image *v1alpha1.ModuleImage) (*source.Image, error) {
	options := source.ImageOptions{PlainHTTP: image.PlainHTTP}
	if ref := image.PullSecretRef; ref != nil {
		key := v1alpha1.ConfigMapKey{Namespace: ref.Namespace, Name: ref.Name, Key: dockerConfigKey}
		data, err := l.readKey(ctx, secretResource, key)
		if err != nil {
			return nil, fmt.Errorf("pull secret: %w", err)
		}
		if options.Credentials, err = source.ParseDockerConfig(data); err != nil {
			return nil, fmt.Errorf("pull %s: %w", keyName(secretResource, key), err)
		}
	}
	return l.cfg.Sources.Image(image.Image, options)
}

// expectation returns what the spec wants of the bytes.
func (l *moduleLoad) expectation(ctx context.Context) (*source.Expectation, error) {
	want := &source.Expectation{Digest: l.object.Spec.Source.Digest}
	v := l.object.Spec.Verify
	if v == nil {
		return want, nil
	}
	text := []byte(v.PublicKey)
	var err error
	switch from := v.PublicKeyFrom; {
	case from == nil:
	case from.ConfigMapRef != nil:
		text, err = l.readKey(ctx, configMapResource, *from.ConfigMapRef)
	case from.SecretRef != nil:
		text, err = l.readKey(ctx, secretResource, v1alpha1.ConfigMapKey(*from.SecretRef))
	}
	if err != nil {
		return nil, fmt.Errorf("public key: %w", err)
	}
	want.Keys, err = source.ParsePublicKeys(text)
	want.Signature, want.SignatureURL = v.Signature, v.SignatureURL
	return want, err
}

// readKey reads a key of a ConfigMap, text or binary, or of a Secret.
func (l *Loader) readKey(ctx context.Context, gr schema.GroupResource, key v1alpha1.ConfigMapKey) ([]byte, error) {
	getter, ok := l.builtin(gr).(rest.Getter)
	if !ok {
		return nil, fmt.Errorf("%s are not served", gr)
	}
	obj, err := getter.Get(request.WithNamespace(ctx, key.Namespace), key.Name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if text := obj.Get("data", key.Key); gr == configMapResource && text.Exists() {
		return []byte(text.String()), nil
	}
	return bytesOf(gr, obj, key)
}

func keyName(gr schema.GroupResource, key v1alpha1.ConfigMapKey) string {
	return fmt.Sprintf("%s %s/%s key %q", singular(gr), key.Namespace, key.Name, key.Key)
}

func singular(gr schema.GroupResource) string {
	if gr == secretResource {
		return "secret"
	}
	return "configmap"
}

// bytesOf returns the bytes below a key of an object, which is nil when there is none.
func bytesOf(gr schema.GroupResource, obj *document.Document, key v1alpha1.ConfigMapKey) ([]byte, error) {
	if obj == nil {
		return nil, apierrors.NewNotFound(gr, key.Namespace+"/"+key.Name)
	}
	members := membersOf(gr)
	v := obj.Get(members, key.Key)
	if !v.Exists() {
		if gr == configMapResource && obj.Get("data", key.Key).Exists() {
			return nil, fmt.Errorf("configmap %s/%s has key %q in data: a module is binary, put it in binaryData", key.Namespace, key.Name, key.Key)
		}
		return nil, fmt.Errorf("%s %s/%s has no key %q in %s", singular(gr), key.Namespace, key.Name, key.Key, members)
	}
	data, err := base64.StdEncoding.DecodeString(v.String())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyName(gr, key), err)
	}
	return data, nil
}
