// Package argocd finds what Argo CD's Applications and ApplicationSets deploy,
// as Argo CD 3.6 would, offline.
//
// It takes an object and a [render.World], which knows the other objects of the
// cluster, the clusters and the repositories, and returns one [render.Unit].
// The unit of an ApplicationSet holds the Applications that it generates
// (applicationset.go, generators.go, git.go, clusters.go, template.go). The
// unit of an Application holds the rendered objects of its sources
// (deployment.go, sources.go, helm.go, kustomize.go, directory.go, jsonnet.go),
// checked against its AppProject (project.go). render.Graph calls it.
//
// Nothing is fetched and no plugin runs: an Application with a remote chart or
// a plugin is not rendered, and its unit says what it needs.
package argocd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/preadmit/preadmit/render"
)

const group = "argoproj.io"

// maxTime is how long one object may take.
const maxTime = 2 * time.Minute

// A Resolver follows Applications and ApplicationSets. The zero value is ready.
type Resolver struct{}

// New returns a Resolver.
func New() *Resolver { return &Resolver{} }

var _ render.Resolver = (*Resolver)(nil)

// Follows reports whether o is an Application or an ApplicationSet.
func (*Resolver) Follows(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Group == group && (gvk.Kind == "Application" || gvk.Kind == "ApplicationSet")
}

// Resolve returns the unit that o makes. Its errors are *[render.Error] values
// with the rules "argocd-application", "argocd-applicationset",
// "missing-params", "duplicate-application", "argocd-project" and those of the
// renderers.
func (r *Resolver) Resolve(ctx context.Context, o *render.Object, w *render.World) *render.Unit {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	if o.GetKind() == "ApplicationSet" {
		return applicationSet(ctx, o, w)
	}
	return deploy(ctx, o, w)
}

func applicationSet(ctx context.Context, o *render.Object, w *render.World) *render.Unit {
	u := unit(o, w, "applicationset")
	u.Namespace = namespaceOf(o)
	u.User = serviceAccount(namespaceOf(o), "argocd-applicationset-controller")
	u.Objects, u.Err = generate(ctx, o, w)
	u.State = state(u.Err)
	return u
}

// unit returns a unit for an object of Argo CD.
func unit(o *render.Object, w *render.World, kind string) *render.Unit {
	u := &render.Unit{
		Source: render.Source{Kind: "argocd", Path: ".", Owner: o},
		Name:   o.GetName(), Cluster: w.Cluster.Name,
		ID: kind + "/" + namespaceOf(o) + "/" + o.GetName(),
	}
	if places := o.At(""); len(places) > 0 {
		u.Origin = places[0]
	}
	return u
}

// state returns Foreign for an error about another repository. Other states
// follow from the error itself.
func state(err error) render.State {
	for _, e := range render.Errors(err) {
		if e.Rule == "foreign-repository" {
			return render.Foreign
		}
	}
	return ""
}

// namespaceOf returns the namespace of an object of Argo CD: its own, else that
// of the unit that makes it, else argocd.
func namespaceOf(o *render.Object) string {
	var made string
	if o.Unit != nil {
		made = o.Unit.Namespace
	}
	return cmp.Or(o.GetNamespace(), made, "argocd")
}

