package kustomize

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// An explanation turns one of kustomize's errors into a message. kustomize's
// errors quote whole objects, patches and literals, including secrets.
// Therefore the message contains only the names, kinds and paths that the
// pattern captures.
type explanation struct {
	pattern *regexp.Regexp
	rule    string
	format  string // takes the pattern's groups
	field   string // of the kustomization to which it belongs
}

var explanations = sync.OnceValue(func() []explanation {
	return []explanation{
		{regexp.MustCompile(`no resource matches strategic merge patch "([^"]+)"`), "unmatched-patch", "no resource matches the patch for %s", "patches"},
		{regexp.MustCompile(`no matches for Id ([^;]+); failed to find unique target for patch`), "unmatched-patch", "no resource matches the patch for %s", "patchesStrategicMerge"},
		{regexp.MustCompile(`multiple matches for Id ([^;]+); failed to find unique target`), "unmatched-patch", "several resources match the patch for %s", "patches"},
		{regexp.MustCompile(`may not add resource with an already registered id: (\S+)`), "duplicate-object", "two resources are %s", "resources"},
		{regexp.MustCompile(`namespace transformation produces ID conflict: .*?"kind":"(\w+)","metadata":\{"annotations":\{[^}]*\},(?:"labels":\{[^}]*\},)?"name":"([^"]+)"`), "duplicate-object", "two resources become one by the namespace: %s %s", "namespace"},
		{regexp.MustCompile(`namespace transformation produces ID conflict`), "duplicate-object", "two resources become one by the namespace", "namespace"},
		{regexp.MustCompile(`resource with name (\S+) does not match a config`), "unmatched-replicas", "replicas: no resource with the name %s has replicas", "replicas"},
		{regexp.MustCompile(`Multiple Strategic-Merge Patches in one .patches. entry`), "invalid-patch", "a patch with a target must be one document", "patches"},
		{regexp.MustCompile(`illegally qualifies as both an SM and JSON patch`), "invalid-patch", "patch could be a strategic merge patch or a JSON patch", "patches"},
		{regexp.MustCompile(`unable to parse SM or JSON patch`), "invalid-patch", "patch is neither a strategic merge patch nor a JSON patch", "patches"},
		{regexp.MustCompile(`must specify a target for JSON patch`), "invalid-patch", "a JSON patch needs a target", "patches"},
		{regexp.MustCompile(`must specify the target name`), "invalid-patch", "a JSON patch needs the name of its target", "patchesJson6902"},
		{regexp.MustCompile(`(?:must specify one of|cannot specify both|can't be set at the same time|patch appears to be empty)`), "invalid-patch", "a patch needs either a path or the patch itself", "patches"},
		{regexp.MustCompile(`(add|remove|replace|move|copy|test) operation does not apply: doc is missing (?:path|key|from path): "?([^\s":]+)`), "invalid-patch", "JSON patch: %s does not apply, there is no %s", "patches"},
		{regexp.MustCompile(`error in (remove|move|copy) for path: '([^']*)'`), "invalid-patch", "JSON patch: %s does not apply, there is no %s", "patches"},
		{regexp.MustCompile(`(?i)unexpected (?:kind|operation)[: ]+"?(\w+)`), "invalid-patch", "JSON patch: there is no operation %s, but add, remove, replace, move, copy and test", "patches"},
		{regexp.MustCompile(`testing value (\S+) failed`), "invalid-patch", "JSON patch: test of %s fails", "patches"},
		{regexp.MustCompile(`nothing selected by ([^:\s]+)`), "unmatched-replacement", "replacement: nothing is selected by %s", "replacements"},
		{regexp.MustCompile(`multiple matches for selector ([^:\s]+)`), "unmatched-replacement", "replacement: several resources are selected by %s", "replacements"},
		{regexp.MustCompile("fieldPath `([^`]*)` is missing for replacement source (\\S+)"), "unmatched-replacement", "replacement: %s is missing in its source %s", "replacements"},
		{regexp.MustCompile(`unable to find (?:or create )?field "([^"]*)" in replacement target`), "unmatched-replacement", "replacement: its target has no field %s", "replacements"},
		{regexp.MustCompile(`options.index (-?\d+) is out of bounds`), "unmatched-replacement", "replacement: options.index %s is out of bounds", "replacements"},
		{regexp.MustCompile(`replacements must specify a source and at least one target|target must specify resources to select|must specify at least one target`), "wrong-value", "replacement needs a source and a target", "replacements"},
		{regexp.MustCompile(`var '\{(\S+) [^']*' cannot be mapped`), "unmatched-var", "var %s refers to no field of a resource", "vars"},
		{regexp.MustCompile(`field specified in var '\{(\S+) `), "unmatched-var", "the field of var %s does not exist", "vars"},
		{regexp.MustCompile(`var '([^']*)' already encountered`), "duplicate-var", "var %s is defined twice", "vars"},
		{regexp.MustCompile(`found \d+ resId matches for var`), "unmatched-var", "a var refers to more than one resource", "vars"},
		{regexp.MustCompile(`id resid\.ResId\{.*Kind:"([^"]*)".*Name:"([^"]*)".*\} does not exist; cannot merge or replace`), "unmatched-generator", "there is no %s %s to merge with or to replace", "configMapGenerator"},
		{regexp.MustCompile(`id resid\.ResId\{.*Kind:"([^"]*)".*Name:"([^"]*)".*\} exists; .*behavior must be merge or replace`), "duplicate-object", "%s %s exists already: behavior must be merge or replace", "configMapGenerator"},
		{regexp.MustCompile(`configmap (\S+) illegally repeats the key`), "duplicate-key", "generator: ConfigMap %s has a key twice", "configMapGenerator"},
		{regexp.MustCompile(`invalid literal source|literal source`), "wrong-value", "generator: a literal is not key=value", "configMapGenerator"},
		{regexp.MustCompile(`a (configmap|secret) must have a name`), "wrong-value", "generator: a %s must have a name", "configMapGenerator"},
		{regexp.MustCompile(`missing (metadata\.name|kind|apiVersion) in object|[Mm]issing (metadata)`), "not-an-object", "a resource has no %s", "resources"},
		{regexp.MustCompile(`empty item at \[([^\]]*)\]`), "empty-item", "a list in a resource has an empty item at %s", "resources"},
		{regexp.MustCompile(`expected array in (\w+)/items`), "not-an-object", "items of a %s is not a list", "resources"},
		{regexp.MustCompile(`mapping key .* already defined at line (\d+)`), "duplicate-key", "a map has a key twice, the first time on line %s of its document", "resources"},
		{regexp.MustCompile(`invalid document separator`), "document-separator", "text follows a document separator", "resources"},
		{regexp.MustCompile(`builtin version and custom schema provided`), "wrong-value", "openapi: version and path exclude each other", "openapi"},
		{regexp.MustCompile(`specified OpenAPI version is not built in`), "wrong-value", "openapi: this version is not built in", "openapi"},
		{regexp.MustCompile(`sortOptions`), "wrong-value", "sortOptions are not valid", "sortOptions"},
		{regexp.MustCompile(`json: unknown field "([^"]+)"`), "wrong-value", "a file of configurations has the field %s, which kustomize does not know", "configurations"},
		{regexp.MustCompile(`error parsing regexp`), "wrong-value", "a target is not a valid regular expression", "patches"},
		{regexp.MustCompile(`kustomize broke on this input`), "internal", "kustomize breaks on this input", ""},
	}
})

