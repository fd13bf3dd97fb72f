package report

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// The policyreport format is the one of Kyverno and its dashboards: wgpolicyk8s.io/v1alpha2, a
// PolicyReport for each namespace and a ClusterPolicyReport for what has none, as YAML documents. A
// report contains the results for the objects as they would be on the cluster: all results,
// including passes, except fixed ones. A suppressed result is a skip whose message says so.
//
// Every text is written as a JSON string, which is valid YAML. etcd rejects objects of more than
// 1.5 MiB, so after 1 MiB a report continues in another object. There is no timestamp, so that
// output is reproducible.
const maxReportBytes = 1 << 20

// The values of result in a PolicyReport, in the order of its summary.
var reportResults = []string{"pass", "fail", "warn", "error", "skip"}

// reportResult maps an outcome and action.
func reportResult(x *policy.Result) string {
	switch {
	case x.Outcome == policy.Pass:
		return "pass"
	case x.Outcome == policy.Skip, x.Suppression != nil, x.Unreached:
		return "skip"
	case x.Undecided():
		return "error"
	case x.Action == policy.Warn, x.Action == policy.Audit:
		return "warn"
	default:
		return "fail"
	}
}

// A clusterReport is a document that is being written.
type clusterReport struct {
	kind, name, namespace string
	counts                map[string]int
	body                  strings.Builder
}

type policyReportWriter struct {
	out      *bufio.Writer
	clusters map[string]string // of units

	undeployed string // see Summary.Undeployed
}

func writePolicyReport(w io.Writer, r *Report, _ Options) error {
	results := newList(withUnits(r))
	p := &policyReportWriter{out: bufio.NewWriterSize(w, 64<<10), clusters: make(map[string]string), undeployed: r.Summary.Undeployed()}
	for _, u := range r.Units {
		p.clusters[u.Identity()] = u.Cluster
	}
	byNamespace := make(map[string]*selection)
	of := func(namespace string) *selection {
		if byNamespace[namespace] == nil {
			byNamespace[namespace] = &selection{of: results}
		}
		return byNamespace[namespace]
	}
	for n, x := range results.all() {
		if x.Baseline != policy.Absent {
			of(x.Object.Namespace).add(n)
		}
	}
	passes := r.Passes.By(func(k render.Key) string { return k.Namespace })
	for namespace := range passes {
		of(namespace) // a namespace may have only passes
	}
	if len(byNamespace) == 0 {
		of("")
	}
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		p.reports(namespace, policy.Merged(byNamespace[namespace].values(), passes[namespace].All()))
	}
	return p.out.Flush()
}

// reports writes the results of a namespace in as many reports as they need.
func (p *policyReportWriter) reports(namespace string, results iter.Seq[*policy.Result]) {
	var c *clusterReport
	n := 0
	begin := func() {
		n++
		c = &clusterReport{kind: "PolicyReport", name: "preadmit", namespace: namespace, counts: make(map[string]int)}
		if namespace == "" {
			c.kind = "ClusterPolicyReport"
		}
		if n > 1 {
			c.name += "-" + strconv.Itoa(n)
		}
	}
	begin()
	for x := range results {
		if c.body.Len() > maxReportBytes {
			p.write(c)
			begin()
		}
		p.result(c, x)
	}
	p.write(c)
}

func (p *policyReportWriter) write(c *clusterReport) {
	p.out.WriteString("---\napiVersion: wgpolicyk8s.io/v1alpha2\nkind: " + c.kind + "\nmetadata:\n  name: " + c.name + "\n")
	if c.namespace != "" {
		p.out.WriteString("  namespace: " + yamlText(name(c.namespace)) + "\n")
	}
	p.out.WriteString("  labels:\n    app.kubernetes.io/managed-by: preadmit\n")
	if p.undeployed != "" { // in the first report
		p.out.WriteString("  annotations:\n    preadmit/not-deployed: " + yamlText(p.undeployed) + "\n")
		p.undeployed = ""
	}
	p.out.WriteString("summary:\n")
	for _, result := range reportResults {
		fmt.Fprintf(p.out, "  %s: %d\n", result, c.counts[result])
	}
	if c.body.Len() == 0 {
		p.out.WriteString("results: []\n")
		return
	}
	p.out.WriteString("results:\n" + c.body.String())
}

// result writes one result.
func (p *policyReportWriter) result(c *clusterReport, x *policy.Result) {
	result := reportResult(x)
	c.counts[result]++
	field := func(indent, key, value string) {
		if value != "" {
			c.body.WriteString(indent + key + ": " + yamlText(value) + "\n")
		}
	}
	c.body.WriteString("- result: " + result + "\n  scored: true\n")
	field("  ", "source", name(x.Engine))
	field("  ", "policy", name(cmp.Or(x.Policy, x.Engine, "unnamed")))
	field("  ", "rule", name(x.Rule))
	field("  ", "message", p.message(x))
	if slices.Contains(policy.Severities, x.Severity) {
		field("  ", "severity", string(x.Severity))
	}
	if k := x.Object; k.Kind != "" {
		c.body.WriteString("  resources:\n  - apiVersion: " + yamlText(name(k.APIVersion)) + "\n")
		field("    ", "kind", name(k.Kind))
		field("    ", "namespace", name(k.Namespace))
		field("    ", "name", name(k.Name))
	}
	c.body.WriteString("  properties:\n")
	for _, property := range p.properties(x) {
		field("    ", property[0], property[1])
	}
}

func (p *policyReportWriter) message(x *policy.Result) string {
	text := prose(x.Message)
	if x.Suppression != nil {
		text = notCounted(x) + ": " + text
	}
	return text
}

// properties returns the data for which PolicyReport has no fields, sorted.
func (p *policyReportWriter) properties(x *policy.Result) [][2]string {
	at := place(x).Span
	at.File = visible(at.File, maxMessage)
	all := [][2]string{
		{"action", string(x.Action)},
		{"assumed", strings.Join(proses(x.Assumed), "; ")},
		{"baseline", name(string(x.Baseline))},
		{"cluster", name(p.clusters[x.Object.Unit])},
		{"fingerprint", name(x.Fingerprint)},
		{"operation", name(string(x.Operation))},
		{"outcome", string(x.Outcome)},
		{"place", at.String()},
		{"unit", visible(x.Object.Unit, maxMessage)},
	}
	if s := x.Suppression; s != nil {
		all = append(all, [2]string{"suppressed", name(s.Expires)})
	}
	return all
}

// yamlText formats visible text as a double-quoted scalar.
func yamlText(s string) string {
	return `"` + quotes.Replace(s) + `"`
}

var quotes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)
