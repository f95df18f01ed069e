package endpoints

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

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
	case err != nil:
		return nil, apierrors.NewBadRequest(fmt.Sprintf("unable to read the body of the request: %v", err))
	}
	return raw, nil
}

func newBodyTooLarge(limit int64) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", limit))
}

// bodyMediaType returns the media type of a body, JSON where there is no header.
func bodyMediaType(req *http.Request) (string, error) {
	header := req.Header.Get("Content-Type")
	if header == "" {
		return mediaTypeJSON, nil
	}
	accepted := plainMediaTypes{}.mediaTypes()
	mediaType, _, err := mime.ParseMediaType(header)
	if err == nil {
		for _, a := range accepted {
			if a == mediaType {
				return mediaType, nil
			}
		}
	}
	return "", newUnsupportedMediaType(accepted)
}