func serviceAccount(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// placed adds the place of a field to an error without one.
func placed(o *render.Object, pointer string, err error) error {
	var e *render.Error
	if !errors.As(err, &e) {
		return &render.Error{Span: o.Span(pointer), Rule: "argocd-application", Err: err}
	}
	if e.Span != (render.Span{}) {
		return e
	}
	moved := *e
	moved.Span = o.Span(pointer)
	return &moved
}

// maxNesting is how deep brackets, operators and statements of a Jsonnet file
// may be nested. The library recurses for each, and Go can't recover from a
// stack overflow; recursive functions multiply the depth.
const maxNesting = 600

var errNesting = fmt.Errorf("has more than %d brackets, operators and statements within one another", maxNesting)

// A nesting measures the nesting of a Jsonnet file by its tokens: each operator
// or statement such as local adds a level up to the comma or bracket that ends
// the chain.
type nesting struct {
	text   string
	at     int
	chains []int // levels in each open bracket
	depth  int   // sum of chains
}

// checkNesting refuses a text that is nested too deep. It accepts a text that
// it can't tokenize, since Jsonnet refuses that before it parses.
func checkNesting(text string) error {
	n := nesting{text: text, chains: []int{0}}
	for n.at < len(text) {
		n.token()
		if n.depth > maxNesting {
			return errNesting
		}
	}
	return nil
}

func (n *nesting) rest() string { return n.text[n.at:] }

// token consumes one token or one other character.
func (n *nesting) token() {
	rest := n.rest()
	switch c := rest[0]; {
	case c == '#' || strings.HasPrefix(rest, "//"):
		n.skipTo("\n")
	case strings.HasPrefix(rest, "/*"):
		n.at += 2
		n.skipTo("*/")
	case strings.HasPrefix(rest, "|||"):
		n.block()
	case c == '"' || c == '\'':
		for n.at++; n.at < len(n.text) && n.text[n.at] != c; n.at++ {
			if n.text[n.at] == '\\' {
				n.at++
			}
		}
		n.at++
	case c == '@' && len(rest) > 1 && (rest[1] == '"' || rest[1] == '\''):
		n.verbatim(rest[1])
	case strings.IndexByte("([{", c) >= 0:
		n.chains = append(n.chains, 0)
		n.count()
	case strings.IndexByte(")]}", c) >= 0:
		n.end()
		if len(n.chains) > 1 {
			n.chains = n.chains[:len(n.chains)-1]
		}
		n.count() // calls nest too: f(1)(2)
	case c == ',':
		n.end()
		n.at++
	case isWord(c):
		n.word()
	case strings.IndexByte("!~+-&|^<>*/%.", c) >= 0:
		n.count()
	default:
		n.at++
	}
}

// count adds a level and advances.
func (n *nesting) count() {
	n.chains[len(n.chains)-1]++
	n.depth++
	n.at++
}

// end closes the chain of the innermost bracket.
func (n *nesting) end() {
	n.depth -= n.chains[len(n.chains)-1]
	n.chains[len(n.chains)-1] = 0
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// word counts the keywords that nest.
func (n *nesting) word() {
	from := n.at
	for n.at < len(n.text) && isWord(n.text[n.at]) {
		n.at++
	}
	switch n.text[from:n.at] {
	case "local", "if", "else", "function", "assert", "error", "in", "for":
		n.at--
		n.count()
	}
}

func (n *nesting) skipTo(end string) {
	i := strings.Index(n.rest(), end)
	if i < 0 {
		n.at = len(n.text)
		return
	}
	n.at += i + len(end)
}

// verbatim skips a text in which two quotes mean one.
func (n *nesting) verbatim(quote byte) {
	for n.at += 2; n.at < len(n.text); n.at++ {
		if n.text[n.at] != quote {
			continue
		}
		if n.at++; n.at == len(n.text) || n.text[n.at] != quote {
			return
		}
	}
}

// block skips a text between ||| and |||, which continues while lines have the
// indentation of the first.
func (n *nesting) block() {
	n.at += len("|||")
	n.skipTo("\n")
	n.blank()
	line := n.rest()
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	for indent != "" && strings.HasPrefix(n.rest(), indent) {
		n.skipTo("\n")
		n.blank()
	}
	n.at += len(n.rest()) - len(strings.TrimLeft(n.rest(), " \t"))
	if strings.HasPrefix(n.rest(), "|||") {
		n.at += len("|||")
		return
	}
	n.at = len(n.text) // Jsonnet refuses it
}

func (n *nesting) blank() {
	n.at += len(n.rest()) - len(strings.TrimLeft(n.rest(), "\n"))
}
