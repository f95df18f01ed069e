package storage

import (
	"fmt"
	"strconv"
)

// Check returns nil when current is as p demands; nil demands nothing. Errors:
// ErrCodeInvalidObj for the uid, ErrCodeResourceVersionConflicts for the resourceVersion.
func (p *Preconditions) Check(key string, current Row) error {
	if p == nil {
		return nil
	}
	if p.UID != nil {
		if uid := MetadataString(current.Value.Bytes(), "uid"); uid != string(*p.UID) {
			return &Error{Code: ErrCodeInvalidObj, Key: key, Message: fmt.Sprintf(
				"Precondition failed: UID in precondition: %s, UID in object meta: %s", *p.UID, uid)}
		}
	}
	if p.ResourceVersion != nil {
		if rv := strconv.FormatUint(current.ResourceVersion, 10); rv != *p.ResourceVersion {
			return &Error{Code: ErrCodeResourceVersionConflicts, Key: key, ResourceVersion: current.ResourceVersion, Message: fmt.Sprintf(
				"Precondition failed: ResourceVersion in precondition: %s, ResourceVersion in object meta: %s", *p.ResourceVersion, rv)}
		}
	}
	return nil
}
