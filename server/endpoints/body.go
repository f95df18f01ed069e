package endpoints

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// readBody reads at most the allowed bytes.
func (s *server) readBody(w http.ResponseWriter, req *http.Request) ([]byte, error) {
	limit := int64(s.MaxRequestBodyBytes)
	if req.ContentLength > limit {
		return nil, newBodyTooLarge(limit)
	}
	body := http.MaxBytesReader(w, req.Body, limit)
	defer body.Close()
	raw, err := io.ReadAll(body)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, newBodyTooLarge(limit)
	case err != nil && req.Context().Err() != nil:
		return nil, req.Context().Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, context.DeadlineExceeded // the time of the connection, which is that of the request
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to read the body of the request: %v", err))
	}
	return raw, nil
}

func newBodyTooLarge(limit int64) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
}

// bodyMediaType returns the media type of a body, one of accepted; JSON where there
// is no header.
func bodyMediaType(req *http.Request, accepted ...string) (string, error) {
	header := req.Header.Get("Content-Type")
	if header == "" {
		return mediaTypeJSON, nil
	}
	if mediaType, _, err := mime.ParseMediaType(header); err == nil && slices.Contains(accepted, mediaType) {
		return mediaType, nil
	}
	return "", newUnsupportedMediaType(accepted)
}

// bodyMediaTypes are those in which the kind can be sent.
func (sc *scope) bodyMediaTypes() []string {
	accepted := []string{mediaTypeJSON, mediaTypeYAML}
	if hasProtobuf(sc.kind) {
		accepted = append(accepted, mediaTypeProtobuf)
	}
	return accepted
}
