//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/preadmit/preadmit/render"
)

// TestOriginsCost measures, in one run over the same inputs, what it costs to
// ask for the place of every field: `make origins` prints it.
func TestOriginsCost(t *testing.T) {
	if os.Getenv("PREADMIT_ORIGINS") == "" {
		t.Skip("takes minutes; make origins runs it")
	}
	quietLibraries()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "repository\tkind\tunits\tfields\trendered\twith every place\tratio\t")
	for _, root := range repositories(t) {
		tr := treeOf(t, root)
		found := render.Graph{Renderers: renderers()}.Discover(tr, ".")
		for _, kind := range []string{"helm", "kustomize", "manifest"} {
			var c cost
			for _, src := range found.Sources {
				if src.Kind == kind {
					c.add(src)
				}
			}
			if c.units > 0 {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%v\t%v\t%.2f\t\n", filepath.Base(root), kind, c.units, c.fields,
					c.plain.Round(time.Millisecond), c.asked.Round(time.Millisecond), float64(c.asked)/float64(c.plain))
			}
		}
	}
	w.Flush()
	t.Logf("CPU time of one process\n%s", b.String())
}

// A cost is the CPU time of rendering units.
type cost struct {
	units, fields int
	plain, asked  time.Duration // alone, and with the place of every field
}

// add renders a unit cold: by a renderer that has seen nothing before.
func (c *cost) add(src render.Source) {
	start := cpu()
	n := len(rendering(src))
	c.plain += cpu() - start
	if n == 0 {
		return
	}
	c.units++
	start = cpu()
	for _, o := range rendering(src) {
		scalars(o.Object, "", func(pointer string, _ any) {
			o.At(pointer)
			c.fields++
		})
	}
	c.asked += cpu() - start
}

func rendering(src render.Source) []*render.Object {
	units, _ := render.Graph{Renderers: renderers()}.Render(context.Background(), src)
	return units[0].Objects
}

func cpu() time.Duration { return cpuOf(syscall.RUSAGE_SELF) }

func cpuOf(who int) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(who, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
