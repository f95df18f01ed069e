package host

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/internal/rewrite"
)

// oldestVersion is the oldest version of the contract that a host takes which
// has a newest one: the one before it, see package abi. This is the only place
// that says so; its imports have to be those of all versions from there on.
func oldestVersion(newest int) int { return max(1, newest-1) }

// versionError is a module of a version of the contract that a host does not
// take.
type versionError struct{ built, newest int }

// Error implements error.
func (e *versionError) Error() string {
	takes := marker(e.newest)
	if oldest := oldestVersion(e.newest); oldest < e.newest {
		takes = marker(oldest) + " and " + takes
	}
	if e.built > e.newest {
		return fmt.Sprintf("built for %s, which is newer than what this host takes (%s): upgrade the server, or build the module with an SDK for %s",
			marker(e.built), takes, marker(e.newest))
	}
	return fmt.Sprintf("built for %s, which is older than what this host takes (%s): build the module again with an SDK for %s",
		marker(e.built), takes, marker(e.newest))
}

// checkVersion tells whether a host takes a version.
func checkVersion(built, newest int) error {
	if built < oldestVersion(newest) || built > newest {
		return &versionError{built, newest}
	}
	return nil
}

func marker(version int) string { return abi.ExportMarkerPrefix + strconv.Itoa(version) }

// versionIn is the version in a name that begins with a prefix.
func versionIn(name, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return 0, false
	}
	v, err := strconv.Atoi(digits)
	return v, err == nil && v >= 0 && strconv.Itoa(v) == digits
}

// checkMarker looks for the marker of a version that a host takes. A module may
// have several.
func checkMarker(exports map[string]rewrite.FuncType, newest int) error {
	var refused error
	for _, name := range slices.Sorted(maps.Keys(exports)) {
		v, ok := versionIn(name, abi.ExportMarkerPrefix)
		if !ok {
			continue
		}
		err := checkVersion(v, newest)
		if err == nil {
			return nil
		}
		refused = err
	}
	if refused != nil {
		return refused
	}
	return fmt.Errorf("exports no function %s: it was not built with an SDK for this contract", marker(newest))
}
