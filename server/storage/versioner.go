package storage

import (
	"fmt"
	"math"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ParseResourceVersion returns the revision that a client named: 0 for "" and for
// "0", else a decimal number, of which those that no storage reaches are one. Its error is ErrCodeBadResourceVersion.
func ParseResourceVersion(resourceVersion string) (uint64, error) {
	if resourceVersion == "" || resourceVersion == "0" {
		return 0, nil
	}
	rv, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0, &Error{
			Code:    ErrCodeBadResourceVersion,
			Message: fmt.Sprintf("invalid resource version: resourceVersion: Invalid value: %q: %v", resourceVersion, err),
			Err:     err,
		}
	}
	return min(rv, math.MaxInt64-1), nil // storages count in int64, and ask for what follows
}

// FormatResourceVersion is the inverse of ParseResourceVersion; revision 0 is "".
func FormatResourceVersion(rv uint64) string {
	if rv == 0 {
		return ""
	}
	return strconv.FormatUint(rv, 10)
}

// ListRevision says at which revision and from which key a list starts.
type ListRevision struct {
	// Exact is the revision to read at; 0 means the current one.
	Exact uint64
	// AtLeast is the revision that the current one must have reached; only where Exact is 0.
	AtLeast uint64
	// StartKey is the whole key of the first row, "" at the start of the prefix.
	StartKey string
}

// ResolveListRevision reads resourceVersion, its match and the continue token of a
// GetList of the rows below prefix, as upstream does: a token fixes the revision
// unless it says that it goes on inconsistently; Exact, and a resourceVersion with
// a limit and no match, read exactly at it; anything else reads the current state.
// Errors: ErrCodeBadContinue, ErrCodeBadResourceVersion.
func ResolveListRevision(prefix string, opts ListOptions) (ListRevision, error) {
	if opts.Recursive && opts.Predicate.Continue != "" {
		key, rv, err := DecodeContinue(opts.Predicate.Continue, prefix)
		if err != nil {
			return ListRevision{}, err
		}
		if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
			return ListRevision{}, &Error{
				Code:    ErrCodeBadContinue,
				Message: "specifying resource version is not allowed when using continue",
			}
		}
		return ListRevision{Exact: uint64(max(rv, 0)), StartKey: key}, nil
	}
	if opts.ResourceVersion == "" {
		return ListRevision{}, nil
	}
	rv, err := ParseResourceVersion(opts.ResourceVersion)
	if err != nil {
		return ListRevision{}, err
	}
	switch opts.ResourceVersionMatch {
	case metav1.ResourceVersionMatchExact:
		return ListRevision{Exact: rv}, nil
	case metav1.ResourceVersionMatchNotOlderThan:
		return ListRevision{AtLeast: rv}, nil
	case "":
		if opts.Recursive && opts.Predicate.Limit > 0 {
			return ListRevision{Exact: rv}, nil
		}
		return ListRevision{AtLeast: rv}, nil
	default:
		return ListRevision{}, &Error{
			Code:    ErrCodeBadResourceVersion,
			Message: fmt.Sprintf("unknown resourceVersionMatch %q", opts.ResourceVersionMatch),
		}
	}
}
