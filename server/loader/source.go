package loader

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/host/source"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

var (
	configMapResource = schema.GroupResource{Resource: "configmaps"}
	secretResource    = schema.GroupResource{Resource: "secrets"}
)

// filePause is the time between two looks at a file.
const filePause = 2 * time.Second

// followed is what a Module is loaded from, if it can change without the Module. The zero value is none.
type followed struct {
	configMap v1alpha1.ConfigMapKey
	secret    v1alpha1.SecretKey
	file      string
	image     v1alpha1.ModuleImage // a tag; without its secret
	login     v1alpha1.SecretName
}

// followedBy returns what of a source is followed. What is inline, at an address or pinned by its digest never changes.
func followedBy(s *v1alpha1.ModuleSource) followed {
	switch {
	case s.ConfigMapRef != nil:
		return followed{configMap: *s.ConfigMapRef}
	case s.SecretRef != nil:
		return followed{secret: *s.SecretRef}
	case s.OCI != nil && !source.PinnedImage(s.OCI.Image):
		f := followed{image: *s.OCI}
		f.image.PullSecretRef = nil
		if s.OCI.PullSecretRef != nil {
			f.login = *s.OCI.PullSecretRef
		}
		return f
	}
	return followed{file: s.File}
}

// sourceWatch follows what a Module is loaded from. A nil *sourceWatch follows nothing.
type sourceWatch struct {
	what   followed
	cancel context.CancelFunc
	// told is set when it is known what the source has. Loader.mu guards it and what follows.
	told bool
	// version names what the source has; of an image, the digest of its manifest, "" before the first was fetched.
	version string
	// object is the ConfigMap or Secret, nil when there is none.
	object *document.Document
	// away is why a tag could not be resolved again at the last attempt.
	away error
}

func (w *sourceWatch) stop() {
	if w != nil {
		w.cancel()
	}
}

// follows reports whether a source is that of w.
func (w *sourceWatch) follows(what followed) bool {
	if w == nil {
		return what == followed{}
	}
	return w.what == what
}

// followSourceLocked has the source of a Module followed in place of the one it had.
func (l *Loader) followSourceLocked(s *moduleState) {
	what := followedBy(&s.object.Spec.Source)
	if s.source.follows(what) {
		return
	}
	s.source.stop()
	s.source = nil
	w := &sourceWatch{what: what}
	tell := func(version string, object *document.Document) {
		l.sourceChanged(s, w, version, object)
	}
	switch {
	case what.configMap != v1alpha1.ConfigMapKey{}:
		w.cancel = l.followKey(configMapResource, what.configMap, tell)
	case what.secret != v1alpha1.SecretKey{}:
		w.cancel = l.followKey(secretResource, v1alpha1.ConfigMapKey(what.secret), tell)
	case what.file != "":
		w.cancel = l.background.start(func(ctx context.Context) { l.pollFile(ctx, what.file, tell) })
	case what.image.Image != "":
		w.told = true // a load finds out
		image := s.object.Spec.Source.OCI
		w.cancel = l.background.start(func(ctx context.Context) { l.pollImage(ctx, image, s, w) })
	}
	if w.cancel != nil {
		s.source = w
	}
}

// followKey watches the object that has a key; nil when its resource is not served.
func (l *Loader) followKey(gr schema.GroupResource, key v1alpha1.ConfigMapKey, tell func(string, *document.Document)) context.CancelFunc {
	watcher, ok := l.builtin(gr).(rest.Watcher)
	if !ok {
		return nil
	}
	follower := rest.NewFollower(gr.String(), oneObject{watcher, key.Namespace, key.Name},
		keyHandler{members: membersOf(gr), key: key.Key, tell: tell}, l.cfg.Logger)
	return l.background.start(follower.Run)
}

// membersOf returns the member of an object that has bytes, in base64.
func membersOf(gr schema.GroupResource) string {
	if gr == secretResource {
		return "data"
	}
	return "binaryData"
}

// sourceChanged starts a load when a source has something else than before.
func (l *Loader) sourceChanged(s *moduleState, w *sourceWatch, version string, object *document.Document) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.source != w || l.modules[s.object.Name] != s {
		return // it follows another one by now, or is gone
	}
	w.object = object
	if w.told && w.version == version {
		return
	}
	w.told, w.version = true, version
	l.startLoadLocked(s)
}

// oneObject watches a single object of a namespaced resource.
type oneObject struct {
	rest.Watcher
	namespace, name string
}

// Watch implements rest.Watcher.
func (o oneObject) Watch(ctx context.Context, opts *internalversion.ListOptions) (rest.Watch, error) {
	selected := *opts
	selected.FieldSelector = fields.OneTermEqualSelector("metadata.name", o.name)
	return o.Watcher.Watch(request.WithNamespace(ctx, o.namespace), &selected)
}

// keyHandler follows one key of one ConfigMap or Secret.
type keyHandler struct {
	members, key string
	tell         func(version string, object *document.Document)
}

// Replace implements rest.FollowHandler.
func (h keyHandler) Replace(objects []*document.Document) {
	var obj *document.Document
	for _, o := range objects {
		obj = o
	}
	h.changed(obj)
}

// Change implements rest.FollowHandler.
func (h keyHandler) Change(e rest.Event) {
	if e.Type == "DELETED" {
		h.changed(nil)
		return
	}
	h.changed(e.Object)
}

// changed names what the key has, so that other changes of the object start no load.
func (h keyHandler) changed(obj *document.Document) {
	version := "no object"
	if obj != nil {
		version = "no key"
		if v := obj.Get(h.members, h.key); v.Exists() {
			version = host.Digest([]byte(v.String()))
		}
	}
	h.tell(version, obj)
}

// pollFile tells when the size or the time of a file changes, and at once what they are. A file that is
// written in place may be read half: that is refused as any broken module, and read again at the next look. A file
// that is renamed into place is read once.
func (l *Loader) pollFile(ctx context.Context, name string, tell func(version string, _ *document.Document)) {
	ticker := l.cfg.Clock.NewTicker(filePause)
	defer ticker.Stop()
	for {
		tell(l.artefacts.fileVersion(name), nil)
		select {
		case <-ticker.C():
		case <-ctx.Done():
			return
		}
	}
}
