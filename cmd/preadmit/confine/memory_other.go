//go:build !linux

package confine

// MachineMemory is 0: how much memory there is is not known.
func MachineMemory() uint64 { return 0 }
