package main

import "testing"

func TestGarbagePercent(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 100, 100 << 20: 100, 128 << 20: 100, 160 << 20: 80, 2 << 30: 50} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d MiB in use: %d %%, want %d", live>>20, got, want)
		}
	}
}

func TestJobsFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		processors int
		memory     uint64
		want       int
	}{{8, 0, 8}, {8, 16 << 30, 8}, {8, 512 << 20, 2}, {8, 64 << 20, 1}, {1, 16 << 30, 1}} {
		if got := jobsFor(c.processors, c.memory); got != c.want {
			t.Errorf("%d processors and %d MiB: %d jobs, want %d", c.processors, c.memory>>20, got, c.want)
		}
	}
}
