//go:build unix && !linux

package confine

import (
	"time"

	"golang.org/x/sys/unix"
)

// NoCore disables core files.
func NoCore() { unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) }

// FileSize does nothing on these systems.
func FileSize(bool) {}

// CPU does nothing: the command's watch limits time.
func CPU(time.Duration) {}

// Memory does nothing: these kernels can't limit writable memory; the command's watch does.
func Memory(uint64) {}
