package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseProgram unmaps the pages of the program's own file, most of which are only read at the start: tables of
// types, initial values of maps, schemas. What is read again comes back from the page cache. Only mappings that
// nothing can write to, and nothing has, are touched.
func releaseProgram() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	mappings, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = mappings.Close() }() // it was only read
	var begin, end uint64
	var data bool
	for lines := bufio.NewScanner(mappings); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) == 6 && fields[5] == program && (fields[1] == "r-xp" || fields[1] == "r--p"): // address, permissions, …, path
			from, to, _ := strings.Cut(fields[0], "-")
			var beginErr, endErr error
			data = fields[1] == "r--p"
			begin, beginErr = strconv.ParseUint(from, 16, 64)
			if end, endErr = strconv.ParseUint(to, 16, 64); beginErr != nil || endErr != nil {
				begin, end = 0, 0
			}
		case len(fields) > 1 && strings.Contains(fields[0], "-"):
			begin, end = 0, 0
		case end > 0 && len(fields) == 3 && fields[0] == "Anonymous:" && fields[1] == "0":
			if data { // else 2 MB come back with each page, where the file lies so in the page cache
				_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin), unix.MADV_NOHUGEPAGE)
			}
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, uintptr(begin), uintptr(end-begin), unix.MADV_DONTNEED) // it is advice only
		}
	}
}
