package helm

import (
	"bytes"
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template/parse"

	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/preadmit/preadmit/render"
)

// A question is something that a template may ask about the cluster or the release's history.
// assumed is the assumption that the template's objects then list, or "".
type question struct {
	subject, assumed string
	doubt            doubt
}

// The questions that instrument finds in a pipeline.
const (
	asksAPIVersion = iota
	asksUpgrade
	asksRelease // for all data of the release
	asksAPIVersions
	asksLookup
	asksKubeVersion
	asksHelmVersion
	asksRevision
	asksReleaseName
	asksNamespace
)

var questions = [...]question{
	asksAPIVersion:  {assumed: "template asks for API versions; those of Kubernetes itself and of --api-versions are assumed to exist"},
	asksUpgrade:     {subject: render.AsksUpgrade, assumed: "template asks whether this is an upgrade; rendered as a first install"},
	asksRelease:     {subject: render.AsksUpgrade},
	asksAPIVersions: {subject: render.AsksAPIs},
	asksLookup:      {subject: render.AsksLookup, assumed: assumedLookup},
	asksKubeVersion: {doubt: byKubeVersion},
	asksHelmVersion: {doubt: byHelm},
	asksRevision:    {doubt: byRevision},
	asksReleaseName: {doubt: byReleaseName},
	asksNamespace:   {doubt: byNamespace},
}

type asks [len(questions)]bool

// fields records the questions that a chain of fields asks. A chain that ends in Release passes on
// all data of the release.
func (a *asks) fields(idents []string) {
	for i, ident := range idents {
		last := i == len(idents)-1
		switch ident {
		case "APIVersions":
			a[asksAPIVersion] = true
			a[asksAPIVersions] = a[asksAPIVersions] || last
		case "Capabilities":
			a[asksAPIVersions] = a[asksAPIVersions] || last
		case "KubeVersion":
			a[asksKubeVersion] = true
		case "HelmVersion":
			a[asksHelmVersion] = true
		case "IsUpgrade", "IsInstall":
			a[asksUpgrade] = true
		case "Revision":
			a[asksRelease], a[asksRevision] = true, true
		case "Release":
			a[asksRelease] = a[asksRelease] || last
		}
	}
	a[asksReleaseName] = a[asksReleaseName] || isOfRelease(idents, "Name")
	a[asksNamespace] = a[asksNamespace] || isOfRelease(idents, "Namespace")
}

// key records the questions that a string asks if it is the key of a map, as in get .Release
// "IsUpgrade".
func (a *asks) key(text string) {
	switch text {
	case "IsUpgrade", "IsInstall", "Revision", "Release":
		a[asksRelease] = true
	case "APIVersions", "Capabilities":
		a[asksAPIVersions] = true
	}
}

// readers are functions that read whole maps, or by keys that a template may
// compute.
var readers = map[string]bool{
	"get": true, "index": true, "pluck": true, "dig": true, "values": true, "pick": true, "omit": true, "keys": true,
	"merge": true, "mergeOverwrite": true, "mustMerge": true, "mustMergeOverwrite": true, "deepCopy": true, "mustDeepCopy": true,
	"deepEqual": true, "eq": true, "ne": true, "toString": true, "quote": true, "squote": true, "cat": true, "join": true,
}

// hookSee records whether a value that a function reads as a whole is, or
// contains, the data of the release.
func (r *run) hookSee(v any) string {
	left := 256
	if holdsRelease(v, 4, &left) {
		r.recordQuestion(asked{subject: render.AsksUpgrade})
		r.recordQuestion(asked{subject: render.AsksAPIs})
	}
	return ""
}

func holdsRelease(v any, depth int, left *int) bool {
	if *left--; depth == 0 || *left < 0 {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		if isRelease(v) {
			return true
		}
		if _, ok := v["Release"]; ok {
			return true
		}
		if len(v) > 16 {
			return false
		}
		for _, e := range v {
			if holdsRelease(e, depth-1, left) {
				return true
			}
		}
	case table:
		return holdsRelease(map[string]any(v), depth, left)
	case chartutil.Values:
		return holdsRelease(map[string]any(v), depth, left)
	case []any:
		for _, e := range v[:min(len(v), 16)] {
			if holdsRelease(e, depth-1, left) {
				return true
			}
		}
	}
	return false
}

