package endpoints

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/warning"

	"weir.dev/weir/abi/document"
)

// decoded is a body: its document and what a strict reading objects to.
type decoded struct {
	doc *document.Document
	// objections in upstream's words: `unknown field "spec.foo"`, `duplicate field "spec.bar"`.
	objections []string
}

// decodeBody reads the object that a POST or PUT carries: parsed, of the kind of
// the path, coerced and pruned. What fieldValidation says of unknown and
// duplicate fields is done.
func (s *server) decodeBody(w http.ResponseWriter, req *http.Request, sc *scope, fieldValidation string) (*document.Document, error) {
	mediaType, err := bodyMediaType(req, sc.bodyMediaTypes()...)
	if err != nil {
		return nil, err
	}
	body, err := s.readBody(w, req)
	if err != nil {
		return nil, err
	}
	text := body
	if mediaType == mediaTypeProtobuf {
		mediaType = mediaTypeJSON
		if text, err = protobufToJSON(body, sc.kind); err != nil {
			return nil, sc.newUnrecognized(err, body)
		}
	}
	d, err := s.parse(mediaType, text)
	if err != nil {
		return nil, sc.newUnrecognized(err, body)
	}
	if d.doc.Root().Kind() != document.Object {
		return nil, sc.newUnrecognized(fmt.Errorf("json: cannot unmarshal %s into Go value of type map[string]interface {}", jsonTypeName(d.doc.Root())), body)
	}
	if d.doc, err = sc.checkKind(d.doc, body); err != nil {
		return nil, err
	}
	if d, err = sc.prune(d); err != nil {
		if apierrors.IsBadRequest(err) {
			err = sc.newCannotHandle(err.Error())
		}
		return nil, err
	}
	err = d.enforce(req.Context(), fieldValidation, sc.newCannotHandle)
	return d.doc, err
}

// newCannotHandle is the 400 for an object of the kind that is not read as one.
func (sc *scope) newCannotHandle(text string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s", sc.kind.Kind, sc.kind.Version, sc.kind.Kind, text))
}

// parse makes a document of bytes that a client sent.
func (s *server) parse(mediaType string, body []byte) (decoded, error) {
	var d decoded
	if mediaType == mediaTypeYAML {
		// What is JSON too is read as such: that is quicker and keeps numbers as they are.
		if doc, duplicates, err := document.Ingest(body, document.IngestOptions{}); err == nil && len(duplicates) == 0 {
			return decoded{doc: doc}, nil
		}
		raw, duplicates, err := yamlToJSON(body, s.MaxRequestBodyBytes)
		if err != nil {
			return d, fmt.Errorf("error converting YAML to JSON: %w", err)
		}
		if len(duplicates) > 0 {
			d.objections = append(d.objections, "yaml: unmarshal errors:\n  "+strings.Join(duplicates, "\n  "))
		}
		body = raw
	}
	doc, duplicates, err := document.Ingest(body, document.IngestOptions{})
	if err != nil {
		return d, err
	}
	for _, dup := range duplicates {
		d.objections = append(d.objections, fmt.Sprintf("duplicate field %q", dup.Path))
	}
	d.doc = doc
	return d, nil
}

// prune refuses what cannot be an object of the kind and drops unknown fields.
func (sc *scope) prune(d decoded) (decoded, error) {
	if sc.schema == nil {
		return d, nil
	}
	doc, err := sc.schema.Coerce(d.doc)
	if err != nil {
		return d, err
	}
	doc, unknown, err := sc.schema.Prune(doc)
	if err != nil {
		return d, err
	}
	for _, path := range unknown {
		d.objections = append(d.objections, fmt.Sprintf("unknown field %q", path))
	}
	d.doc = doc
	return d, nil
}

// enforce does with the objections what fieldValidation asks: Strict refuses with
// the error that newErr makes, Warn (the default) warns, Ignore is silent.
func (d decoded) enforce(ctx context.Context, fieldValidation string, newErr func(text string) error) error {
	if len(d.objections) == 0 {
		return nil
	}
	switch fieldValidation {
	case metav1.FieldValidationStrict:
		return newErr("strict decoding error: " + strings.Join(d.objections, ", "))
	case metav1.FieldValidationIgnore:
	default:
		for _, objection := range d.objections {
			lines := strings.TrimPrefix(objection, "yaml: unmarshal errors:\n")
			for _, line := range strings.Split(lines, "\n") {
				warning.AddWarning(ctx, "", strings.TrimSpace(line))
			}
		}
	}
	return nil
}

// checkKind compares apiVersion and kind with the path. A built-in kind may leave
// them out, as upstream's typed decoder allows.
func (sc *scope) checkKind(doc *document.Document, body []byte) (*document.Document, error) {
	apiVersion, kind := doc.Get("apiVersion"), doc.Get("kind")
	for _, v := range [...]struct {
		name string
		document.Value
	}{{"apiVersion", apiVersion}, {"kind", kind}} {
		if v.Exists() && v.Kind() != document.String && v.Kind() != document.Null {
			return nil, sc.newUnrecognized(fmt.Errorf("couldn't get version/kind; json parse error: %s is no string", v.name), body)
		}
	}
	want := sc.kind.GroupVersion().String()
	haveVersion, haveKind := apiVersion.String(), kind.String()
	if haveKind == "" {
		if sc.resource.Custom && sc.sub == nil {
			return nil, sc.newUnrecognized(fmt.Errorf("Object 'Kind' is missing in '%s'", body), body)
		}
		haveKind = sc.kind.Kind
	}
	if haveVersion == "" && !(sc.resource.Custom && sc.sub == nil) {
		haveVersion = want
	}
	gv, err := schema.ParseGroupVersion(haveVersion)
	if err != nil {
		return nil, sc.newUnrecognized(err, body)
	}
	switch {
	case haveKind != sc.kind.Kind && sc.serves(gv.WithKind(haveKind)):
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: the kind does not match the path of the request", haveKind, gv.Version, sc.kind.Kind))
	case haveKind != sc.kind.Kind:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: no kind %q is registered for version %q", haveKind, gv.Version, sc.kind.Kind, haveKind, haveVersion))
	case gv != sc.kind.GroupVersion():
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)", haveVersion, want))
	}
	if apiVersion.String() == haveVersion && kind.String() == haveKind {
		return doc, nil
	}
	return doc.Edit().Set(haveVersion, "apiVersion").Set(haveKind, "kind").Document()
}

// serves reports whether the catalog has a resource of that kind.
func (sc *scope) serves(gvk schema.GroupVersionKind) bool {
	for _, r := range sc.catalog.Resources() {
		if r.Group == gvk.Group && r.Kind == gvk.Kind && r.Version(gvk.Version) != nil {
			return true
		}
	}
	return false
}

// newUnrecognized is the 400 for a body that is no object at all.
func (sc *scope) newUnrecognized(err error, body []byte) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", sc.kind.Kind, err, summarize(body)))
}

// summarize shows the start of a body, in hex where it is no JSON object.
func summarize(body []byte) string {
	const most = 30
	text := func(b []byte) string { return string(b) }
	switch {
	case len(body) == 0:
		return "<empty>"
	case body[0] != '{':
		text = hex.EncodeToString
	}
	if len(body) > most {
		return text(body[:most]) + " ..."
	}
	return text(body)
}

func jsonTypeName(v document.Value) string {
	switch v.Kind() {
	case document.Array:
		return "array"
	case document.String:
		return "string"
	case document.Number:
		return "number"
	case document.Bool:
		return "bool"
	default:
		return "null"
	}
}
