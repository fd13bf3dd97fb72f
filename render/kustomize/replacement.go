package kustomize

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/utils"

	"github.com/preadmit/preadmit/render"
)

// A replacement is an entry of a kustomization's replacements, or of a file that they name.
type replacement struct {
	types.Replacement `json:",inline"`
	at                func(field ...any) render.Span
}

// A growth is a replacement, and how many copies of one value it may write.
type growth struct {
	replacement
	copies int
}

const (
	maxReplacements = 5000
	maxCopies       = 1 << 20
	perWildcard     = 16 // fields that a path with a wildcard is taken to match
)

// grow limits how much data the replacements of a kustomization may copy. A
// replacement that reads the result of earlier ones copies their copies.
func (w *walk) grow(replacements []replacement) {
	for _, r := range slices.Backward(replacements) {
		if len(w.growths) > maxReplacements {
			return
		}
		g := growth{r, 1}
		if r.Source != nil {
			for _, earlier := range w.growths {
				g.copies = min(g.copies+earlier.copies*earlier.writesTo(r.Source), maxCopies+1)
			}
		}
		w.growths = append(w.growths, g)
		w.multiplied = max(w.multiplied, g.copies)
	}
}

// writesTo counts the fields at, above or below a source that a replacement
// may write.
func (r *replacement) writesTo(s *types.SourceSelector) int {
	n := 0
	source := fieldPath(s.FieldPath)
	for _, t := range r.Targets {
		if t == nil || t.Select == nil || s.Kind != "" && isWord(t.Select.Kind) && s.Kind != t.Select.Kind {
			continue
		}
		paths := t.FieldPaths
		if len(paths) == 0 {
			paths = []string{""}
		}
		for _, p := range paths {
			target := fieldPath(p)
			m := min(len(source), len(target))
			switch {
			case !overlap(source[:m], target[:m]):
			case slices.ContainsFunc(target, isWildcard):
				n += perWildcard
			default:
				n++
			}
		}
	}
	return n
}

func fieldPath(p string) []string {
	p = cmp.Or(p, types.DefaultReplacementFieldPath)
	return utils.SmarterPathSplitter(p, ".")
}

// overlap reports whether two paths of the same length may name the same field.
func overlap(a, b []string) bool {
	for i := range a {
		if a[i] != b[i] && !isWildcard(a[i]) && !isWildcard(b[i]) && a[i] != "-" && b[i] != "-" {
			return false
		}
	}
	return true
}

func isWildcard(e string) bool { return e == "*" || strings.HasPrefix(e, "[") }

// isWord reports whether a regular expression matches only itself.
func isWord(expr string) bool {
	return expr != "" && !strings.ContainsFunc(expr, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}

// replacements returns the replacements of a kustomization, the last one first.
func (n *node) replacements() []replacement {
	all := n.replacementsOf(n.spec.Replacements, n.places("replacements"))
	for _, p := range n.plugins {
		for key, v := range p.fields() {
			var entries []types.ReplacementField
			if strings.EqualFold(key, "replacements") && convert(v, &entries) == nil {
				all = append(all, n.replacementsOf(entries, p.under(key))...)
			}
		}
	}
	slices.Reverse(all)
	return all
}

// replacementsOf returns the replacements of a list of entries, of which some name files.
func (n *node) replacementsOf(entries []types.ReplacementField, at func(...any) render.Span) (all []replacement) {
	for i, r := range entries {
		if r.Path == "" {
			all = append(all, replacement{r.Replacement, func(field ...any) render.Span { return at(append([]any{i}, field...)...) }})
			continue
		}
		for _, doc := range n.replaces[r.Path] {
			list, ok := doc.Value.([]any)
			if !ok {
				all = append(all, replacementsIn(doc, "", doc.Value)...)
			}
			for i, v := range list {
				all = append(all, replacementsIn(doc, fmt.Sprint("/", i), v)...)
			}
			break // kustomize reads the first document
		}
	}
	return all
}

func replacementsIn(doc render.Document, at string, value any) []replacement {
	r := replacement{at: func(field ...any) render.Span {
		_, span, ok := doc.Positions.Field(at + render.Pointer(field...))
		if !ok {
			return doc.Span
		}
		return span
	}}
	if convert(value, &r.Replacement) != nil {
		return nil
	}
	return []replacement{r}
}

// convert decodes a value of a document as a type of kustomize's.
func convert(value, to any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}
