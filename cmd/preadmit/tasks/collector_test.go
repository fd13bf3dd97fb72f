package tasks

import "testing"

func TestGarbage(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]uint64{0: 48, 25: 48, 50: 108, 100: 172, 200: 104, 250: 232, 300: 256, 500: 256, 900: 450, 2000: 1000} {
		if got := garbage(live << 20); got != want<<20 {
			t.Errorf("%d MiB in use: %d MiB of garbage, want %d", live, got>>20, want)
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
