//go:build !linux

package etcd3

import "errors"

// diskFree finds nothing out.
func diskFree(string) (int64, error) { return 0, errors.ErrUnsupported }
