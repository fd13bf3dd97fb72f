package helm

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"unicode"

	"helm.sh/helm/v3/pkg/chartutil"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// A manifest is one document of an output.
type manifest struct {
	objects []*render.Object
	kind    string // of the document, which may be a List
	hook    bool
	test    bool
	dropped bool // a hook without an event that Helm knows
}

// objects splits the outputs into objects, in the order of `helm template`:
// CRDs as they are, then manifests by kind, then hooks by kind.
func (r *release) objects(outputs []*output) ([]*render.Object, error) {
	objects, err := r.crds()
	errs := []error{err}
	sort.Slice(outputs, func(i, j int) bool { return outputs[i].file.name < outputs[j].file.name })
	var plain, hooks, dropped []manifest
	for _, out := range outputs {
		if isNotes(out.file.name) {
			continue
		}
		manifests, err := out.manifests()
		errs = append(errs, err)
		r.note(out.file.at, out.state(len(manifests) > 0), out.file.undeclared())
		for _, m := range manifests {
			switch {
			case m.dropped:
				dropped = append(dropped, m)
			case m.hook:
				hooks = append(hooks, m)
			default:
				plain = append(plain, m)
			}
		}
	}
	wanted, unwanted, tests := r.sorted(byKind(hooks))
	objects = append(objects, objectsOf(append(byKind(plain), wanted...))...)
	r.src.Inputs.NoteSkipped(objectsOf(dropped), objects, "a hook of an event that Helm does not know")
	r.src.Inputs.NoteSkipped(objectsOf(unwanted), objects, "a hook; hooks are disabled where the chart is deployed")
	r.src.Inputs.NoteSkipped(objectsOf(tests), objects, "a hook of helm test, which is not run where the chart is deployed")
	return objects, errors.Join(errs...)
}

// sorted divides hooks into those to render, those that the source disables, and tests that it
// skips.
func (r *release) sorted(hooks []manifest) (wanted, unwanted, tests []manifest) {
	h := params(r.src)
	for _, m := range hooks {
		switch {
		case h.SkipHooks:
			unwanted = append(unwanted, m)
		case h.SkipTests && m.test:
			tests = append(tests, m)
		default:
			wanted = append(wanted, m)
		}
	}
	return wanted, unwanted, tests
}

func objectsOf(manifests []manifest) (objects []*render.Object) {
	for _, m := range manifests {
		objects = append(objects, m.objects...)
	}
	return objects
}

// byKind sorts as Helm installs: known kinds first, unknown ones by name.
func byKind(manifests []manifest) []manifest {
	rank := func(kind string) int {
		if i := slices.Index(releaseutil.InstallOrder, kind); i >= 0 {
			return i
		}
		return len(releaseutil.InstallOrder)
	}
	slices.SortStableFunc(manifests, func(a, b manifest) int {
		i, j := rank(a.kind), rank(b.kind)
		if i == j && i == len(releaseutil.InstallOrder) {
			return strings.Compare(a.kind, b.kind)
		}
		return i - j
	})
	return manifests
}

// crds returns the objects in the crds/ directories, which are no templates.
func (r *release) crds() ([]*render.Object, error) {
	if params(r.src).SkipCRDs {
		return nil, nil
	}
	var objects []*render.Object
	var errs []error
	for _, crd := range r.chart.CRDObjects() {
		at := r.reader.places[crd.File]
		found, err := parseCRDs(at.file, bytes.Clone(crd.File.Data))
		if at.entry != "" {
			for _, o := range found {
				o.Provenance = render.File{Span: at.span(0, 0), Role: render.Manifest}
			}
			err = inArchive(at, err)
		}
		objects = append(objects, found...)
		errs = append(errs, err)
		r.note(at, render.DocRendered, "")
	}
	return objects, errors.Join(errs...)
}

// parseCRDs is [render.Parse] for a file that must hold objects: Helm can't install others,
// such as those with the actions of a template.
func parseCRDs(file string, data []byte) ([]*render.Object, error) {
	objects, err := render.Parse(file, data)
	if len(objects) > 0 || err != nil {
		return objects, err
	}
	docs, err := render.Documents(file, data, render.YAML11)
	errs := []error{err}
	for _, doc := range docs {
		if doc.Value != nil {
			fields, _ := doc.Value.(map[string]any)
			errs = append(errs, noObject(doc, fields))
		}
	}
	err = errors.Join(errs...)
	for _, e := range render.Errors(err) {
		if bytes.Contains(data, []byte("{{")) {
			e.Hint = "crds/ has no templates: move the file to templates/"
		}
	}
	return nil, err
}

// note records the state of the documents of a file of the chart, unless it is in an
// archive. why says why a template wrote nothing, if that is known.
func (r *release) note(at place, state render.DocumentState, why string) {
	switch {
	case at.entry != "":
	case state == render.DocInChart && why != "":
		r.src.Inputs.NoteUnwritten(at.file, why)
	default:
		r.src.Inputs.Note(at.file, -1, state)
	}
}

