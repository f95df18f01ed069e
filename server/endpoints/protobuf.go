package endpoints

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// mediaTypeProtobuf is what typed clients send for built-in kinds. Nothing is
// answered in it: they all take JSON too.
const mediaTypeProtobuf = "application/vnd.kubernetes.protobuf"

// hasProtobuf reports whether a kind has a protobuf form: those of k8s.io/api do.
// None of them contains itself, so that decoding is as deep as their types are.
func hasProtobuf(gvk schema.GroupVersionKind) bool { return clientscheme.Scheme.Recognizes(gvk) }

// protobufToJSON decodes an object of a kind that hasProtobuf into the JSON that
// the same client would have sent.
func protobufToJSON(raw []byte, defaults schema.GroupVersionKind) ([]byte, error) {
	serializer := protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme)
	obj, _, err := serializer.Decode(raw, &defaults, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(obj)
}

// decodeProtobufDeleteOptions decodes DeleteOptions of any group version.
func decodeProtobufDeleteOptions(raw []byte, into *metav1.DeleteOptions) error {
	message, ok := bytes.CutPrefix(raw, []byte("k8s\x00"))
	if !ok {
		return errors.New("provided data does not appear to be a protobuf message")
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(message); err != nil {
		return err
	}
	if err := into.Unmarshal(envelope.Raw); err != nil {
		return fmt.Errorf("%s: %w", envelope.Kind, err)
	}
	into.Kind, into.APIVersion = envelope.Kind, envelope.APIVersion
	return nil
}
