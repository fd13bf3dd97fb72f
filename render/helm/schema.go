package helm

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	neturl "net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"

	"github.com/preadmit/preadmit/render"
)

// schemas is a bounded cache of compiled schemas by content.
type schemas struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]*compiled
	bytes int
}

type compiled struct {
	once    sync.Once
	schema  *jsonschema.Schema
	docs    map[string][]byte // documents that it refers to, by URL
	remote  []string          // documents that it refers to and that could not be read
	standIn map[string]any    // in their place
	err     error

	checking sync.Mutex // held while values are checked
	meter    schemaMeter
}

// A schemaMeter bounds one validation. The library has no limit of its own and
// takes no context. A schema that grows exponentially ends with a panic of
// *exceeded.
type schemaMeter struct{ checks, matching int }

// Validate counts a subschema: the meter is an extension of each.
func (s *schemaMeter) Validate(*jsonschema.ValidatorContext, any) {
	if s.checks++; s.checks > maxChecks {
		panic(&exceeded{fmt.Sprintf("values are checked against more than %d subschemas", maxChecks)})
	}
}

// A meteredPattern counts the possible cost of a match.
type meteredPattern struct {
	*regexp.Regexp
	meter *schemaMeter
}

func (m meteredPattern) MatchString(s string) bool {
	if m.meter.matching += len(s) * len(m.String()); m.meter.matching > maxMatching || m.meter.matching < 0 {
		panic(&exceeded{"values are too long for the schema's patterns"})
	}
	return m.Regexp.MatchString(s)
}

// validate calls the library's Validate, within the limits.
func (c *compiled) validate(values map[string]any) (err error) {
	c.checking.Lock()
	defer c.checking.Unlock()
	c.meter = schemaMeter{}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case *exceeded:
			err = p
		default:
			panic(p)
		}
	}()
	return c.schema.Validate(values)
}

// compile returns the compiled schema; docs are the documents at the URLs that
// it refers to.
func (s *schemas) compile(data []byte, docs map[string][]byte) *compiled {
	hash := sha256.New()
	hash.Write(data)
	for _, url := range slices.Sorted(maps.Keys(docs)) {
		fmt.Fprintf(hash, "\x00%q %x", url, sha256.Sum256(docs[url]))
	}
	key := [sha256.Size]byte(hash.Sum(nil))
	s.mu.Lock()
	c := s.known[key]
	if c == nil {
		if s.known == nil || s.bytes > maxCached {
			s.known, s.bytes = map[[sha256.Size]byte]*compiled{}, 0
		}
		c = &compiled{docs: maps.Clone(docs)}
		s.known[key] = c
		s.bytes += len(data)
	}
	s.mu.Unlock()
	c.once.Do(func() { c.compile(data) })
	return c
}

const schemaURL = "file:///values.schema.json"

func (c *compiled) compile(data []byte) {
	if deep(data) {
		c.err = fmt.Errorf("schema is nested more than %d deep", maxSchema)
		return
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		c.err = errors.New("schema is not valid JSON")
		return
	}
	c.standIn = standIn(slices.Concat([][]byte{data}, slices.Collect(maps.Values(c.docs)))...)
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(c)
	compiler.UseRegexpEngine(func(expr string) (jsonschema.Regexp, error) {
		re, err := regexp.Compile(expr)
		return meteredPattern{re, &c.meter}, err
	})
	compiler.RegisterVocabulary(&jsonschema.Vocabulary{
		URL:     "preadmit:meter",
		Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return &c.meter, nil },
	})
	compiler.AssertVocabs()
	if err = compiler.AddResource(schemaURL, doc); err == nil {
		c.schema, err = compiler.Compile(schemaURL)
	}
	if err != nil {
		c.err = schemaError(err)
	}
}

// Load returns a document that a schema refers to, if it was fetched, or else one whose
// schemas allow everything. Helm would fetch it, from the network or from any file.
func (c *compiled) Load(url string) (any, error) {
	if data, ok := c.docs[url]; ok {
		if deep(data) {
			return nil, fmt.Errorf("%s is nested more than %d deep", url, maxSchema)
		}
		return jsonschema.UnmarshalJSON(bytes.NewReader(data))
	}
	c.remote = append(c.remote, url)
	return c.standIn, nil
}

