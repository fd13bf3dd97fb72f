//go:build !linux

package confine

// MachineMemory returns 0: the machine's memory is unknown.
func MachineMemory() uint64 { return 0 }
