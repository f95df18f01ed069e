package storage

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// continueVersion names the form of the token, which upstream has published and
// which therefore cannot change.
const continueVersion = "meta.k8s.io/v1"

// InconsistentContinue is the revision in a continue token that goes on with the
// current state since the one of its first page is gone.
const InconsistentContinue int64 = -1

// continueToken is what base64 hides.
type continueToken struct {
	APIVersion      string `json:"v"`
	ResourceVersion int64  `json:"rv"`
	StartKey        string `json:"start"`
}

// EncodeContinue returns the token of a list of the rows below prefix that goes on
// with the first row at or after the whole key startKey, at revision rv or with
// InconsistentContinue. To go on after a row, startKey is its key and a zero byte.
func EncodeContinue(startKey, prefix string, rv int64) (string, error) {
	rest, ok := strings.CutPrefix(startKey, prefix)
	if !ok || rest == "" {
		return "", fmt.Errorf("continue token: key %q is not below prefix %q", startKey, prefix)
	}
	text, err := json.Marshal(continueToken{APIVersion: continueVersion, ResourceVersion: rv, StartKey: rest})
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(text), nil
}

// DecodeContinue returns the whole key at which a list of the rows below prefix
// goes on, and the revision: positive, or InconsistentContinue. The key is below
// prefix whatever the token says. Its error is ErrCodeBadContinue.
func DecodeContinue(token, prefix string) (startKey string, rv int64, err error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", 0, badContinue(err.Error(), err)
	}
	var c continueToken
	if err := json.Unmarshal(text, &c); err != nil {
		return "", 0, badContinue(err.Error(), err)
	}
	if c.APIVersion != continueVersion {
		return "", 0, badContinue("server does not recognize this encoded version "+c.APIVersion, nil)
	}
	if c.ResourceVersion == 0 || c.ResourceVersion < InconsistentContinue {
		return "", 0, badContinue("incorrect encoded start resourceVersion (version "+continueVersion+")", nil)
	}
	if c.StartKey == "" {
		return "", 0, badContinue("encoded start key empty (version "+continueVersion+")", nil)
	}
	// A key that is not its own clean form could climb out of the prefix.
	key := c.StartKey
	if !strings.HasPrefix(key, "/") {
		key = "/" + key
	}
	if path.Clean(key) != key {
		return "", 0, badContinue(c.StartKey, nil)
	}
	return prefix + key[1:], c.ResourceVersion, nil
}

func badContinue(why string, err error) *Error {
	return &Error{Code: ErrCodeBadContinue, Message: "invalid continue token: continue key is not valid: " + why, Err: err}
}

// NextPage returns the token of the page after the row lastKey, read at rv.
func NextPage(lastKey, prefix string, rv uint64) (string, error) {
	return EncodeContinue(lastKey+"\x00", prefix, int64(rv))
}
