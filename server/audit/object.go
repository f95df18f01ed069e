package audit

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"

	"weir.dev/weir/abi/document"
)

const (
	// maxObjectBytes bounds what is recorded of an answer. An event holds a copy of it: a list has no bound of its own.
	maxObjectBytes = 10 << 20
	// truncatedAnnotation is upstream's, of an event whose objects were left out.
	truncatedAnnotation = "audit.k8s.io/truncated"
	// secretMessage is the message of an answer about a Secret, where its content is not recorded.
	secretMessage = "not recorded: it may quote the Secret"
)

// mostObjectBytes is the size from which on an object is not recorded: where each backend would truncate it anyway, there
// is no need to copy it.
func (c *Config) mostObjectBytes() int {
	most := int64(0)
	for _, backend := range []struct {
		used bool
		*Delivery
	}{{c.Log.Path != "", &c.Log.Delivery}, {c.Webhook.ConfigFile != "", &c.Webhook.Delivery}} {
		switch {
		case backend.used && backend.TruncateEnabled:
			most = max(most, backend.Truncate.MaxEventSize)
		case backend.used:
			most = maxObjectBytes
		}
	}
	return int(min(most, maxObjectBytes))
}

// RecordsObjects reports whether the object of the request is recorded, beside its name.
func (r *Request) RecordsObjects() bool {
	return r != nil && r.level.GreaterOrEqual(auditinternal.LevelRequest)
}

// Object records the object that a client sent, in the version of the request: its name, and the object itself at the
// level Request. A later one replaces it.
func (r *Request) Object(ctx context.Context, obj *document.Document, resource schema.GroupVersionResource, subresource string) {
	if r == nil {
		return
	}
	meta := obj.Get("metadata")
	raw := &rawObject{ObjectMeta: metav1.ObjectMeta{
		Name: meta.Get("name").String(), Namespace: meta.Get("namespace").String(),
		UID: types.UID(meta.Get("uid").String()), ResourceVersion: meta.Get("resourceVersion").String(),
	}}
	if r.RecordsObjects() {
		raw.text = r.object(obj)
	}
	audit.LogRequestObject(ctx, raw, schema.GroupVersion{}, resource, subresource, rawSerializer{})
}

// Patch records a patch, which is JSON, as what the client sent.
func (r *Request) Patch(patch []byte) {
	if r.RecordsObjects() {
		r.event.LogRequestPatch(patch)
	}
}

// Status records what a Status answers, and at the level RequestResponse the Status itself. Below the level Request, that
// about a Secret is recorded without its texts.
func (r *Request) Status(status *metav1.Status) {
	if r == nil {
		return
	}
	if r.secret {
		status = withoutTexts(status)
	}
	var obj *runtime.Unknown
	if r.level.GreaterOrEqual(auditinternal.LevelRequestResponse) {
		if raw, err := json.Marshal(status); err == nil { // a Status has nothing that does not marshal
			obj = &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
		}
	}
	r.event.LogResponseObject(status, obj)
}

// withoutTexts returns what a Status says in its codes. Its message, and what it says of fields, may quote the object: a
// value that is invalid, or all of a patched object.
func withoutTexts(status *metav1.Status) *metav1.Status {
	out := &metav1.Status{Status: status.Status, Reason: status.Reason, Code: status.Code}
	if status.Message != "" {
		out.Message = secretMessage
	}
	if d := status.Details; d != nil {
		out.Details = &metav1.StatusDetails{Name: d.Name, Group: d.Group, Kind: d.Kind, UID: d.UID, RetryAfterSeconds: d.RetryAfterSeconds}
		for _, cause := range d.Causes {
			out.Details.Causes = append(out.Details.Causes, metav1.StatusCause{Type: cause.Type})
		}
	}
	return out
}

