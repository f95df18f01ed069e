package etcd3

import "golang.org/x/sys/unix"

// diskFree returns how many bytes can still be written below a directory.
func diskFree(dir string) (int64, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 0, err
	}
	return int64(stat.Bavail) * int64(stat.Bsize), nil //nolint:gosec,unconvert // no disk is that large; Bsize is narrower elsewhere
}
