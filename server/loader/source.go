package loader

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

var configMapResource = schema.GroupResource{Resource: "configmaps"}

// filePause is the time between two looks at a file.
const filePause = 2 * time.Second

// sourceWatch follows what a Module is loaded from: one ConfigMap, or one file. A nil *sourceWatch follows
// nothing.
type sourceWatch struct {
	source v1alpha1.ModuleSource
	cancel context.CancelFunc
	// told is set when it is known what the source has. Loader.mu guards it and what follows.
	told bool
	// version names what the source has.
	version string
	// configMap is nil when there is none.
	configMap *document.Document
}

func (w *sourceWatch) stop() {
	if w != nil {
		w.cancel()
	}
}

// follows reports whether a source is that of w.
func (w *sourceWatch) follows(source *v1alpha1.ModuleSource) bool {
	if w == nil {
		return source.ConfigMapRef == nil && source.File == ""
	}
	if a, b := w.source.ConfigMapRef, source.ConfigMapRef; a != nil && b != nil {
		return *a == *b
	}
	return w.source.ConfigMapRef == nil && source.ConfigMapRef == nil && w.source.File == source.File
}

// followSourceLocked has the source of a Module followed in place of the one it had.
func (l *Loader) followSourceLocked(s *moduleState) {
	if s.source.follows(&s.object.Spec.Source) {
		return
	}
	s.source.stop()
	s.source = nil
	w := &sourceWatch{source: s.object.Spec.Source}
	w.source.Inline = nil // may be large
	tell := func(version string, configMap *document.Document) {
		l.sourceChanged(s, w, version, configMap)
	}
	switch {
	case w.source.ConfigMapRef != nil:
		ref := *w.source.ConfigMapRef
		configMaps, ok := l.builtin(configMapResource).(rest.Watcher)
		if !ok {
			return
		}
		follower := rest.NewFollower(configMapResource.String(), oneObject{configMaps, ref.Namespace, ref.Name},
			configMapHandler{key: ref.Key, tell: tell}, l.cfg.Logger)
		w.cancel = l.background.start(follower.Run)
	case w.source.File != "":
		w.cancel = l.background.start(func(ctx context.Context) { l.pollFile(ctx, w.source.File, tell) })
	default:
		return
	}
	s.source = w
}

// sourceChanged starts a load when a source has something else than before.
func (l *Loader) sourceChanged(s *moduleState, w *sourceWatch, version string, configMap *document.Document) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.source != w || l.modules[s.object.Name] != s {
		return // it follows another one by now, or is gone
	}
	w.configMap = configMap
	if w.told && w.version == version {
		return
	}
	w.told, w.version = true, version
	l.startLoadLocked(s)
}

// sourceBytes returns what reads the source, as it is now, off the lock.
func (l *Loader) sourceBytes(s *moduleState) func() ([]byte, error) {
	source := &s.object.Spec.Source
	switch {
	case len(source.Inline) > 0:
		return func() ([]byte, error) { return source.Inline, nil }
	case source.File != "":
		return func() ([]byte, error) { return l.artefacts.file(source.File) }
	case source.ConfigMapRef != nil && s.source != nil:
		obj := s.source.configMap
		return func() ([]byte, error) { return configMapKey(obj, source.ConfigMapRef) }
	}
	return func() ([]byte, error) {
		return nil, errors.New("spec.source names no source: set inline, configMapRef or file")
	}
}

func configMapKey(obj *document.Document, ref *v1alpha1.ConfigMapKey) ([]byte, error) {
	if obj == nil {
		return nil, apierrors.NewNotFound(configMapResource, ref.Namespace+"/"+ref.Name)
	}
	v := obj.Get("binaryData", ref.Key)
	if !v.Exists() {
		if obj.Get("data", ref.Key).Exists() {
			return nil, fmt.Errorf("configmap %s/%s has key %q in data: a module is binary, put it in binaryData", ref.Namespace, ref.Name, ref.Key)
		}
		return nil, fmt.Errorf("configmap %s/%s has no key %q in binaryData", ref.Namespace, ref.Name, ref.Key)
	}
	data, err := base64.StdEncoding.DecodeString(v.String())
	if err != nil {
		return nil, fmt.Errorf("configmap %s/%s key %q: %w", ref.Namespace, ref.Name, ref.Key, err)
	}
	return data, nil
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

// configMapHandler follows one key of one ConfigMap.
type configMapHandler struct {
	key  string
	tell func(version string, configMap *document.Document)
}

// Replace implements rest.FollowHandler.
func (h configMapHandler) Replace(objects []*document.Document) {
	var obj *document.Document
	for _, o := range objects {
		obj = o
	}
	h.changed(obj)
}

// Change implements rest.FollowHandler.
func (h configMapHandler) Change(e rest.Event) {
	if e.Type == "DELETED" {
		h.changed(nil)
		return
	}
	h.changed(e.Object)
}

// changed names what the key has, so that other changes of the ConfigMap start no load.
func (h configMapHandler) changed(obj *document.Document) {
	version := "no object"
	if obj != nil {
		version = "no key"
		if v := obj.Get("binaryData", h.key); v.Exists() {
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