// explain converts kustomize's error to an error with a readable message and a
// place.
func (w *walk) explain(root *node, err error) *render.Error {
	msg := err.Error()
	n := w.culprit(root, msg)
	for _, e := range explanations() {
		m := e.pattern.FindStringSubmatch(msg)
		if m == nil {
			continue
		}
		explained := n.error(e.rule, sentence(e.format, m[1:]), n.blame(e.field, m[1:])...)
		if e.rule == "unmatched-patch" {
			explained.Hint = w.elsewhere(m[1:])
		}
		return explained
	}
	return n.error("kustomize", fmt.Errorf("kustomize does not build this: %s", w.redact(msg)))
}

// elsewhere returns a hint for a patch without a namespace if a resource with its kind
// and name has one.
func (w *walk) elsewhere(groups []string) string {
	if len(groups) == 0 {
		return ""
	}
	kind, name, _ := strings.Cut(tidy(groups[0]), " ")
	var namespaces []string
	for _, p := range w.docs {
		for _, doc := range p.docs {
			namespace := text(doc.Value, "metadata", "namespace")
			if namespace != "" && kindOf(doc) == kind && text(doc.Value, "metadata", "name") == name {
				namespaces = append(namespaces, namespace)
			}
		}
	}
	if len(namespaces) == 0 {
		return ""
	}
	return fmt.Sprintf("there is a %s %s in namespace %s, which the patch must name", kind, name, slices.Min(namespaces))
}

func sentence(format string, groups []string) error {
	var args []any
	for _, g := range groups {
		if g != "" {
			args = append(args, tidy(g))
		}
	}
	return fmt.Errorf(format, args[:min(len(args), strings.Count(format, "%s"))]...)
}

// identity matches a ResId as kustomize prints it:
// Kind.version.group/name.namespace.
var identity = regexp.MustCompile(`^(\[?\w+\]?)\.[^/]*/(.*)\.([^.]+)$`)

// tidy makes kustomize's identities readable.
func tidy(id string) string {
	id = strings.TrimRight(id, `':",`)
	m := identity.FindStringSubmatch(id)
	switch {
	case m == nil:
		return id
	case strings.HasPrefix(m[3], "["):
		return m[1] + " " + m[2]
	}
	return m[1] + " " + m[2] + " in namespace " + m[3]
}

var accumulated = regexp.MustCompile(`path '([/\\][^']*)'`)