// reference matches a $ref to a part of another document, and the part's path in it.
var reference = regexp.MustCompile(`"\$ref"\s*:\s*"[^"#]+#/([^"]*)"`)

// standIn returns the document in the place of those that can't be read: a map that has each part
// to which the schemas refer. It allows everything.
func standIn(schemas ...[]byte) map[string]any {
	all := map[string]any{}
	for _, m := range reference.FindAllSubmatch(bytes.Join(schemas, nil), maxReferred) {
		at := all
		for _, key := range strings.Split(string(m[1]), "/") {
			key, _ = neturl.PathUnescape(key)
			key = strings.NewReplacer("~1", "/", "~0", "~").Replace(key)
			next, ok := at[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[key] = next
			}
			at = next
		}
	}
	return all
}

func schemaError(err error) error {
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		return errors.New("schema is not a valid JSON schema")
	}
	return errors.New(sentence("schema can't be compiled: " + strings.ReplaceAll(err.Error(), schemaURL, "")))
}

// deep reports whether JSON is nested too deep.
func deep(data []byte) bool {
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > maxSchema {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}

func (r *release) validateChart(c *chart.Chart, values map[string]any, path []string) (errs []error) {
	if c.Schema != nil {
		errs = r.against(c, values, path)
	}
	for _, sub := range c.Dependencies() {
		below := append(path[:len(path):len(path)], sub.Name())
		switch v := values[sub.Name()].(type) {
		case nil:
		case map[string]any:
			errs = append(errs, r.validateChart(sub, v, below)...)
		case chartutil.Values:
			errs = append(errs, r.validateChart(sub, v, below)...)
		default:
			errs = append(errs, r.violation(c, below, "got no map of values for the subchart"))
		}
	}
	return errs
}

// against checks values against one chart's schema.
func (r *release) against(c *chart.Chart, values map[string]any, path []string) []error {
	at, _, _ := r.reader.chartFile(c, "values.schema.json")
	schema := r.schemaOf(c)
	for _, url := range schema.remote {
		e := at.errorAt("helm-schema", 0, 0, fmt.Errorf("schema refers to %s, which is not read: values are not checked against it", sentence(url)))
		if e.Warning = true; isFetchable(url) {
			e.Hint = "run `preadmit fetch`"
		}
		r.warnings = append(r.warnings, e)
	}
	if schema.err != nil {
		return []error{at.errorAt("helm-schema", 0, 0, schema.err)}
	}
	var invalid *jsonschema.ValidationError
	var limit *exceeded
	if err := schema.validate(values); err == nil {
		return nil
	} else if errors.As(err, &limit) {
		return []error{at.errorAt("helm-schema", 0, 0, limit)}
	} else if !errors.As(err, &invalid) {
		return []error{at.errorAt("helm-schema", 0, 0, errors.New("values can't be checked against the schema"))}
	}
	var errs []error
	for _, leaf := range sorted(leaves(invalid)) {
		below := append(path[:len(path):len(path)], leaf.InstanceLocation...)
		errs = append(errs, r.violation(c, below, reason(leaf.ErrorKind)))
		if len(errs) == maxErrors {
			break
		}
	}
	return errs
}

// maxReferred is how many documents a schema may refer to.
const maxReferred = 50

// schemaOf compiles a chart's schema with the fetched documents that it refers
// to, directly or not.
func (r *release) schemaOf(c *chart.Chart) *compiled {
	docs := make(map[string][]byte)
	for {
		schema, more := r.cache.schemas.compile(c.Schema, docs), false
		for _, url := range schema.remote {
			if data, ok := r.fetchedSchema(url); ok && len(docs) < maxReferred {
				docs[url], more = data, true
			}
		}
		if !more {
			return schema
		}
	}
}

func isFetchable(url string) bool {
	return strings.HasPrefix(url, "https://") || strings.HasPrefix(url, "http://")
}

// fetchedSchema returns the fetched content of a URL.
func (r *release) fetchedSchema(url string) ([]byte, bool) {
	if !isFetchable(url) {
		return nil, false
	}
	repo, err := render.Source{Store: r.reader.store}.Fetched(render.NewRemote(render.URLFile, url, "", ""))
	if err != nil {
		return nil, false
	}
	files, err := fs.ReadDir(repo.FS, repo.Root)
	if err != nil || len(files) != 1 {
		return nil, false
	}
	data, err := render.ReadFile(repo.FS, path.Join(repo.Root, files[0].Name()))
	return data, err == nil
}

// sorted sorts violations, which the library returns in random order.
func sorted(all []*jsonschema.ValidationError) []*jsonschema.ValidationError {
	slices.SortFunc(all, func(a, b *jsonschema.ValidationError) int {
		return cmp.Or(slices.Compare(a.InstanceLocation, b.InstanceLocation), strings.Compare(reason(a.ErrorKind), reason(b.ErrorKind)))
	})
	return all
}

// leaves returns the violations that are not caused by others.
func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// reason describes a violation without quoting the value, which may be secret.
func reason(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return fmt.Sprintf("does not match the pattern %q", k.Want)
	case *kind.Format:
		return "is not a valid " + k.Want
	case *kind.ContentEncoding, *kind.ContentMediaType, *kind.ContentSchema:
		return "doesn't have the encoding that the schema requires"
	}
	return k.LocalizedString(message.NewPrinter(language.English))
}

