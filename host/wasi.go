package host

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"time"

	"weir.dev/weir/abi"
)

// The subset of WASI preview 1 that lets guests of standard toolchains run:
// a clock that stands still at the request's time, random numbers from the
// request's uid, output to the log, and nothing else. What it needs to
// remember is in the invocation, so that no guest can tell an earlier call.

const wasiModule = "wasi_snapshot_preview1"

// Errno values of WASI, which differ from abi.Errno.
const (
	wasiOK     = 0
	wasiEBADF  = 8
	wasiEFAULT = 21
	wasiEINVAL = 28
	wasiENOSYS = 52
)

// wasiMonotonicBase is where the monotonic clock stands when a module is
// loaded; Go refuses zero.
const wasiMonotonicBase = time.Second

type wasiFunc = func(c *invocation, args []uint64) int32

func wasiReturn(errno int32) wasiFunc {
	return func(*invocation, []uint64) int32 { return errno }
}

// wasiImports are all functions of preview 1. Most answer that they are not
// there.
func wasiImports() map[string]importFunc {
	noSys, badFD := wasiReturn(wasiENOSYS), wasiReturn(wasiEBADF)
	// A signature is written with i for i32 and I for i64.
	m := map[string]importFunc{}
	add := func(name, params string, f wasiFunc) {
		p := make([]byte, 0, len(params))
		for _, c := range params {
			if c == 'I' {
				p = append(p, i64...)
			} else {
				p = append(p, i32...)
			}
		}
		m[name] = importFunc{params: string(p), results: i32, call: f}
	}
	add("args_get", "ii", wasiReturn(wasiOK))
	add("args_sizes_get", "ii", wasiZeroSizes)
	add("environ_get", "ii", wasiReturn(wasiOK))
	add("environ_sizes_get", "ii", wasiZeroSizes)
	add("clock_res_get", "ii", wasiClockRes)
	add("clock_time_get", "iIi", wasiClockTime)
	add("fd_advise", "iIIi", badFD)
	add("fd_allocate", "iII", badFD)
	add("fd_close", "i", badFD)
	add("fd_datasync", "i", badFD)
	add("fd_fdstat_get", "ii", wasiFdstatGet)
	add("fd_fdstat_set_flags", "ii", wasiStdioOK)
	add("fd_fdstat_set_rights", "iII", badFD)
	add("fd_filestat_get", "ii", badFD)
	add("fd_filestat_set_size", "iI", badFD)
	add("fd_filestat_set_times", "iIIi", badFD)
	add("fd_pread", "iiiIi", badFD)
	add("fd_prestat_get", "ii", badFD)
	add("fd_prestat_dir_name", "iii", badFD)
	add("fd_pwrite", "iiiIi", badFD)
	add("fd_read", "iiii", wasiFdRead)
	add("fd_readdir", "iiiIi", badFD)
	add("fd_renumber", "ii", badFD)
	add("fd_seek", "iIii", badFD)
	add("fd_sync", "i", badFD)
	add("fd_tell", "ii", badFD)
	add("fd_write", "iiii", wasiFdWrite)
	add("path_create_directory", "iii", noSys)
	add("path_filestat_get", "iiiii", noSys)
	add("path_filestat_set_times", "iiiiIIi", noSys)
	add("path_link", "iiiiiii", noSys)
	add("path_open", "iiiiiIIii", noSys)
	add("path_readlink", "iiiiii", noSys)
	add("path_remove_directory", "iii", noSys)
	add("path_rename", "iiiiii", noSys)
	add("path_symlink", "iiiii", noSys)
	add("path_unlink_file", "iii", noSys)
	add("poll_oneoff", "iiii", wasiPollOneoff)
	add("proc_raise", "i", noSys)
	add("random_get", "ii", wasiRandomGet)
	add("sched_yield", "", wasiReturn(wasiOK))
	add("sock_accept", "iii", noSys)
	add("sock_recv", "iiiiii", noSys)
	add("sock_send", "iiiii", noSys)
	add("sock_shutdown", "ii", noSys)
	m["proc_exit"] = importFunc{params: i32, call: wasiProcExit}
	return m
}

func (c *invocation) putU32(at uint64, v uint32) bool {
	return c.guest.memory.WriteUint32Le(uint32(at), v)
}

func (c *invocation) putU64(at, v uint64) bool {
	return c.guest.memory.WriteUint64Le(uint32(at), v)
}

// done is success if every write was inside the memory.
func done(ok ...bool) int32 {
	for _, ok := range ok {
		if !ok {
			return wasiEFAULT
		}
	}
	return wasiOK
}

func isStdio(fd uint64) bool { return uint32(fd) <= 2 }

// wasiZeroSizes: no arguments, no environment.
func wasiZeroSizes(c *invocation, args []uint64) int32 {
	return done(c.putU32(args[0], 0), c.putU32(args[1], 0))
}

func wasiClockRes(c *invocation, args []uint64) int32 {
	if uint32(args[0]) > 3 {
		return wasiEINVAL
	}
	return done(c.putU64(args[1], 1))
}

// clock is a WASI clock in nanoseconds.
func (c *invocation) clock(id uint64) uint64 {
	if uint32(id) == 0 { // realtime
		return uint64(c.time().UnixNano())
	}
	return uint64(wasiMonotonicBase + c.elapsed)
}

func wasiClockTime(c *invocation, args []uint64) int32 {
	if uint32(args[0]) > 3 {
		return wasiEINVAL
	}
	return done(c.putU64(args[2], c.clock(args[0])))
}

