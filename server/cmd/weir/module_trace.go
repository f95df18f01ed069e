package main

import (
	"fmt"
	"io"

	"weir.dev/weir/abi"
	"weir.dev/weir/host"
)

// trace writes what a guest asks of its host, a line each.
type trace struct{ w io.Writer }

// call is for host.Call.Trace.
func (t *trace) call(c host.ImportCall) {
	what := c.Slot.String()
	switch c.Import {
	case abi.ImportLog:
		what = [...]string{"debug", "info", "warn", "error"}[max(0, min(int(c.Slot), 3))]
	case abi.ImportLookup, abi.ImportAuthorize:
		what = shortened(c.Data)
	}
	if c.Path != "" {
		what += " " + c.Path
	}
	answer := ""
	switch {
	case c.Returned < 0:
		answer = "= " + abi.Errno(-c.Returned).Error()
	case c.Lookup != nil:
		answer = "= " + c.Lookup.String()
	case c.Import == abi.ImportLookup:
		answer = fmt.Sprintf("= the same again, %d bytes", c.Returned)
	case c.Import == abi.ImportAuthorize:
		answer = [...]string{"= not allowed", "= allowed"}[min(c.Returned, 1)]
	case c.Data == nil && (c.Import == abi.ImportRead || c.Import == abi.ImportQuery):
		answer = fmt.Sprintf("= %d bytes, which do not fit", c.Returned)
	case c.Import == abi.ImportRead || c.Import == abi.ImportQuery:
		answer = "= " + shortened(c.Data)
	default:
		answer = shortened(c.Data)
	}
	fmt.Fprintf(t.w, "trace     %-5s %s %s  (fuel %s)\n", c.Import, what, answer, grouped(int(c.Fuel)))
}

// shortened is the beginning of a text.
func shortened(data []byte) string {
	const most = 120
	if len(data) <= most {
		return string(data)
	}
	return fmt.Sprintf("%s… (%s bytes)", data[:most], grouped(len(data)))
}
