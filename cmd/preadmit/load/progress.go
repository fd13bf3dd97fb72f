package load

import (
	"context"
	"sync"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/tasks"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/tui"
)

// A Progress reports to a screen how many units are rendered. A nil *Progress does nothing.
type Progress struct {
	Tell  func(tui.Progress)
	Quiet bool // no results before the end

	mu          sync.Mutex
	done, total int
	told        time.Time
}

// tellEvery is the interval between reports.
const tellEvery = 100 * time.Millisecond

// expect adds n units to be rendered.
func (p *Progress) expect(n int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += n
}

func (p *Progress) rendered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done >= p.total { // rendered again, to find the origins of fields
		return
	}
	p.done++
	if now := time.Now(); now.Sub(p.told) > tellEvery {
		p.told = now
		p.Tell(tui.Progress{Step: "rendering", Done: p.done, Total: p.total})
	}
}

// Early reports whether results are reported before the end.
func (p *Progress) Early() bool { return p != nil && !p.Quiet }

// renderers returns renderers that report each unit that is done.
func (p *Progress) renderers(all []render.Renderer) []render.Renderer {
	if p == nil {
		return all
	}
	return tasks.Around(all, func(_ context.Context, _ string, _ render.Source, next tasks.Rendering) ([]*render.Object, error) {
		defer p.rendered()
		return next()
	})
}