// wasiFdstatGet describes a character device without rights to seek.
func wasiFdstatGet(c *invocation, args []uint64) int32 {
	if !isStdio(args[0]) {
		return wasiEBADF
	}
	var stat [24]byte
	stat[0] = 2 // character device
	const read, write = 1 << 1, 1 << 6
	rights := uint64(write)
	if uint32(args[0]) == 0 {
		rights = read
	}
	binary.LittleEndian.PutUint64(stat[8:], rights)
	return done(c.guest.memory.Write(uint32(args[1]), stat[:]))
}

func wasiStdioOK(_ *invocation, args []uint64) int32 {
	if !isStdio(args[0]) {
		return wasiEBADF
	}
	return wasiOK
}

// wasiFdRead: standard input is empty.
func wasiFdRead(c *invocation, args []uint64) int32 {
	if uint32(args[0]) != 0 {
		return wasiEBADF
	}
	return done(c.putU32(args[3], 0))
}

// wasiFdWrite logs what goes to standard output and error.
func wasiFdWrite(c *invocation, args []uint64) int32 {
	fd := uint32(args[0])
	if fd != 1 && fd != 2 {
		return wasiEBADF
	}
	if uint32(args[2]) > 1024 {
		return wasiEINVAL
	}
	written := uint64(0)
	for i := range uint32(args[2]) {
		iov := uint32(args[1]) + 8*i
		ptr, ok1 := c.guest.memory.ReadUint32Le(iov)
		n, ok2 := c.guest.memory.ReadUint32Le(iov + 4)
		if !ok1 || !ok2 {
			return wasiEFAULT
		}
		data, ok := c.guest.memory.Read(ptr, n)
		if !ok {
			return wasiEFAULT
		}
		c.writeStdio(fd, data[:min(len(data), abi.MaxLogBytes)])
		written += uint64(n)
	}
	return done(c.putU32(args[3], uint32(min(written, math.MaxUint32))))
}

// writeStdio logs data line by line and remembers the beginning of what a
// guest says on standard error: runtimes write there why they exit.
func (c *invocation) writeStdio(fd uint32, data []byte) {
	c.charge(len(data))
	if fd == 2 {
		c.stderr = append(c.stderr, data[:min(len(data), stderrKept-len(c.stderr))]...)
	}
	line := &c.lines[fd-1]
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		part := data
		if end >= 0 {
			part = data[:end]
		}
		*line = append(*line, part[:min(len(part), abi.MaxLogLineBytes-len(*line))]...)
		if end < 0 {
			return
		}
		c.flushStdio(fd)
		data = data[end+1:]
	}
}

// flushStdio logs the line that has begun.
func (c *invocation) flushStdio(fd uint32) {
	level := slog.LevelInfo
	if fd == 2 {
		level = slog.LevelWarn
	}
	line := &c.lines[fd-1]
	c.log(level, *line)
	*line = (*line)[:0]
}

// wasiPollOneoff never waits: if the guest would sleep, its clock is moved to
// when the first timer fires. Streams are ready at once.
func wasiPollOneoff(c *invocation, args []uint64) int32 {
	const subBytes, eventBytes, maxSubs = 48, 32, 1024
	in, out, n := uint32(args[0]), uint32(args[1]), uint32(args[2])
	if n == 0 || n > maxSubs {
		return wasiEINVAL
	}
	c.charge(int(n) * 4)
	view, ok := c.guest.memory.Read(in, n*subBytes)
	if !ok {
		return wasiEFAULT
	}
	subs := append(c.guest.scratch[:0], view...) // events may overlap them
	c.guest.scratch = subs
	sub := func(i uint32) []byte { return subs[i*subBytes : (i+1)*subBytes] }
	// How long until each clock fires.
	first := time.Duration(math.MaxInt64)
	waits := func(s []byte) time.Duration {
		timeout := binary.LittleEndian.Uint64(s[24:])
		if binary.LittleEndian.Uint16(s[40:])&1 != 0 { // absolute
			now := c.clock(uint64(binary.LittleEndian.Uint32(s[16:])))
			if timeout <= now {
				return 0
			}
			timeout -= now
		}
		return time.Duration(min(timeout, math.MaxInt64))
	}
	ready := false
	for i := range n {
		if s := sub(i); s[8] == 0 {
			first = min(first, waits(s))
		} else {
			ready = true
		}
	}
	if ready {
		first = 0
	}
	var events []byte
	count := uint32(0)
	for i := range n {
		s := sub(i)
		if s[8] == 0 && waits(s) > first {
			continue
		}
		var e [eventBytes]byte
		copy(e[:8], s[:8])
		e[10] = s[8]
		if s[8] != 0 && !isStdio(uint64(binary.LittleEndian.Uint32(s[16:]))) {
			binary.LittleEndian.PutUint16(e[8:], wasiEBADF)
		}
		events = append(events, e[:]...)
		count++
	}
	if first > 0 {
		c.elapsed = time.Duration(min(uint64(c.elapsed)+uint64(first), math.MaxInt64/2))
	}
	return done(c.guest.memory.Write(out, events), c.putU32(args[3], count))
}

func wasiRandomGet(c *invocation, args []uint64) int32 {
	n := uint32(args[1])
	c.charge(int(n) / 4)
	buf, ok := c.guest.memory.Read(uint32(args[0]), n)
	if !ok {
		return wasiEFAULT
	}
	_, _ = c.randomSource().Read(buf) // never fails
	return wasiOK
}

// wasiProcExit ends the guest, whatever its code: a guest has no reason to.
func wasiProcExit(c *invocation, args []uint64) int32 {
	panic(&stop{class: ClassTrap, msg: fmt.Sprintf("exit status %d", uint32(args[0]))})
}