// violation places an error at the value that the user would change: in the
// last file that sets it, else in the chart's own values, else at the schema.
func (r *release) violation(c *chart.Chart, path []string, what string) error {
	name := cmp.Or(strings.Join(path, "."), "values")
	err := fmt.Errorf("%s: %s", sentence(name), sentence(what))
	layers := r.valueLayers(c, path)
	for n := range path {
		for _, l := range layers {
			if span, ok := l.find(len(path) - n); ok {
				e := l.at.errorAt("helm-schema", span.Line, span.Column, err)
				if l.at.entry == "" {
					e.Span = span
				}
				return e
			}
		}
	}
	if len(layers) > 0 && len(path) == len(chartPath(c)) { // something is missing at the top
		return layers[0].at.errorAt("helm-schema", 1, 1, err)
	}
	at, _, _ := r.reader.chartFile(c, "values.schema.json")
	return at.errorAt("helm-schema", 0, 0, err)
}

// valueLayers returns the files that may set the value at a path, the last
// first: those of the release, the chart's own and, for a subchart, the
// subchart's.
func (r *release) valueLayers(c *chart.Chart, path []string) (layers []layer) {
	for i := len(r.layers) - 1; i >= 0; i-- {
		layers = append(layers, r.layers[i].below(path, 0))
	}
	charts := []*chart.Chart{c}
	if c != r.chart {
		charts = []*chart.Chart{r.chart, c}
	}
	for _, c := range charts {
		if at, data, ok := r.reader.chartFile(c, "values.yaml"); ok {
			layers = append(layers, layer{at: at, data: data}.below(path, len(chartPath(c))))
		}
	}
	return layers
}

// chartPath returns the path of a chart's values in those of the release.
func chartPath(c *chart.Chart) []string {
	if c.IsRoot() {
		return nil
	}
	return append(chartPath(c.Parent()), c.Name())
}

// below returns the layer for a path in it, whose first elements are skipped.
func (l layer) below(path []string, skip int) layer {
	l.path, l.skip = path, skip
	l.docs, _ = render.Documents(l.at.file, bytes.Clone(l.data), render.YAML11)
	return l
}

// find returns where the file sets the first n elements of the path.
func (l layer) find(n int) (render.Span, bool) {
	if n <= l.skip || len(l.docs) == 0 {
		return render.Span{}, false
	}
	var steps []any
	for _, step := range l.path[l.skip:n] {
		steps = append(steps, step)
	}
	key, value, ok := l.docs[0].Positions.Field(render.Pointer(steps...))
	if !ok || key.Line == 0 || n == len(l.path) && value.Line == value.EndLine && value.Column < value.EndColumn {
		return value, ok
	}
	return key, ok
}
