package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// large is a report of n results, a tenth of which are findings, over charts
// of a hundred objects each.
func large(n int) *Report {
	tree := fstest.MapFS{}
	r := &Report{Tool: Tool{Name: "preadmit", Version: "0.1.0"}, Tree: tree}
	for p := range 20 {
		r.Rules = append(r.Rules, policy.Rule{Engine: "ValidatingAdmissionPolicy", Policy: fmt.Sprintf("policy-%02d", p), Name: "validations[0]", Action: policy.Deny})
	}
	for i := range n {
		object, rule := i/20, r.Rules[i%20]
		unit := fmt.Sprintf("charts/app-%05d", object/100)
		file := unit + "/values.yaml"
		if tree[file] == nil {
			tree[file] = &fstest.MapFile{Data: []byte(strings.Repeat("container:\n  resources: {limits: {memory: 1Gi}}\n", 100))}
			r.Units = append(r.Units, Unit{Path: unit, Kind: "helm", Name: unit, Status: "rendered", Objects: 100})
		}
		x := policy.Result{
			Engine: rule.Engine, Policy: rule.Policy, Rule: rule.Name, Operation: policy.Create, Outcome: policy.Pass, Action: policy.Deny,
			Object:      render.Key{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "prod", Name: fmt.Sprintf("web-%05d", object), Unit: unit},
			Fingerprint: fmt.Sprintf("%032x", i),
		}
		if i%10 == 3 {
			x.Outcome, x.Message = policy.Fail, fmt.Sprintf("container web of web-%05d needs limits", object)
			x.Fields = []string{"/spec/template/spec/containers/0/resources/limits"}
			line := 1 + 2*(object%100)
			x.Origins = []render.Origin{
				{Span: render.Span{File: file, Line: line + 1, Column: 3, EndLine: line + 1, EndColumn: 12}, Role: render.Value},
				{Span: render.Span{File: file, Line: line, Column: 1, EndLine: line, EndColumn: 10}, Role: render.Template},
			}
		}
		r.Results = append(r.Results, x)
	}
	for i := range r.Results {
		r.count(&r.Results[i])
	}
	return r
}

func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		r := large(n)
		for _, f := range Formats {
			b.Run(fmt.Sprintf("%s/%d", f.Name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := Write(io.Discard, f.Name, r, Options{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		data := write(b, "json", large(n), Options{})
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(bytes.NewReader(data)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	r := large(100_000)
	data := write(b, "sarif", r, Options{})
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if p := Verify(data, r.Tree); len(p) > 0 {
			b.Fatal(p[0])
		}
	}
}

func BenchmarkLineHashes(b *testing.B) {
	data := []byte(strings.Repeat("  resources: {limits: {memory: 1Gi}}\n", 10_000))
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		lineHashes(data)
	}
}