// isRelease reports whether m is the .Release of templates.
func isRelease(m map[string]any) bool {
	if len(m) > 16 {
		return false
	}
	_, upgrade := m["IsUpgrade"]
	_, install := m["IsInstall"]
	return upgrade && install
}

// has records the API version that a pipeline asks APIVersions.Has for.
func (i *instrument) has(p *parse.PipeNode) {
	for n := 0; n < len(p.Cmds); n++ {
		c := p.Cmds[n]
		if !isHas(c.Args[0]) {
			continue
		}
		switch {
		case len(c.Args) == 2:
			pos := c.Args[1].Position()
			arg := &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{command("__has", pos, i.spot(pos), c.Args[1])}}
			c.Args = []parse.Node{c.Args[0], arg}
		case len(c.Args) == 1 && n > 0:
			p.Cmds = slices.Insert(p.Cmds, n, command("__has", c.Position(), i.spot(c.Position())))
			n++
		}
	}
}

func isHas(n parse.Node) bool {
	var idents []string
	switch n := n.(type) {
	case *parse.FieldNode:
		idents = n.Ident
	case *parse.VariableNode:
		idents = n.Ident[1:]
	case *parse.ChainNode:
		idents = n.Field
	}
	return len(idents) > 0 && idents[len(idents)-1] == "Has"
}

// hookHas records an API version if only the cluster knows whether it is
// served.
func (r *run) hookHas(n int, version any) any {
	if text, ok := version.(string); ok && r.unknownAPI(text) {
		r.recordQuestion(asked{subject: render.AsksAPI, api: text, src: r.spot(r.frame, n), spot: n})
	}
	return version
}

