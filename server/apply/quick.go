package apply

import (
	"bytes"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"weir.dev/weir/abi/document"
)

// The ways of the writes that are made most, on documents alone. Each says ok only where it is sure of what
// structured-merge-diff would come to; everything else goes there.

// lastApplied is the annotation that upstream keeps up to date for applies of kubectl.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// rootType resolves the merge type of the kind, nil where there is no schema.
func (t *Tracker) rootType() *mergeType {
	if t.config.Types.source == nil {
		return nil // types are deduced from the objects
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(t.config.Kind)
	value, err := t.types.ObjectToTyped(empty)
	if err != nil {
		return nil
	}
	root := (&mergeTypes{schema: value.Schema(), named: map[string]*mergeType{}}).resolve(value.TypeRef())
	if root == nil || !root.isMap || root.mapAtomic {
		return nil
	}
	return root
}

// fitsRoot reports whether an object is of the kind, its managedFields apart, which the library takes out.
func (t *Tracker) fitsRoot(root document.Value) bool {
	if root.Get("apiVersion").String() != t.apiVersion || root.Get("kind").String() != t.config.Kind.Kind {
		return false
	}
	for name, member := range root.Members() {
		sub, _ := t.root.member(name)
		if name != "metadata" || sub == nil || member.Kind() != document.Object {
			if !sub.fits(member) {
				return false
			}
			continue
		}
		for name, member := range member.Members() {
			if child, _ := sub.member(name); name != "managedFields" && !child.fits(member) {
				return false
			}
		}
	}
	return true
}

// self is the entry of a manager without its fields.
func (t *Tracker) self(manager string, operation metav1.ManagedFieldsOperationType) owner {
	if manager == "" {
		manager = "unknown"
	}
	return owner{manager: manager, operation: string(operation), subresource: t.config.Subresource}
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

// quickUpdate is Update for a create, and for an update that changes nothing but values of fields that manager owns
// already and alone.
func (t *Tracker) quickUpdate(live, obj *document.Document, manager string) (*document.Document, bool) {
	root := obj.Root()
	if t.root == nil || !isPlainText(manager, `"\<>&`) || !t.fitsRoot(root) {
		return nil, false
	}
	managed := root.Get("metadata", "managedFields")
	self := t.self(manager, metav1.ManagedFieldsOperationUpdate)
	for _, path := range t.reset {
		// What is below can only skip whole members of the root.
		if len(path) > 1 && !live.Get(path...).Equal(root.Get(path...)) {
			return nil, false
		}
	}
	if live == nil {
		if managed.Exists() {
			return nil, false
		}
		f := fieldset{added: true, skip: t.config.Reset}
		fields := f.encode(root, t.root)
		if fields == nil {
			return nil, false
		}
		self.time = now()
		raw := append(appendOwner(append(make([]byte, 0, len(fields)+256), '['), self, t.apiVersion, fields), ']')
		return setManaged(obj, raw)
	}
	had := live.Get("metadata", "managedFields")
	if managed.Exists() && t.config.Subresource == "" && !managed.Equal(had) {
		return nil, false
	}
	list, ok := t.owners(live)
	if !ok {
		return nil, false
	}
	var c changes
	c.compare(live.Root(), root, t.root, t.config.Reset)
	if c.unsure {
		return nil, false
	}
	taken, ok := disjoint(list, find(list, self), c.list)
	switch {
	case !ok:
		return nil, false
	case taken:
		return setManaged(obj, t.touched(list, self))
	case managed.Equal(had):
		return obj, true
	}
	return setManaged(obj, had.Raw())
}

// quickApply is Apply for a configuration with the same fields as the last one, of which others own none that
// changes. It gives live itself where nothing does.
func (t *Tracker) quickApply(live, applied *document.Document, manager string) (*document.Document, bool) {
	if t.root == nil || live == nil || !isPlainText(manager, `"\<>&`) || !t.fitsRoot(applied.Root()) {
		return nil, false
	}
	if t.config.Refuse != nil {
		if errs, err := t.config.Refuse(applied); err != nil || len(errs) > 0 {
			return nil, false
		}
	}
	if manager == "kubectl" && live.Get("metadata", "annotations", lastApplied).Exists() {
		return nil, false
	}
	for _, path := range t.reset {
		if applied.Get(path...).Exists() {
			return nil, false
		}
	}
	for name := range applied.Get("metadata").Members() {
		if isSystem(name) && name != "name" && name != "namespace" {
			return nil, false
		}
	}
	list, ok := t.owners(live)
	self := t.self(manager, metav1.ManagedFieldsOperationApply)
	at := find(list, self)
	if !ok || at < 0 {
		return nil, false
	}
	f := fieldset{}
	if fields := f.encode(applied.Root(), t.root); fields == nil || !bytes.Equal(fields, list[at].fields.Raw()) {
		return nil, false
	}
	c := changes{partial: true}
	c.compare(live.Root(), applied.Root(), t.root, nil)
	if c.unsure {
		return nil, false
	}
	if len(c.list) == 0 {
		return live, true
	}
	for i := range c.list {
		if c.list[i].system {
			return nil, false
		}
	}
	if _, ok := disjoint(list, at, c.list); !ok {
		return nil, false
	}
	edit := live.Edit()
	for i := range c.list {
		edit.Set(c.list[i].value, c.list[i].path...)
	}
	result, err := edit.Set(document.FromCanonical(t.touched(list, self)), "metadata", "managedFields").Document()
	return result, err == nil
}

// owners reads the managedFields of an object that fits the kind. ok is false where the library must see to them.
func (t *Tracker) owners(live *document.Document) (list []owner, ok bool) {
	list, ok = owners(live.Get("metadata", "managedFields"), t.apiVersion)
	if !ok || !slices.IsSortedFunc(list, compareOwners) || !t.fitsRoot(live.Root()) {
		return nil, false
	}
	for i := range list {
		if !isSettled(list[i].fields, t.root) {
			return nil, false
		}
	}
	return list, true
}

// disjoint reports whether the changes take no field from anybody and give none to the owner at self, which is -1
// where there is none. taken says that fields of that owner change.
func disjoint(list []owner, self int, changed []change) (taken, ok bool) {
	for i := range changed {
		for k := range list {
			if owns := list[k].owns(changed[i].fields); owns != (k == self && !changed[i].system) {
				return false, false
			}
		}
		if !changed[i].system {
			taken = true
		}
	}
	return taken, !taken || self >= 0
}

// touched returns managedFields whose entry of self has changed now.
func (t *Tracker) touched(list []owner, self owner) []byte {
	list[find(list, self)].time = now()
	slices.SortStableFunc(list, compareOwners)
	size := 0
	for i := range list {
		size += len(list[i].fields.Raw()) + 256
	}
	return appendOwners(make([]byte, 0, size), list, t.apiVersion)
}

func setManaged(obj *document.Document, raw []byte) (*document.Document, bool) {
	result, err := obj.Edit().Set(document.FromCanonical(raw), "metadata", "managedFields").Document()
	return result, err == nil
}
