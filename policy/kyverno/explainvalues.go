package kyverno

import (
	"errors"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/policy/internal/explain"
	"github.com/preadmit/preadmit/policy/kyverno/internal/conditions"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/render"
)

// Limits of what is shown.
const (
	maxExpression = 400
	maxValue      = 400
	maxParts      = 100 // parts of one evaluation
)

// show formats a value on one line. open says that the value may quote a
// Secret, if the rule read one.
func (r *ruleExplainer) show(v any, open bool) string {
	if r.hide && open {
		return cel.Hidden
	}
	return explain.Show(types.DefaultTypeAdapter.NativeToValue(v))
}

// broken returns the text of an error, or the question that it asks.
func (r *ruleExplainer) broken(err error) (failed, unknown string) {
	if q, ok := errors.AsType[*openError](err); ok {
		return "", policy.Shorten(q.question, maxValue)
	}
	if r.hide && !strings.Contains(err.Error(), "Unknown key") {
		return hidden, ""
	}
	return policy.Shorten(err.Error(), maxValue), ""
}

// opens reports whether a template's value may quote a Secret.
func (r *ruleExplainer) opens(t *template, s *scope) bool {
	if !r.hide || t == nil || t.static || t.err != nil {
		return false
	}
	x, open := &run{review: r.review, program: r.program, target: r.target}, false
	r.review.quietly(func() {
		_, err := t.root.fill(&filling{scope: s, seen: func(_ *variable, source string) { open = open || x.mayQuote(source) }})
		open = open || err != nil
	})
	return open
}

// element names the list element that contains a field of an object:
// containers[1] "side".
func (r *ruleExplainer) element(object any, pointer string) string {
	name, _ := r.elementIn(object, pointer)
	return name
}

// elementIn returns the name of the list element, and the number of the
// pointer's steps that lead to it.
func (r *ruleExplainer) elementIn(object any, pointer string) (string, int) {
	var parts []string
	steps, last := 0, ""
	v := object
	for i, key := range render.Path(pointer) {
		switch in := v.(type) {
		case map[string]any:
			v, last = in[key], key
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n < 0 || n >= len(in) {
				return strings.Join(parts, "."), steps
			}
			v, steps = in[n], i+1
			parts = append(parts, last+"["+key+"]"+r.called(v))
			last = ""
		default:
			return strings.Join(parts, "."), steps
		}
	}
	return strings.Join(parts, "."), steps
}

// called returns the name, key or host of a list element, quoted.
func (r *ruleExplainer) called(v any) string {
	m, _ := v.(map[string]any)
	for _, key := range []string{"name", "key", "host"} {
		if s, ok := m[key].(string); ok && s != "" && !r.hide {
			return " " + strconv.Quote(policy.Shorten(s, 60))
		}
	}
	return ""
}

// written formats a key or value of a condition as the policy has it.
func (r *ruleExplainer) written(v any) string {
	if s, ok := v.(string); ok && strings.Contains(s, "{{") {
		return policy.Shorten(strings.Join(strings.Fields(s), " "), maxExpression)
	}
	return explain.Show(types.DefaultTypeAdapter.NativeToValue(v))
}

func (r *ruleExplainer) conditionText(c *conditions.Condition) string {
	return r.written(c.Key) + " " + c.Operator + " " + r.written(c.Value)
}

// each calls do for each condition of a block in order, with the compared
// values, or with nil if it was not evaluated.
func (t *tracedBlock) each(do func(*conditions.Condition, *tracedCondition)) {
	compares := make(map[*conditions.Condition]*tracedCondition, len(t.compares))
	for i := range t.compares {
		compares[t.compares[i].Condition] = &t.compares[i]
	}
	for i := range t.block.block.Groups {
		g := &t.block.block.Groups[i]
		for _, list := range [][]conditions.Condition{g.Any, g.All} {
			for j := range list {
				do(&list[j], compares[&list[j]])
			}
		}
	}
}

// evaluations describes each condition of a block of a policy or exception.
func (r *ruleExplainer) evaluations(n *tracedBlock, o *render.Object, base, prefix string) []policy.Evaluation {
	var all []policy.Evaluation
	n.each(func(c *conditions.Condition, t *tracedCondition) {
		if len(all) == maxChecks {
			return
		}
		e := policy.Evaluation{
			Name: prefix + document.Dotted(strings.TrimPrefix(c.Pointer, base)), Expression: policy.Shorten(r.conditionText(c), maxExpression), Origin: o.Span(c.Pointer),
		}
		switch {
		case t == nil:
			e.NotRun = "earlier ones decide"
		case t.err != nil:
			e.Error, e.Unknown = r.broken(t.err)
		default:
			e.Value = strconv.FormatBool(conditions.Compare(c.Operator, t.key, t.value))
			e.Parts = r.compared(n, t, 0, "", "")
		}
		all = append(all, e)
	})
	return all
}

// setError sets the value of a part whose evaluation ended with an error.
func (r *ruleExplainer) setError(p *policy.Part, err error) {
	failed, unknown := r.broken(err)
	p.Value, p.Error = "error: "+failed, true
	if unknown != "" {
		p.Value, p.Error = "unknown: "+unknown, false
	}
}

