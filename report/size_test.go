package report

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// flood is a report of n findings at n lines, each with a message of its own,
// of n/10 units that were not rendered.
func flood(n int) *Report {
	r := large(n)
	r.Base = &Base{Revision: "main", Commit: strings.Repeat("a", 40)}
	r.Summary = Summary{}
	for i := range r.Results {
		x := &r.Results[i]
		x.Outcome, x.Message = []policy.Outcome{policy.Fail, policy.Fail, policy.Fail, policy.Error, policy.Unknown}[i%5], fmt.Sprintf("finding %d", i)
		x.Action, x.Baseline = policy.Actions[i%3], policy.New
		x.Origins = []render.Origin{{Span: render.Span{File: x.Object.Unit + "/values.yaml", Line: 1 + i%200, Column: 1, EndLine: 1 + i%200, EndColumn: 9}, Role: render.Value}}
		r.count(x)
		r.Changes = append(r.Changes, Change{Operation: policy.Create, Object: x.Object})
		r.Notes = append(r.Notes, fmt.Sprintf("note %d", i))
		if i%10 == 0 {
			r.Units = append(r.Units, Unit{Path: fmt.Sprintf("unit-%d", i), Kind: "helm", Status: "failed", Reason: "a reason"})
		}
	}
	r.Proposed = append(r.Proposed, r.Results...)
	return r
}

// A meter counts what is written to it, and what is held meanwhile.
type meter struct {
	out    bytes.Buffer
	writes int
	most   int // bytes, the output not counted
}

func (m *meter) Write(b []byte) (int, error) {
	if m.writes++; m.writes%256 == 1 {
		m.most = max(m.most, held()-m.out.Cap())
	}
	return m.out.Write(b)
}

// held is what is in memory and in use.
func held() int {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// Of 100,000 findings at as many places, in as many units, with as many
// changes, notes and proposals, each format writes what its reader takes, in
// little memory, and says what it leaves out.
func TestFlood(t *testing.T) {
	r := flood(100_000)
	before := held()
	for _, c := range []struct {
		format string
		most   int // bytes
		says   string
	}{
		{"markdown", MaxMarkdown, "of these 10000 are not shown here"},
		{"github", 64 << 10, "more in the summary (-o markdown)"},
		{"junit", 30 << 20, "of this unit are left out"},
		{"gitlab", 10 << 20, "12000 more findings are left out"},
		{"html", 9 << 20, "of these 20000 are not shown here"},
		{"policyreport", 160 << 20, ""},
	} {
		m := &meter{}
		rendertest.OK(t, Write(m, c.format, r, Options{}))
		used := (m.most - before) >> 20
		t.Logf("%s: %d KiB written, %d MiB held", c.format, m.out.Len()>>10, used)
		if m.out.Len() > c.most || used > 256 {
			t.Errorf("%s: %d bytes written, %d MiB held", c.format, m.out.Len(), used)
		}
		if !bytes.Contains(m.out.Bytes(), []byte(c.says)) {
			t.Errorf("%s does not say %q", c.format, c.says)
		}
		if c.format == "policyreport" {
			continue // whose reader takes longer than all else; see TestPolicyReportIsCut
		}
		if err := checks[c.format](r, m.out.Bytes(), Options{}); err != nil {
			t.Errorf("%s: %v", c.format, err)
		}
	}
}

// TestMarkdownLimit holds that a comment's markdown fits a comment.
func TestMarkdownLimit(t *testing.T) {
	r := flood(2_000)
	for _, limit := range []int{1, MinMarkdown, 60_000, 2 * MaxMarkdown} {
		var b bytes.Buffer
		rendertest.OK(t, Write(&b, "markdown", r, Options{Limit: limit}))
		if most := max(MinMarkdown, min(limit, MaxMarkdown)); b.Len() > most {
			t.Errorf("limit %d: %d bytes", limit, b.Len())
		}
		if limit == 60_000 && (b.Len() < 20_000 || !strings.Contains(b.String(), "which ends at 58 KiB")) {
			t.Errorf("limit %d: %d bytes:\n%.500s", limit, b.Len(), b.String())
		}
	}
}

// A summary that fits is whole, however it is made up.
func TestMarkdownIsWhole(t *testing.T) {
	t.Parallel()
	r := sample(t)
	r.Results = append(r.Results, manyResults(600, func(i int, x *policy.Result) {
		x.Rule, x.Action, x.Message = fmt.Sprint(i), policy.Warn, fmt.Sprint(i, strings.Repeat(" long", 100))
	})...)
	out := string(write(t, "markdown", r, Options{}))
	if strings.Contains(out, "Not all is shown") || len(out) < 300<<10 {
		t.Errorf("%d bytes: %.300s", len(out), out)
	}
}