var apiVersion = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/v[0-9]+((alpha|beta)[0-9]+)?(/[A-Z][A-Za-z0-9]*)?$`)

// unknownAPI reports whether a CustomResourceDefinition or another API server
// may serve an API version. All groups without a dot are Kubernetes' own, and
// the served versions of its other groups are known.
func (r *run) unknownAPI(version string) bool {
	group, _, _ := strings.Cut(version, "/")
	return len(version) <= 253 && apiVersion.MatchString(version) && strings.Contains(group, ".") && !r.served[group]
}

// servedGroups are the groups of API versions that are known to be served, and
// of those that Kubernetes ever served.
func servedGroups(lists ...[]string) map[string]bool {
	groups := make(map[string]bool)
	for _, v := range slices.Concat(lists...) {
		group, _, _ := strings.Cut(v, "/")
		groups[group] = true
	}
	return groups
}

// An asked is a question with the action that asked it.
type asked struct {
	subject, api string
	src          *source
	spot         int
	file         string // the file being rendered
}

// maxRaised is how many questions name the object that they look up.
const maxRaised = 1000

func (r *run) recordQuestion(a asked) {
	if a.src == nil && r.frame != nil {
		a.src, a.spot = r.frame.src, -1
	}
	a.file = r.file
	key := [3]string{a.subject, a.api, a.file}
	if _, ok := r.raised[key]; !ok {
		r.raised[key] = a
	}
}

// reportQuestions adds the questions to the source's Inputs, each with the place of its action.
func (r *release) reportQuestions(x *execution) {
	if r.src.Inputs == nil {
		return
	}
	listed := false
	for key := range x.raised {
		listed = listed || key[0] == render.AsksAPIs
	}
	for _, a := range x.raised {
		q := render.Question{Subject: a.subject, API: a.api, Span: x.spanOf(a)}
		r.src.Inputs.Ask(q)
	}
	if !listed {
		return
	}
	for _, f := range x.files { // which of the listed versions matters is decided by a text of a template
		if f.src == nil {
			continue
		}
		for _, text := range f.src.strings {
			if x.unknownAPI(text) {
				r.src.Inputs.Ask(render.Question{Subject: render.AsksAPI, API: text, Span: f.at.span(1, 1)})
			}
		}
	}
}

// spanOf returns the place of the action that asked, or the file being rendered
// if the action is in a text given to tpl.
func (e *execution) spanOf(a asked) render.Span {
	f := e.fileOf(a.src)
	if f == nil {
		return e.files[a.file].at.span(1, 1)
	}
	if a.spot < 0 {
		return f.at.span(1, 1)
	}
	from := int(a.src.spots[a.spot-a.src.base].from)
	line := 1 + strings.Count(string(a.src.text[:from]), "\n")
	start := strings.LastIndex(string(a.src.text[:from]), "\n") + 1
	return f.at.span(line, 1+len([]rune(string(a.src.text[start:from]))))
}

// found returns what lookup finds in a variant: an object, or a list of one.
func (r *run) found(apiVersion, kind, namespace, name string) map[string]any {
	o := map[string]any{}
	if r.src.Variant.Lookup == render.LookupObject {
		for _, path := range r.read {
			setFound(o, path)
		}
	}
	meta, ok := o["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
	}
	maps.Copy(meta, map[string]any{"name": cmp.Or(name, "found")})
	if namespace != "" {
		meta["namespace"] = namespace
	}
	maps.Copy(o, map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta})
	if o["data"] == foundText { // the templates name no key of it
		o["data"] = map[string]any{"lookup": foundText}
	}
	if data, ok := o["data"].(map[string]any); ok {
		r.foundData = append(r.foundData, data)
	}
	if name != "" {
		return o
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind + "List", "metadata": map[string]any{}, "items": []any{o}}
}

// foundText is the text in each field of an object that lookup finds: base64 of
// "lookup".
const foundText = "bG9va3Vw"

// found hooks the map that a command reads by a key. Only templates that call lookup need the hook.
func (i *instrument) found(c *parse.CommandNode) {
	name, ok := c.Args[0].(*parse.IdentifierNode)
	if !ok || !keyed[name.Ident] || len(c.Args) < 3 || !bytes.Contains(i.src.text, []byte("lookup")) {
		return
	}
	from, keys := 1, c.Args[2:]
	if name.Ident == "dig" {
		from, keys = len(c.Args)-1, c.Args[1:max(1, len(c.Args)-2)]
	}
	if t := c.Args[from].Type(); t != parse.NodeField && t != parse.NodeVariable {
		return
	}
	pos := c.Args[from].Position()
	read := command("__found", pos, append([]parse.Node{c.Args[from]}, keys...)...)
	c.Args[from] = &parse.PipeNode{NodeType: parse.NodePipe, Pos: pos, Cmds: []*parse.CommandNode{read}}
}

// hookFound returns m. If m is the data of an object that lookup found, hookFound adds the keys to it first.
func (r *run) hookFound(m any, keys ...any) any {
	data, ok := m.(map[string]any)
	if !ok || !slices.ContainsFunc(r.foundData, func(found map[string]any) bool { return word(found) == word(data) }) {
		return m
	}
	for _, key := range keys {
		if text, ok := key.(string); ok && data[text] == nil {
			data[text] = foundText
		}
	}
	return m
}

// setFound sets foundText at a path, unless there is a value.
func setFound(at map[string]any, path []string) {
	for i, key := range path {
		last := i == len(path)-1
		next, isMap := at[key].(map[string]any)
		switch {
		case last && at[key] == nil:
			at[key] = foundText
		case last:
		case isMap:
			at = next
		default:
			next = map[string]any{}
			at[key] = next
			at = next
		}
	}
}

// paths returns the fields that templates with lookup read, whatever they read them from.
func (e *execution) paths() [][]string {
	var all [][]string
	for _, f := range e.files {
		if f.src != nil && f.src.looks {
			all = append(all, f.src.paths...)
		}
	}
	slices.SortFunc(all, slices.Compare)
	return all
}

// keyed are functions whose string arguments are keys of the map that they are
// given.
var keyed = map[string]bool{"index": true, "get": true, "hasKey": true, "dig": true}

// read records the fields that a command reads.
func (s *source) read(c *parse.CommandNode) {
	name, ok := c.Args[0].(*parse.IdentifierNode)
	if !ok || !keyed[name.Ident] {
		return
	}
	var path []string
	for _, arg := range c.Args[1:] {
		switch arg := arg.(type) {
		case *parse.StringNode:
			path = append(path, arg.Text)
		case *parse.VariableNode:
			path = append(path, arg.Ident[1:]...)
		case *parse.FieldNode:
			path = append(path, arg.Ident...)
		}
	}
	if name.Ident == "dig" && len(path) > 0 {
		path = path[:len(path)-1] // the last argument is the default
	}
	if len(path) > 0 {
		s.path(path)
	}
	if len(path) == 1 { // of a Secret or ConfigMap, most likely
		s.path([]string{"data", path[0]})
	}
}

const maxPaths = 1000

func (s *source) path(path []string) {
	if len(path) > 0 && len(path) <= 16 && len(s.paths) < maxPaths {
		s.paths = append(s.paths, path)
	}
}