// compared returns a condition as parts: its result, and below it the values of
// its variables.
func (r *ruleExplainer) compared(n *tracedBlock, t *tracedCondition, depth int, loop, name string) []policy.Part {
	c, terms := t.Condition, n.block.terms[t.Condition]
	whole := policy.Part{Depth: depth, Loop: loop, Text: name + policy.Shorten(r.conditionText(c), maxExpression)}
	if name != "" {
		whole.Origin = r.program.policy.Object.Span(c.Pointer)
	}
	if t.err != nil {
		r.setError(&whole, t.err)
		return []policy.Part{whole}
	}
	whole.Value = strconv.FormatBool(conditions.Compare(c.Operator, t.key, t.value))
	parts := []policy.Part{whole}
	for _, side := range []struct {
		written, is any
		template    *template
	}{{c.Key, t.key, terms.key}, {c.Value, t.value, terms.value}} {
		if side.template.static {
			continue
		}
		parts = append(parts, policy.Part{Depth: depth + 1, Loop: loop, Text: r.written(side.written), Value: r.show(side.is, r.opens(side.template, n.scope))})
	}
	return parts
}

// context describes the rule's context entries, loaded or not.
func (r *ruleExplainer) context() []policy.Evaluation {
	var all []policy.Evaluation
	for _, entry := range r.program.entries {
		if len(all) == maxChecks {
			break
		}
		e := r.described("context["+entry.Name+"]", entry.Pointer, entry.source())
		n := r.trace.entries[entry]
		switch {
		case n == nil:
			e.NotRun = "nothing read it"
		case n.err != nil:
			e.Error, e.Unknown = r.broken(n.err)
			e.Parts = r.origin(n, 0, "")
		default:
			e.Value, e.Parts = r.show(n.value, r.entryOpens(n)), r.origin(n, 0, "")
		}
		all = append(all, e)
	}
	return all
}

// entryOpens reports whether an entry's value may quote a Secret. A value that
// was looked up may always do so.
func (r *ruleExplainer) entryOpens(n *tracedEntry) bool {
	switch {
	case !r.hide:
		return false
	case n.Variable == nil || n.entry.value == nil:
		return true
	default:
		return r.opens(n.entry.value, n.scope) || r.opens(n.fields["jmesPath"], n.scope)
	}
}

// source returns the expression or reference that an entry loads its value
// from, as written.
func (e *entry) source() string {
	path := func(text, jmesPath string) string {
		if jmesPath == "" {
			return text
		}
		return strings.TrimPrefix(text+" | "+jmesPath, " | ")
	}
	switch {
	case e.Variable != nil && e.Variable.HasValue:
		return path("value "+strings.TrimSpace(yamlText(e.Variable.Value, maxExpression)), e.Variable.JMESPath)
	case e.Variable != nil:
		return "jmesPath " + e.Variable.JMESPath
	case e.ConfigMap != nil:
		return "configMap " + strings.TrimPrefix(e.ConfigMap.Namespace+"/"+e.ConfigMap.Name, "/")
	case e.APICall != nil:
		return path("apiCall "+e.APICall.Method+" "+e.APICall.URLPath+e.APICall.ServiceURL, e.APICall.JMESPath)
	case e.ImageRegistry != nil:
		return path("imageRegistry "+e.ImageRegistry.Reference, e.ImageRegistry.JMESPath)
	case e.GlobalReference != nil:
		return path("globalReference "+e.GlobalReference.Name, e.GlobalReference.JMESPath)
	default:
		return ""
	}
}

// origin returns the parts of an entry: its texts with variables substituted,
// and the place of the object that was looked up.
func (r *ruleExplainer) origin(n *tracedEntry, depth int, loop string) []policy.Part {
	var parts []policy.Part
	for _, field := range []string{"name", "namespace", "urlPath", "url", "reference", "jmesPath"} {
		t := n.fields[field]
		if t == nil || t.static || t.err != nil {
			continue
		}
		r.review.quietly(func() {
			if v, err := t.fill(n.scope); err == nil {
				parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: field, Value: r.show(v, r.opens(t, n.scope))})
			}
		})
	}
	if n.ConfigMap == nil || n.err != nil || r.review.engine.options.CLI {
		return parts
	}
	m, _ := n.value.(map[string]any)
	meta, _ := m["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	if o := r.review.engine.options.Cluster.Get(r.review.unit(), configMaps, namespace, name); o != nil {
		parts = append(parts, policy.Part{Depth: depth, Loop: loop, Text: "ConfigMap " + namespace + "/" + name, Value: r.show(n.value, r.entryOpens(n)), Origin: o.Span("")})
	}
	return parts
}

// cutParts cuts a list of parts to a readable length.
func cutParts(parts []policy.Part) []policy.Part {
	return parts[:min(len(parts), maxParts)]
}

// notRun marks evaluations as not evaluated and gives the reason.
func notRun(all []policy.Evaluation, why string) []policy.Evaluation {
	for i := range all {
		all[i] = policy.Evaluation{Name: all[i].Name, Expression: all[i].Expression, Origin: all[i].Origin, NotRun: why}
	}
	return all
}