// Answer records, at the level RequestResponse, the JSON value that chunks make up together: it is copied. One that is too
// large is left out, and an annotation says so.
func (r *Request) Answer(ctx context.Context, chunks [][]byte) {
	if r == nil || r.level.Less(auditinternal.LevelRequestResponse) {
		return
	}
	size := 0
	for _, chunk := range chunks {
		size += len(chunk)
	}
	if size > r.most {
		audit.AddAuditAnnotation(ctx, truncatedAnnotation, "true")
		return
	}
	raw := make([]byte, 0, size)
	for _, chunk := range chunks {
		raw = append(raw, chunk...)
	}
	if r.omitManagedFields {
		if doc, err := document.Parse(raw); err == nil {
			raw = r.object(doc)
		}
	}
	r.event.LogResponseObject(nil, &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON})
}

// object returns the bytes of an object, without managedFields where the policy says so.
func (r *Request) object(obj *document.Document) []byte {
	if !r.omitManagedFields {
		return obj.Bytes()
	}
	return appendPlain(nil, obj.Root())
}

// appendPlain appends an object, or those of a list or Table, without managedFields.
func appendPlain(dst []byte, obj document.Value) []byte {
	kind := obj.Get("kind").String()
	return appendObject(dst, obj, func(dst []byte, name string, value document.Value) []byte {
		switch {
		case name == "metadata":
			return appendObject(dst, value, func(dst []byte, name string, value document.Value) []byte {
				if name == "managedFields" {
					return nil
				}
				return append(dst, value.Raw()...)
			})
		case name == "items" && strings.HasSuffix(kind, "List"), name == "rows" && kind == "Table":
			return appendItems(dst, value)
		case name == "object" && kind == "": // of a row
			return appendPlain(dst, value)
		}
		return append(dst, value.Raw()...)
	})
}

func appendItems(dst []byte, items document.Value) []byte {
	if items.Kind() != document.Array {
		return append(dst, items.Raw()...)
	}
	dst = append(dst, '[')
	for i, item := range items.Elements() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendPlain(dst, item)
	}
	return append(dst, ']')
}

// appendObject appends an object whose members member appends; nil leaves one out. What is no object is appended as it is.
func appendObject(dst []byte, obj document.Value, member func(dst []byte, name string, value document.Value) []byte) []byte {
	if obj.Kind() != document.Object {
		return append(dst, obj.Raw()...)
	}
	dst = append(dst, '{')
	start := len(dst)
	for name, value := range obj.Members() {
		before := len(dst)
		if before > start {
			dst = append(dst, ',')
		}
		if with := member(append(document.AppendString(dst, name), ':'), name, value); with != nil {
			dst = with
		} else {
			dst = dst[:before]
		}
	}
	return append(dst, '}')
}

// rawObject shows upstream's audit an object as its name and its bytes.
type rawObject struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	text []byte
}

// DeepCopyObject implements runtime.Object. The bytes are never written to.
func (o *rawObject) DeepCopyObject() runtime.Object {
	c := *o
	return &c
}

// rawSerializer encodes rawObjects as the bytes that they are.
type rawSerializer struct{}

// SupportedMediaTypes implements runtime.NegotiatedSerializer.
func (rawSerializer) SupportedMediaTypes() []runtime.SerializerInfo {
	return []runtime.SerializerInfo{{MediaType: runtime.ContentTypeJSON}}
}

// EncoderForVersion implements runtime.NegotiatedSerializer.
func (rawSerializer) EncoderForVersion(runtime.Encoder, runtime.GroupVersioner) runtime.Encoder {
	return rawSerializer{}
}

// DecoderToVersion implements runtime.NegotiatedSerializer. Nothing is decoded.
func (rawSerializer) DecoderToVersion(runtime.Decoder, runtime.GroupVersioner) runtime.Decoder {
	return nil
}

// Encode implements runtime.Encoder.
func (rawSerializer) Encode(obj runtime.Object, w io.Writer) error {
	if raw, ok := obj.(*rawObject); ok {
		_, err := w.Write(raw.text)
		return err
	}
	return nil
}

// Identifier implements runtime.Encoder.
func (rawSerializer) Identifier() runtime.Identifier { return "raw" }