// conditions matches the actions that decide whether a template writes what follows, and
// valuePath the values that they read.
var (
	conditions = regexp.MustCompile(`\{\{-?\s*(?:else\s+)?(?:if|with|range)\b[^}]*\}\}`)
	valuePath  = regexp.MustCompile(`\.Values((?:\.[A-Za-z_][A-Za-z0-9_]*)+)|(?:index|get|hasKey)\s+\$?\.Values\s+"([A-Za-z_][A-Za-z0-9_-]*)"`)
)

// undeclared describes the first condition before the first object that reads a value which no
// values declare. It returns "" if there is none.
func (t *templateFile) undeclared() string {
	before, _, _ := strings.Cut(t.text, "apiVersion:")
	for _, at := range conditions.FindAllStringIndex(before, -1) {
		for _, m := range valuePath.FindAllStringSubmatch(t.text[at[0]:at[1]], -1) {
			name := strings.TrimPrefix(m[1], ".") + m[2]
			if !declared(t.values["Values"], strings.Split(name, ".")) {
				return fmt.Sprintf("a template that writes nothing: its condition in line %d reads .Values.%s, which no values declare", 1+strings.Count(t.text[:at[0]], "\n"), name)
			}
		}
	}
	return ""
}

// gate matches expressions whose value may differ on a cluster.
var gate = regexp.MustCompile(`lookup|IsUpgrade|IsInstall|Revision|APIVersions|\bRelease\b[^.\w]`)

// state returns the state of the documents of the template's file.
func (o *output) state(rendered bool) render.DocumentState {
	switch {
	case rendered:
		return render.DocRendered
	case gate.MatchString(o.file.text):
		return render.DocGated
	}
	return render.DocInChart
}

// declared reports whether values have something at a path.
func declared(values any, path []string) bool {
	for _, key := range path {
		var ok bool
		switch m := values.(type) {
		case map[string]any:
			values, ok = m[key]
		case chartutil.Values:
			values, ok = m[key]
		case table:
			values, ok = m[key]
		}
		if !ok {
			return false
		}
	}
	return true
}

// inArchive places errors about an entry at the archive.
func inArchive(at place, err error) error {
	var errs []error
	for _, e := range render.Errors(err) {
		moved := *at.errorAt(e.Rule, e.Span.Line, 0, e.Err)
		moved.Hint, moved.Warning, moved.Missing = e.Hint, e.Warning, e.Missing
		errs = append(errs, &moved)
	}
	return errors.Join(errs...)
}

// cuts returns the offsets of the documents of an output, without blanks around
// them. Helm cuts at matches of (?:^|\s*\n)---\s* and trims the rest. Thus
// "---" at the beginning of a line separates whatever follows it, except right
// below another separator. Helm 4 cuts at (?m)^---[ \t]* and keeps the blanks at
// the end.
func cuts(text string, helm4 bool) (docs [][2]int) {
	top := len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
	body, blanks := strings.TrimSpace(text), " \t\n\f\r"
	if helm4 {
		body, blanks = text[top:], " \t"
	}
	add := func(from, to int) {
		doc := strings.TrimLeftFunc(body[from:to], unicode.IsSpace)
		from = to - len(doc)
		if !helm4 {
			doc = strings.TrimRightFunc(doc, unicode.IsSpace)
		}
		if doc != "" {
			docs = append(docs, [2]int{top + from, top + from + len(doc)})
		}
	}
	from := 0
	for at := 0; at < len(body); {
		n := strings.Index(body[at:], "---")
		if n < 0 {
			break
		}
		at += n
		if at > 0 && (body[at-1] != '\n' || at == from && !helm4) {
			at++
			continue
		}
		add(from, at)
		for at += len("---"); at < len(body) && strings.IndexByte(blanks, body[at]) >= 0; at++ {
		}
		from = at
	}
	add(from, len(body))
	return docs
}

func (o *output) manifests() ([]manifest, error) {
	var all []manifest
	var errs []error
	for _, cut := range cuts(o.text, isHelm4(o.x.src)) {
		m, err := o.manifest(cut[0], cut[1])
		errs = append(errs, err)
		if len(m.objects) > 0 {
			all = append(all, m)
		}
	}
	return all, errors.Join(errs...)
}

// manifest decodes the document between two offsets. It ends in a line feed, as
// in Helm's output.
func (o *output) manifest(from, to int) (manifest, error) {
	part := &part{output: o, from: from, to: to}
	data := append([]byte(o.text[from:to]), '\n')
	docs, err := render.Documents("", data, o.dialect)
	errs := []error{part.errors(err)}
	var m manifest
	for _, doc := range docs {
		if doc.Value == nil {
			continue
		}
		fields, _ := doc.Value.(map[string]any)
		kind, _ := fields["kind"].(string)
		version, _ := fields["apiVersion"].(string)
		if kind == "" || version == "" {
			errs = append(errs, part.errors(noObject(doc, fields)))
			continue
		}
		m.kind = kind
		objects, err := part.objects(doc, kind, data)
		errs = append(errs, err)
		m.objects = append(m.objects, objects...)
		errs = append(errs, part.errors(m.hooks(doc, fields)))
	}
	return m, errors.Join(errs...)
}

