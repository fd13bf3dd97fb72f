package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// A fetchProgress shows the source that is being downloaded, in one line on a
// terminal.
type fetchProgress struct {
	w io.Writer // nil where there is no terminal

	mu         sync.Mutex
	total, got int
	bytes      int64
	last       string
	drawn      time.Time
}

func newFetchProgress(w io.Writer, quiet bool) *fetchProgress {
	if quiet || !isTerminal(w) {
		w = nil
	}
	return &fetchProgress{w: w}
}

// expect adds to what is to be fetched.
func (p *fetchProgress) expect(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total += n
}

// add counts bytes that came.
func (p *fetchProgress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += int64(n)
	p.draw(false)
}

// done says that a source was fetched, or failed.
func (p *fetchProgress) done(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got, p.last = p.got+1, name
	p.draw(true)
}

func (p *fetchProgress) draw(now bool) {
	const width, cells = 20, 60
	if p.w == nil || !now && time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	bar := make([]byte, width)
	for i := range bar {
		bar[i] = '.'
		if i < p.got*width/max(p.total, 1) {
			bar[i] = '#'
		}
	}
	name := []rune(plain(p.last))
	fmt.Fprintf(p.w, "\r\x1b[K[%s] %d/%d  %s  %s", bar, p.got, p.total, fileSize(p.bytes), string(name[:min(len(name), cells)]))
}

// clear takes the line away.
func (p *fetchProgress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
