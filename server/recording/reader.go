package recording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxLineBytes bounds one record: two objects and their params.
const maxLineBytes = 64 << 20

// Reader reads records, one at a time. Its input is a recording, AdmissionReviews, or an audit log of audit.k8s.io/v1, one
// a line.
type Reader struct {
	in   *bufio.Reader
	line int
	// Skipped counts the lines that are no request that can be judged, such as reads in an audit log.
	Skipped int
	// Broken counts the lines that do not parse, such as one that a crash cut off. They are left out.
	Broken int
}

// NewReader returns a Reader of in.
func NewReader(in io.Reader) *Reader { return &Reader{in: bufio.NewReaderSize(in, 1<<20)} }

// Line is the number of the last line that was read, counted from 1.
func (r *Reader) Line() int { return r.line }

// Next returns the next record; io.EOF: there is none. A line that is JSON of something else is an error.
func (r *Reader) Next() (*Record, error) {
	for {
		text, err := r.readLine()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		record, err := parse(text)
		switch {
		case errors.Is(err, errBroken):
			r.Broken++
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", r.line, err)
		case record != nil:
			return record, nil
		default:
			r.Skipped++
		}
	}
}

// errBroken is the error of a line that does not parse.
var errBroken = errors.New("the line does not parse")

// readLine returns a line with its end, which the last one may lack.
func (r *Reader) readLine() ([]byte, error) {
	var text []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(text)+len(part) > maxLineBytes {
			return nil, fmt.Errorf("line %d: longer than %d bytes", r.line+1, maxLineBytes)
		}
		text = append(text, part...)
		switch {
		case err == nil:
			r.line++
			return text, nil
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(text) > 0:
			r.line++
			return text, nil
		default:
			return nil, err
		}
	}
}

// parse returns the record of a line, nil for what is no request to judge.
func parse(text []byte) (*Record, error) {
	var what metav1.TypeMeta
	if err := json.Unmarshal(text, &what); err != nil {
		return nil, errBroken
	}
	switch what.Kind {
	case "AdmissionReview":
		record := &Record{}
		if err := json.Unmarshal(text, record); err != nil {
			return nil, errBroken
		}
		if record.Request == nil {
			return nil, nil
		}
		return record, nil
	case "Event":
		return parseEvent(text)
	}
	return nil, fmt.Errorf("kind %q is neither AdmissionReview nor Event: give a recording or an audit log", what.Kind)
}

// auditEvent is an Event of audit.k8s.io/v1, as far as it is read.
type auditEvent struct {
	AuditID          string                     `json:"auditID"`
	Stage            string                     `json:"stage"`
	Verb             string                     `json:"verb"`
	RequestURI       string                     `json:"requestURI"`
	User             authenticationv1.UserInfo  `json:"user"`
	ImpersonatedUser *authenticationv1.UserInfo `json:"impersonatedUser"`
	ObjectRef        *struct {
		Resource, Namespace, Name, Subresource string
		APIGroup                               string `json:"apiGroup"`
		APIVersion                             string `json:"apiVersion"`
	} `json:"objectRef"`
	ResponseStatus *struct {
		Code    int32  `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	RequestObject            json.RawMessage `json:"requestObject"`
	ResponseObject           json.RawMessage `json:"responseObject"`
	RequestReceivedTimestamp time.Time       `json:"requestReceivedTimestamp"`
}

// parseEvent makes a record of an event of an audit log: of a write that is over and whose object is known. The object is
// that of the response, which is what was stored, or else that of the request. What was stored before is not in the log.
func parseEvent(text []byte) (*Record, error) {
	var e auditEvent
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, errBroken
	}
	if e.Stage != "ResponseComplete" || e.ObjectRef == nil || e.ObjectRef.Resource == "" {
		return nil, nil
	}
	operation := map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE"}[e.Verb]
	if operation == "" {
		return nil, nil
	}
	stored := e.ResponseStatus == nil || e.ResponseStatus.Code < 300
	if !stored && !strings.Contains(e.ResponseStatus.Message, "denied request") && !strings.Contains(e.ResponseStatus.Message, "denied the request") {
		return nil, nil // it was refused, but not by admission
	}
	object := e.ResponseObject
	if !stored || len(object) == 0 {
		object = nil
		if e.Verb != "patch" { // of which the request has the patch
			object = e.RequestObject
		}
	}
	var kind metav1.TypeMeta
	if len(object) == 0 || json.Unmarshal(object, &kind) != nil || kind.Kind == "" || kind.Kind == "Status" {
		return nil, nil
	}
	user := e.User
	if e.ImpersonatedUser != nil {
		user = *e.ImpersonatedUser
	}
	ref := e.ObjectRef
	r := &Record{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &Request{UID: e.AuditID, Operation: operation, Namespace: ref.Namespace, Name: ref.Name, SubResource: ref.Subresource, UserInfo: user,
			Resource: metav1.GroupVersionResource{Group: ref.APIGroup, Version: ref.APIVersion, Resource: ref.Resource}, Object: object},
		Response: &Response{UID: e.AuditID, Allowed: stored},
		Weir:     &Details{Time: e.RequestReceivedTimestamp, Phase: Validate, WithoutOldObject: operation == "UPDATE", WithoutVerdicts: true},
	}
	if !stored {
		r.Response.Status = &metav1.Status{Code: e.ResponseStatus.Code, Message: e.ResponseStatus.Message}
	}
	if ref.APIGroup == "" && (ref.Resource == "secrets" || ref.Subresource == "token") {
		r.Weir.Redacted = true // an audit policy leaves secrets out, or should
	}
	return r, nil
}
