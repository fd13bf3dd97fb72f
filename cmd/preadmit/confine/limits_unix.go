//go:build unix && !linux

package confine

import (
	"time"

	"golang.org/x/sys/unix"
)

// NoCore has the kernel bound the process: no core file.
func NoCore() { unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }

// FileSize does nothing here.
func FileSize(bool) {}

// CPU does nothing here: the watch of the command bounds time.
func CPU(time.Duration) {}

// Memory leaves it to the watch: this kernel bounds no writable memory.
func Memory(uint64) {}
