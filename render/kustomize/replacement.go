package kustomize

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/kustomize/kyaml/utils"

	"github.com/preadmit/preadmit/render"
)

// maxSources is the longest chain of replacements that is followed.
const maxSources = 4

// replacement returns the origins of a field that a replacement wrote: the
// source's own place first, then the replacement.
func (f *field) replacement(n *node) []render.Origin {
	if n.allReplacements == nil {
		n.allReplacements = append([]replacement{}, n.replacements()...)
	}
	for _, r := range n.allReplacements {
		if !f.targeted(r.Targets) {
			continue
		}
		entry := []render.Origin{{Span: r.at(), Role: render.Patch}}
		if r.SourceValue != nil {
			if strings.Contains(fmt.Sprint(f.value), *r.SourceValue) {
				return append([]render.Origin{{Span: r.at("sourceValue"), Role: render.Patch}}, entry...)
			}
			continue
		}
		if found := f.from(r.Source); len(found) > 0 {
			return append(found, entry...)
		}
	}
	return nil
}

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
	var all []replacement
	for i, r := range n.spec.Replacements {
		if r.Path == "" {
			all = append(all, replacement{r.Replacement, func(at ...any) render.Span {
				return n.at(append([]any{"replacements", i}, at...)...)
			}})
		}
	}
	for _, doc := range n.replaces {
		list, ok := doc.Value.([]any)
		if !ok {
			all = append(all, replacementsIn(doc, "", doc.Value)...)
		}
		for i, v := range list {
			all = append(all, replacementsIn(doc, fmt.Sprint("/", i), v)...)
		}
	}
	slices.Reverse(all)
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
	data, err := json.Marshal(value)
	if err != nil || json.Unmarshal(data, &r.Replacement) != nil {
		return nil
	}
	return []replacement{r}
}

// targeted reports whether one of the targets is this field of this object.
func (f *field) targeted(targets []*types.TargetSelector) bool {
	for _, t := range targets {
		if t == nil || t.Select == nil || !f.p.o.w.bases.selections.of(*t.Select).may(f.p.candidate()) {
			continue
		}
		paths := t.FieldPaths
		if len(paths) == 0 {
			paths = []string{types.DefaultReplacementFieldPath}
		}
		for _, p := range paths {
			if onPath(utils.SmarterPathSplitter(p, "."), f.path) {
				return true
			}
		}
	}
	return false
}

// onPath reports whether a field path of a replacement is, or may be, a path.
func onPath(fieldPath, path []string) bool {
	if len(fieldPath) != len(path) {
		return false
	}
	for i, e := range fieldPath {
		switch {
		case e == path[i], e == "*":
		case (strings.HasPrefix(e, "[") || e == "-") && isIndex(path[i]):
		default:
			return false
		}
	}
	return true
}

// from finds the object that a replacement takes its value from, and where
// that is written.
func (f *field) from(s *types.SourceSelector) []render.Origin {
	if s == nil || f.p.o.depth > maxSources {
		return nil
	}
	f.p.o.depth++
	defer func() { f.p.o.depth-- }()
	fieldPath := cmp.Or(s.FieldPath, types.DefaultReplacementFieldPath)
	for _, o := range f.p.o.objects {
		if o == f.p || !isSource(s.ResId, o.value) {
			continue
		}
		o.prepare()
		pointer := pointerTo(o.value, fieldPath)
		v, ok := render.Lookup(o.value, pointer)
		if !ok || !render.IsScalar(v) || !f.takes(s, fmt.Sprint(v)) {
			continue
		}
		return o.at(pointer)
	}
	return f.fromSource(s, fieldPath)
}

// fromSource does what from does for source objects that are not in the output,
// because a later patch may delete them.
func (f *field) fromSource(s *types.SourceSelector, fieldPath string) []render.Origin {
	for _, file := range sorted(f.p.o.byFile) {
		for _, src := range f.p.o.byFile[file] {
			m, _ := src.doc.Value.(map[string]any)
			if src.patch != nil || !isSource(s.ResId, m) {
				continue
			}
			pointer := pointerTo(m, fieldPath)
			if v, ok := render.Lookup(m, pointer); ok && render.IsScalar(v) && f.takes(s, fmt.Sprint(v)) {
				return src.origins(pointer)
			}
		}
	}
	return nil
}

// pointerTo turns a field path into a pointer into a value.
func pointerTo(value any, fieldPath string) string {
	pointer := ""
	for _, e := range utils.SmarterPathSplitter(fieldPath, ".") {
		pointer += render.Pointer(itemKey(value, pointer, e))
	}
	return pointer
}

// takes reports whether the field's value contains the source's value.
func (f *field) takes(s *types.SourceSelector, v string) bool {
	if s.Options != nil && s.Options.Delimiter != "" {
		parts := strings.Split(v, s.Options.Delimiter)
		if i := s.Options.Index; i >= 0 && i < len(parts) {
			v = parts[i]
		}
	}
	return v != "" && strings.Contains(fmt.Sprint(f.value), v)
}

func isSource(id resid.ResId, value map[string]any) bool {
	group, version := resid.ParseGroupVersion(text(value, "apiVersion"))
	name := text(value, "metadata", "name")
	return (id.Kind == "" || id.Kind == text(value, "kind")) && (id.Group == "" || id.Group == group) &&
		(id.Version == "" || id.Version == version) && (id.Name == "" || strings.Contains(name, id.Name))
}

// itemKey turns [name=x] into the index of the item of that name.
func itemKey(value any, pointer, e string) string {
	key, want, ok := strings.Cut(strings.Trim(e, "[]"), "=")
	if !ok || !strings.HasPrefix(e, "[") {
		return e
	}
	list, _ := render.Lookup(value, pointer)
	items, _ := list.([]any)
	for i, item := range items {
		if m, ok := item.(map[string]any); ok && fmt.Sprint(m[key]) == want {
			return fmt.Sprint(i)
		}
	}
	return e
}