// culprit returns the innermost kustomization that an error names.
func (w *walk) culprit(root *node, msg string) *node {
	n := root
	for _, m := range accumulated.FindAllStringSubmatch(msg, -1) {
		dir := cmp.Or(strings.TrimPrefix(filepath.ToSlash(m[1]), "/"), ".")
		if inner := w.nodes[dir]; inner != nil {
			n = inner
		}
	}
	return n
}

// blame returns the path of the entry that an error is about, found by the
// names in the error, or else the path of the whole field.
func (n *node) blame(field string, groups []string) []any {
	switch {
	case field == "":
		return nil
	case field == "patches" || field == "patchesStrategicMerge" || field == "patchesJson6902":
		return n.blamePatch(field, groups)
	case field == "resources" && len(groups) > 0:
		return n.blameResource(groups[0])
	case field == "configMapGenerator" && len(n.spec.ConfigMapGenerator) == 0:
		return []any{"secretGenerator"}
	case field == "replicas" && len(groups) > 0:
		i := slices.IndexFunc(n.spec.Replicas, func(r types.Replica) bool { return r.Name == groups[0] })
		return entry(field, i)
	case field == "vars" && len(groups) > 0:
		i := slices.IndexFunc(n.spec.Vars, func(v types.Var) bool { return strings.Contains(groups[0], v.Name) })
		return entry(field, i)
	}
	return []any{field}
}

// blameResource returns the path of the last entry of resources with a given
// identity.
func (n *node) blameResource(id string) []any {
	m := identity.FindStringSubmatch(strings.TrimRight(id, `':",`))
	at := []any{"resources"}
	for _, it := range n.items {
		for _, doc := range it.docs {
			if m != nil && kindOf(doc) == m[1] && text(doc.Value, "metadata", "name") == m[2] {
				at = it.at
			}
		}
	}
	return at
}

func entry(field string, i int) []any {
	if i < 0 {
		return []any{field}
	}
	return []any{field, i}
}

// blamePatch returns the path of the patch for the kind and name in an
// identity.
func (n *node) blamePatch(field string, groups []string) []any {
	for _, p := range n.patches {
		if slices.ContainsFunc(p.docs, func(doc render.Document) bool {
			ops, _ := doc.Value.([]any)
			return slices.ContainsFunc(ops, func(op any) bool { return slices.Contains(groups, text(op, "path")) })
		}) && p.field != "" {
			return p.at
		}
		for _, doc := range p.docs {
			kind, name := kindOf(doc), text(doc.Value, "metadata", "name")
			if p.field != "" && len(groups) > 0 && kind != "" && strings.HasPrefix(groups[0], kind+".") && strings.Contains(groups[0], "/"+name+".") {
				return p.at
			}
		}
	}
	for _, f := range []string{field, "patches", "patchesStrategicMerge", "patchesJson6902"} {
		if _, ok := n.keys[strings.ToLower(f)]; ok {
			return []any{f}
		}
	}
	return nil
}

const maxMessage = 300

// redact returns the last words of an unknown error, without any text that is
// data of the tree.
func (w *walk) redact(msg string) string {
	msg, _, _ = strings.Cut(msg, "\n")
	for _, cut := range []string{" in object ", "[patch:", "with config:", "map[", "{", "`"} {
		msg, _, _ = strings.Cut(msg, cut)
	}
	if i := strings.LastIndex(strings.TrimRight(msg, ": "), ": "); i >= 0 {
		msg = msg[i+2:]
	}
	for _, s := range w.sensitive() {
		msg = strings.ReplaceAll(msg, s, "…")
	}
	if len(msg) > maxMessage {
		msg = msg[:maxMessage] + "…"
	}
	msg = strings.ToValidUTF8(strings.TrimRight(msg, ": "), "")
	if msg == "" {
		return "no reason is given"
	}
	return msg
}

// sensitive lists the values of secrets, config maps and generators, long ones
// first.
func (w *walk) sensitive() []string {
	var all []string
	add := func(s string) {
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); utf8.RuneCountInString(line) >= 3 {
				all = append(all, line)
			}
		}
	}
	for _, p := range w.docs {
		for _, doc := range p.docs {
			if kind := kindOf(doc); kind == "Secret" || kind == "ConfigMap" {
				m, _ := doc.Value.(map[string]any)
				for _, field := range []string{"data", "stringData", "binaryData"} {
					for _, v := range render.Values(m[field]) {
						if text, ok := v.(string); ok {
							add(text)
						}
					}
				}
			}
		}
	}
	for _, n := range w.nodes {
		if n == nil {
			continue
		}
		for _, g := range n.spec.SecretGenerator {
			literals(g.KvPairSources, add)
		}
		for _, g := range n.spec.ConfigMapGenerator {
			literals(g.KvPairSources, add)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

func literals(s types.KvPairSources, add func(string)) {
	for _, text := range s.LiteralSources {
		add(text)
		if _, value, ok := strings.Cut(text, "="); ok {
			add(value)
		}
	}
}
