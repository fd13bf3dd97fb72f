package helm

import (
	"maps"
	"slices"
	"text/template/parse"
)

// A returned says what decides the result of a template: the doubts in it, and the templates it calls.
type returned struct {
	doubts uint32   // bits
	calls  []string // names of the templates that it calls
}

// A resultUse says how the chart uses the result of a template. Uses are found before the chart is
// executed. A call within a condition is not among them: the doubts that it raises are counted
// while it is executed.
type resultUse uint8

const (
	resultCompared resultUse = iota + 1 // with a text
	resultKept                          // in a field, by set or merge
)

// resultOf is the prefix of template names among doubtful fields.
const resultOf = "include "

const maxHolding = 64 // templates whose results one variable holds

// included returns the name of the template that a command includes.
func included(c *parse.CommandNode) (name string, ok bool) {
	if f, is := c.Args[0].(*parse.IdentifierNode); !is || f.Ident != "include" || len(c.Args) < 2 {
		return "", false
	}
	text, ok := c.Args[1].(*parse.StringNode)
	if ok {
		name = text.Text
	}
	return name, ok
}

// use records that a pipeline uses the results of templates.
func (i *instrument) use(p *parse.PipeNode, how resultUse) {
	for _, name := range i.holds(p) {
		i.src.results[name] = max(i.src.results[name], how)
	}
}

// holds returns the templates whose results a pipeline has, sorted.
func (w *doubtFinder) holds(n parse.Node) []string {
	var names []string
	eachIncluded(n, func(name string) { names = append(names, name) })
	slices.Sort(names)
	names = slices.Compact(names)
	eachVariable(n, func(name string) { names = joined(names, w.variables[name].templates) })
	return names
}

func joined(a, b []string) []string {
	if len(b) == 0 {
		return a
	}
	all := slices.Concat(a, b)
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), maxHolding)]
}

func eachIncluded(n parse.Node, f func(name string)) {
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			if name, ok := included(c); ok {
				f(name)
			}
			for _, arg := range c.Args {
				eachIncluded(arg, f)
			}
		}
	case *parse.ChainNode:
		eachIncluded(n.Node, f)
	}
}

func eachVariable(n parse.Node, f func(name string)) {
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, c := range n.Cmds {
			for _, arg := range c.Args {
				eachVariable(arg, f)
			}
		}
	case *parse.ChainNode:
		eachVariable(n.Node, f)
	case *parse.VariableNode:
		f(n.Ident[0])
	}
}

// doubtfulResults adds to fields the doubts about the results of templates that are kept
// in fields. Doubts about names and the version of Kubernetes count if the result is
// compared, too.
func (e *execution) doubtfulResults(fields map[string]doubt) {
	returns, uses := map[string]*returned{}, map[string]resultUse{}
	for _, f := range e.files {
		src, err := e.cache.parse(f.templateText, fields, params(e.src).Version)
		if err != nil {
			continue
		}
		maps.Copy(returns, src.returns)
		for name, how := range src.results {
			uses[name] = max(uses[name], how)
		}
	}
	found := map[string]doubt{}
	for name, how := range uses {
		all := doubtsOf(name, returns)
		for d := byCommit; d > sure; d-- {
			if all&(1<<d) != 0 && (how == resultKept || d.isName() || d == byKubeVersion) {
				found[resultOf+name] = d
				break
			}
		}
	}
	maps.Copy(fields, found)
}

// doubtsOf returns the bits of the doubts about what a template returns.
func doubtsOf(name string, returns map[string]*returned) (doubts uint32) {
	seen := map[string]bool{name: true}
	for open := []string{name}; len(open) > 0; {
		r := returns[open[0]]
		if open = open[1:]; r == nil {
			continue
		}
		doubts |= r.doubts
		for _, called := range r.calls {
			if !seen[called] {
				seen[called] = true
				open = append(open, called)
			}
		}
	}
	return doubts
}
