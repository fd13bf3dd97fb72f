package tui

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// large is a report of n results, each with its object and line.
func large(n int) *report.Report {
	results := make([]policy.Result, n)
	for i := range results {
		unit := fmt.Sprintf("apps/team-%03d/overlays/prod", i%500)
		results[i] = policy.Result{
			Engine: policy.EngineAdmission, Policy: fmt.Sprintf("policy-%02d", i%40), Rule: "validations[0]", Operation: "CREATE", Outcome: policy.Fail, Action: policy.Actions[i%3],
			Object:  render.Key{APIVersion: "apps/v1", Kind: "Deployment", Namespace: fmt.Sprintf("team-%03d", i%500), Name: fmt.Sprintf("service-%d", i/40), Unit: unit},
			Message: fmt.Sprintf("container app-%d must set resources.limits.memory, and may not run as root", i), Fields: []string{"/spec/template/spec/containers/0/resources/limits"},
			Origins:     []render.Origin{at(unit+"/deployment.yaml", 10+i%300, 9, 20, render.Manifest)},
			Fingerprint: fmt.Sprintf("%064x", i),
		}
	}
	return report.New(report.Tool{}, nil, nil, results)
}

const many = 100_000

// largeDriver shows them, without waiting for what is arranged apart.
func largeDriver(tb testing.TB) *driver {
	return newDriver(tb, 160, 50, func(h *fakeHost, _ *Options) { h.report = large(many) })
}

// BenchmarkStart is from a report that is there to the first frame with it.
func BenchmarkStart(b *testing.B) {
	r := large(many)
	for b.Loop() {
		d := newDriver(b, 160, 50, func(h *fakeHost, _ *Options) { h.report = r })
		_ = d.View()
	}
}

// BenchmarkKey is from a key to its frame, for the keys that are pressed most.
func BenchmarkKey(b *testing.B) {
	for _, keys := range []string{"j", "pgdown", "G", "n", "space", "l", "-", "J"} {
		b.Run(keys, func(b *testing.B) {
			d := largeDriver(b)
			back := map[string]string{"-": "+", "G": "g", "J": "K"}[keys]
			for i := 0; b.Loop(); i++ {
				k := keys
				if back != "" && i%2 == 1 {
					k = back
				}
				d.Update(keyPress(k))
				_ = d.View()
			}
		})
	}
}

// BenchmarkTyping is from a letter of a filter to its frame, which may still
// show what was there before, and BenchmarkFilter to that with what it finds.
func BenchmarkTyping(b *testing.B) {
	d := largeDriver(b)
	d.press("/")
	for i := 0; b.Loop(); i++ {
		d.Update(keyPress([]string{"a", "backspace"}[i%2]))
		_ = d.View()
	}
}

func BenchmarkFilter(b *testing.B) {
	d := largeDriver(b)
	d.press("/")
	for i := 0; b.Loop(); i++ {
		d.press([]string{"7", "backspace"}[i%2])
		_ = d.View()
	}
}

// TestLarge holds the figures that the screen is to keep with a hundred
// thousand results, with room for a machine that is busy.
func TestLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	r := large(many)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	start := time.Now()
	d := newDriver(t, 160, 50, func(h *fakeHost, _ *Options) { h.report = r })
	_ = d.View()
	took := time.Since(start)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if d.list.n != many {
		t.Fatalf("%d of %d in the list", d.list.n, many)
	}
	t.Logf("start %v, %d MB beside the report", took, (after.HeapAlloc-before.HeapAlloc)>>20)
	if used := after.HeapAlloc - before.HeapAlloc; used > 300<<20 {
		t.Errorf("%d MB beside the report", used>>20)
	}
	n := 0
	allocated := testing.AllocsPerRun(50, func() {
		d.Update(tea.KeyPressMsg{Code: 'j', Text: "j"})
		_ = d.View()
		n++
	})
	if allocated > 20_000 {
		t.Errorf("%.0f allocations for a key: a frame must not look at every result", allocated)
	}
}

// BenchmarkAcceptAll accepts them all, each by itself, and takes it back.
func BenchmarkAcceptAll(b *testing.B) {
	d := largeDriver(b)
	for b.Loop() {
		d.press(`a w "all of them" enter u`)
		_ = d.View()
	}
	if d.session.staged.Len() != 0 {
		b.Fatal("something is left")
	}
}