// objects returns the object of a document, or the items of a List.
func (p *part) objects(doc render.Document, kind string, data []byte) ([]*render.Object, error) {
	var objects []*render.Object
	var err error
	if strings.HasSuffix(kind, "List") {
		objects, err = render.Parse("", data)
		err = p.errors(err)
	}
	if len(objects) == 0 {
		fields := doc.Value.(map[string]any)
		objects = []*render.Object{{Unstructured: &unstructured.Unstructured{Object: fields}, Provenance: doc.Positions}}
	}
	for _, o := range objects {
		o.Provenance = &provenance{part: p, positions: o.Provenance, object: o.Object}
		o.Assumed = p.assumed
	}
	return objects, err
}

// fromYAMLError matches the error that Helm's fromYaml returns as a map with the key
// Error, without the text that it may quote.
var fromYAMLError = regexp.MustCompile("^error converting YAML to JSON: (yaml: line [0-9]+: [^`\"]+)")

func noObject(doc render.Document, fields map[string]any) error {
	what := "it has no apiVersion and no kind"
	failed, _ := fields["Error"].(string)
	switch {
	case fields == nil:
		what = "it is no map"
	case fields["kind"] != nil && fields["apiVersion"] == nil:
		what = "it has no apiVersion"
	case fields["kind"] == nil && fields["apiVersion"] != nil:
		what = "it has no kind"
	case fields["kind"] != nil:
		what = "its apiVersion or kind is no string"
	case fromYAMLError.MatchString(failed):
		what = "it is the error of a fromYaml in its template: " + fromYAMLError.FindStringSubmatch(failed)[1]
	}
	return &render.Error{Span: doc.Span, Rule: "not-an-object", Err: errors.New("not a Kubernetes object: " + what)}
}

// hooks sets whether a document is a hook. Helm silently drops a hook with an
// event that it does not know. It takes numbers for texts, here and in the other
// annotations.
func (m *manifest) hooks(doc render.Document, fields map[string]any) error {
	events, ok, _ := unstructured.NestedFieldNoCopy(fields, "metadata", "annotations", helmrelease.HookAnnotation)
	if _, isMap := events.(map[string]any); !ok || isMap {
		return nil
	}
	m.hook = true
	for _, event := range strings.Split(fmt.Sprint(events), ",") {
		event = strings.ToLower(strings.TrimSpace(event))
		switch {
		case event == "test" || event == "test-success":
			m.test = true
		case !slices.Contains(hookEvents, event):
			m.dropped = true
		}
	}
	if !m.dropped {
		return nil
	}
	key, _, _ := doc.Positions.Field(render.Pointer("metadata", "annotations", helmrelease.HookAnnotation))
	return &render.Error{
		Span: key, Rule: "helm-output", Warning: true,
		Err: fmt.Errorf("%s %s is a hook of an event that Helm does not know, so Helm leaves it out", sentence(m.kind), sentence((&unstructured.Unstructured{Object: fields}).GetName())),
	}
}

// otherLine matches a line number of the output, which the user never sees.
var otherLine = regexp.MustCompile(`,? (?:the first is )?on line \d+`)

var hookEvents = []string{
	"pre-install", "post-install", "pre-delete", "post-delete", "pre-upgrade", "post-upgrade", "pre-rollback", "post-rollback",
}

// errors places errors about a document at the template that wrote it. Helm and
// its users read documents in one way only, so a disagreement of tools is at
// most a warning. Kustomize, which reads them for Flux, refuses a key that is
// written twice.
func (p *part) errors(err error) error {
	var errs []error
	for _, e := range render.Errors(err) {
		if e.Rule == "ambiguous-scalar" {
			continue
		}
		moved := *e
		moved.Span = p.span(e.Span)
		if p.file.at.entry != "" {
			moved.Err = fmt.Errorf("%s: %w", path.Base(p.file.at.entry), e.Err)
		}
		switch e.Rule {
		case "duplicate-key", "ambiguous-merge":
			moved.Warning = p.dialect == render.YAML11 || e.Rule == "ambiguous-merge"
			moved.Err = errors.New(otherLine.ReplaceAllString(moved.Err.Error(), ""))
		case "trailing-content": // which Helm and Argo CD drop
			moved.Warning = p.dialect == render.YAML11
			moved.Undecided = moved.Warning
		case "yaml-syntax":
			moved.Rule = "helm-output"
			moved.Err = fmt.Errorf("the template's output is not YAML: %w", moved.Err)
		}
		errs = append(errs, &moved)
	}
	return errors.Join(errs...)
}

// isNotes reports whether a template is the text that Helm shows after an installation.
func isNotes(file string) bool { return strings.HasSuffix(file, "NOTES.txt") }
