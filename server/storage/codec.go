package storage

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"weir.dev/weir/abi/document"
)

// JSONCodec is the Codec that only moves metadata.resourceVersion in and out of the
// JSON, without decoding the object.
//
// It reads any JSON object that another writer has stored, such as kube-apiserver those of
// custom resources (the output of encoding/json: a trailing newline, HTML escapes, for typed
// objects members out of order), and makes it canonical. Of several members of one name the
// last counts, as for upstream. It does not read protobuf.
type JSONCodec struct{}

var _ Codec = JSONCodec{}

// ProtobufPrefix is how a value begins that kube-apiserver stored as protobuf, a runtime.Unknown.
const ProtobufPrefix = "k8s\x00"

const (
	rvName = "resourceVersion"
	// rvMember is a member without its number and comma.
	rvMember = `"resourceVersion":""`
)

// Encode implements Codec. It returns served itself when there is nothing to take out.
func (JSONCodec) Encode(served []byte) ([]byte, error) {
	s := scanner{served}
	top, err := s.object(s.space(0), "metadata")
	if err != nil {
		return nil, fmt.Errorf("object cannot be stored: %w", err)
	}
	if !top.ok || served[top.member.valueStart] != '{' {
		return served, nil
	}
	meta, err := s.object(top.member.valueStart, rvName)
	if err != nil {
		return nil, fmt.Errorf("object cannot be stored: metadata: %w", err)
	}
	if !meta.ok {
		return served, nil
	}
	// One comma goes too: the one behind, or else the one in front.
	from, to := meta.member.nameStart, s.space(meta.member.valueEnd)
	if to < len(served) && served[to] == ',' {
		to++
	} else if meta.members > 1 {
		from = bytes.LastIndexByte(served[:from], ',')
	}
	out := make([]byte, 0, len(served)-(to-from))
	out = append(out, served[:from]...)
	return append(out, served[to:]...), nil
}

// Decode implements Codec. Its error is ErrCodeCorruptObj.
func (JSONCodec) Decode(stored []byte, rv uint64) ([]byte, error) {
	out, err := splice(stored, rv)
	if err != nil {
		return nil, unreadable(stored, err)
	}
	return out, nil
}

// scratches are what Check reads with.
var scratches = sync.Pool{New: func() any { return new(document.Scratch) }}

// Check implements Codec.
func (JSONCodec) Check(stored []byte) ([]byte, error) {
	scratch := scratches.Get().(*document.Scratch)
	err := scratch.FromCanonical(stored).Err()
	scratches.Put(scratch)
	if err == nil {
		return stored, nil
	}
	obj, _, err := document.Ingest(stored, document.IngestOptions{})
	if err != nil {
		return nil, unreadable(stored, err)
	}
	return obj.Bytes(), nil
}

// errProtobuf is the cause of an error about an object that kube-apiserver has stored.
var errProtobuf = errors.New("it is protobuf, as kube-apiserver stores built-in kinds, and this server stores JSON: " +
	"give it an etcd or an --etcd-prefix of its own, and bring the objects over through both servers' APIs " +
	"(their uids change: leave out what refers to them, such as ownerReferences)")

// unreadable returns the error about what is stored of an object, which cannot be read because of err.
func unreadable(stored []byte, err error) error {
	if bytes.HasPrefix(stored, []byte(ProtobufPrefix)) {
		err = errProtobuf
	}
	return &Error{Code: ErrCodeCorruptObj, Message: "stored object cannot be read: " + err.Error(), Err: err}
}

// splice returns stored, which is canonical, with metadata.resourceVersion set.
func splice(stored []byte, rv uint64) ([]byte, error) {
	s := scanner{stored}
	top, err := s.object(0, "metadata")
	if err != nil {
		return nil, err
	}
	size := len(stored) + len(rvMember) + len(",") + digits(rv)
	if !top.ok {
		out := make([]byte, 0, size+len(`"metadata":{},`))
		return spliceMember(out, stored, top, func(out []byte) []byte {
			out = append(out, `"metadata":{`...)
			out = appendResourceVersion(out, rv)
			return append(out, '}')
		}), nil
	}
	if stored[top.member.valueStart] != '{' {
		return nil, fmt.Errorf("metadata: %w", errMalformed)
	}
	meta, err := s.object(top.member.valueStart, rvName)
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	out := make([]byte, 0, size)
	if meta.ok {
		out = append(out, stored[:meta.member.nameStart]...)
		out = appendResourceVersion(out, rv)
		return append(out, stored[meta.member.valueEnd:]...), nil
	}
	return spliceMember(out, stored, meta, func(out []byte) []byte { return appendResourceVersion(out, rv) }), nil
}

// spliceMember appends text with a member added to the object in which it was not found.
func spliceMember(out, text []byte, in located, member func([]byte) []byte) []byte {
	if in.insert > 0 {
		out = append(out, text[:in.insert]...)
		out = append(member(out), ',')
		return append(out, text[in.insert:]...)
	}
	out = append(out, text[:in.end]...)
	if in.members > 0 {
		out = append(out, ',')
	}
	return append(member(out), text[in.end:]...)
}

// digits returns how long n is as decimal number.
func digits(n uint64) int {
	count := 1
	for ; n >= 10; n /= 10 {
		count++
	}
	return count
}

func appendResourceVersion(out []byte, rv uint64) []byte {
	out = append(out, rvMember[:len(rvMember)-1]...)
	out = strconv.AppendUint(out, rv, 10)
	return append(out, '"')
}
