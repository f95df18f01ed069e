package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/apis/v1alpha1"
	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/loader"
	"weir.dev/weir/server/request"
	"weir.dev/weir/server/rest"
)

const (
	// impactPath is where PolicyImpacts are posted to.
	impactPath = "/apis/" + impactVersion + "/policyimpacts"
	// impactVersion is their apiVersion.
	impactVersion = "weir.dev/v1alpha1"
	// linesType is the media type of an answer that is a stream of JSON values, each on a line.
	linesType = "application/x-ndjson"
	// maxImpactBytes bounds a question.
	maxImpactBytes = 8 << 20
	// impactFlush is how many findings are written before they are sent.
	impactFlush = 100
)

// impactResource serves PolicyImpacts when the Loader is there.
type impactResource struct{ of *Server }

var _ rest.Creater = impactResource{}

// Create implements rest.Creater.
func (r impactResource) Create(ctx context.Context, obj *document.Document, validate rest.ValidateObjectFunc, opts *metav1.CreateOptions) (*document.Document, error) {
	return r.of.impact.Create(ctx, obj, validate, opts)
}

// wantsImpactLines reports whether a request asks for a PolicyImpact as a stream.
func wantsImpactLines(r *http.Request) bool {
	if r.Method != http.MethodPost || r.URL.Path != impactPath {
		return false
	}
	for _, one := range strings.Split(r.Header.Get("Accept"), ",") {
		if kind, _, err := mime.ParseMediaType(one); err == nil && kind == linesType {
			return true
		}
	}
	return false
}

// impactLines answers PolicyImpacts as a stream: a finding a line, then the status.
type impactLines struct{ answer *loader.Impact }

// ServeHTTP implements http.Handler.
func (h impactLines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	request.MarkServed(r.Context())
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxImpactBytes))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		request.WriteError(w, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", maxImpactBytes)))
		return
	case err != nil:
		request.WriteError(w, apierrors.NewBadRequest(err.Error()))
		return
	}
	in, err := decodeImpact(raw)
	if err != nil {
		request.WriteError(w, err)
		return
	}
	if event := audit.From(r.Context()); event != nil {
		if sent, err := document.Parse(raw); err == nil { // it was decoded
			event.Object(r.Context(), sent, schema.GroupVersionResource{Group: "weir.dev", Version: "v1alpha1", Resource: "policyimpacts"}, "")
		}
	}
	if deadline, ok := r.Context().Deadline(); ok { // a client that does not read holds up no other for longer
		control := http.NewResponseController(w)
		if control.SetWriteDeadline(deadline) == nil {
			defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the connection may serve other requests
		}
	}
	lines := &lineWriter{to: w, buffer: bufio.NewWriterSize(w, 32<<10)}
	status, err := h.answer.Answer(r.Context(), &in.Spec, func(f *v1alpha1.PolicyImpactFinding) error {
		return lines.write(&v1alpha1.PolicyImpactLine{Finding: f})
	})
	switch {
	case err == nil:
		err = lines.write(&v1alpha1.PolicyImpactLine{Status: status})
	case !lines.begun:
		request.WriteError(w, err)
		return
	default:
		err = lines.write(&v1alpha1.PolicyImpactLine{Error: request.StatusOf(err)})
	}
	if err == nil {
		_ = lines.buffer.Flush() // a client that is gone needs no answer
	}
}

// decodeImpact reads a question. What it does not know is an error, as are members that are there twice: a question that
// is not understood has no answer.
func decodeImpact(raw []byte) (*v1alpha1.PolicyImpact, error) {
	in := &v1alpha1.PolicyImpact{}
	strict, err := kjson.UnmarshalStrict(raw, in)
	if err == nil {
		err = errors.Join(strict...)
	}
	switch {
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("PolicyImpact: %v", err))
	case in.APIVersion != impactVersion || in.Kind != "PolicyImpact":
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the body is %s %q, want PolicyImpact %q", in.Kind, in.APIVersion, impactVersion))
	}
	return in, nil
}

// lineWriter writes values, each on a line.
type lineWriter struct {
	to      http.ResponseWriter
	buffer  *bufio.Writer
	begun   bool
	pending int
}

func (l *lineWriter) write(line *v1alpha1.PolicyImpactLine) error {
	if !l.begun {
		l.begun = true
		l.to.Header().Set("Content-Type", linesType)
		l.to.WriteHeader(http.StatusOK)
	}
	raw, err := json.Marshal(line)
	if err != nil {
		return err
	}
	if _, err := l.buffer.Write(append(raw, '\n')); err != nil {
		return err
	}
	if l.pending++; l.pending < impactFlush {
		return nil
	}
	l.pending = 0
	if err := l.buffer.Flush(); err != nil {
		return err
	}
	err = http.NewResponseController(l.to).Flush()
	if errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return err
}
