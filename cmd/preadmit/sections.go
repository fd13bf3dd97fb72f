package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
)

// sections are the parts of the configuration file that are not defaults for
// flags: what is deployed, as far as the tree does not say it.
type sections struct {
	Repository  []string            `yaml:"repository"`
	Clusters    []clusterSection    `yaml:"clusters"`
	Deployments []deploymentSection `yaml:"deployments"`
	Sources     []sourceSection     `yaml:"sources"`
	Generators  []generatorSection  `yaml:"generators"`
	Fetch       fetchSection        `yaml:"fetch"`

	file  string      // of the configuration, as reports name it
	trust store.Trust // of Fetch.Verify
}

// A clusterSection declares a cluster.
type clusterSection struct {
	Line          int                          `yaml:"-"`
	Name          string                       `yaml:"name"`
	Server        string                       `yaml:"server"`
	Labels        map[string]string            `yaml:"labels"`
	Annotations   map[string]string            `yaml:"annotations"`
	Entry         []string                     `yaml:"entry"`
	KubeVersion   string                       `yaml:"kube-version"`
	APIVersions   []string                     `yaml:"api-versions"`
	FluxVersion   string                       `yaml:"flux-version"`
	ArgoCDVersion string                       `yaml:"argocd-version"`
	With          []string                     `yaml:"with"`
	Substitute    map[string]map[string]string `yaml:"substitute"`
}

// A deploymentSection declares what something else than a GitOps object deploys.
type deploymentSection struct {
	Line       int            `yaml:"-"`
	Path       string         `yaml:"path"`
	Name       string         `yaml:"name"`
	Cluster    string         `yaml:"cluster"`
	Namespace  string         `yaml:"namespace"`
	Release    string         `yaml:"release"`
	Values     []string       `yaml:"values"`
	ValuesEach string         `yaml:"values-each"`
	Set        map[string]any `yaml:"set"`

	SetAt map[string]render.Span `yaml:"-"` // where the entries of Set are written, without the file
}

// A sourceSection says where a repository or source object has its files.
type sourceSection struct {
	Line     int    `yaml:"-"`
	URL      string `yaml:"url"`
	Revision string `yaml:"revision"`
	Object   string `yaml:"object"`
	Path     string `yaml:"path"`
}

// A generatorSection has the parameters of an ApplicationSet's generator that
// asks something outside of git.
type generatorSection struct {
	Line           int              `yaml:"-"`
	ApplicationSet string           `yaml:"applicationset"`
	Params         []map[string]any `yaml:"params"`
}

// A fetchSection says what preadmit fetch may do.
type fetchSection struct {
	Line  int      `yaml:"-"`
	Hosts []string `yaml:"hosts"` // that may be asked, and no others

	// CRDs are catalogues of schemas for custom resources that nothing in the tree
	// defines: URLs or directories with GROUP/KIND_VERSION.json.
	CRDs []string `yaml:"crds"`

	// Verify says whose signature content of an address needs.
	Verify []verifySection `yaml:"verify"`
}

// A verifySection says with which keys the content at an address and below it is
// signed.
type verifySection struct {
	Line int    `yaml:"-"`
	URL  string `yaml:"url"` // such as oci://ghcr.io/example, or "*" for everything
	Key  string `yaml:"key"` // file of an OpenPGP keyring (Helm's provenance) or of public keys (cosign)
}

// sectionKeys are the keys of sections in the configuration file.
func sectionKeys() []string { return keysOf(reflect.TypeFor[sections]()) }

// readConfig returns the mapping of a configuration file of a tree, nil where
// there is none.
func readConfig(t *tree, file string) (*yaml.Node, error) {
	data, err := render.ReadFile(t, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parseConfig(t.Display(file), data)
}

// parseConfig returns the mapping that a configuration file holds, nil for an
// empty one.
func parseConfig(file string, data []byte) (*yaml.Node, error) {
	if err := render.OneDocument(file, data); err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, render.SyntaxError(file, data, err)
	}
	if len(doc.Content) == 0 {
		return nil, nil
	}
	if config := doc.Content[0]; config.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: the file has to hold keys with values, such as fail-on: warn", file, config.Line)
	}
	return doc.Content[0], nil
}

// readSections returns the sections of a tree's configuration file.
func readSections(t *tree, file string) (*sections, error) {
	config, err := readConfig(t, file)
	s := &sections{file: t.Display(file)}
	if err != nil || config == nil {
		return s, err
	}
	if err := s.decode(config); err != nil {
		return s, inFile(s.file, err)
	}
	s.trust, err = s.Fetch.trust(t)
	return s, inFile(s.file, err)
}

// trust reads the keys from the tree that the configuration is of.
func (f *fetchSection) trust(t *tree) (store.Trust, error) {
	var trust store.Trust
	for _, v := range f.Verify {
		key, err := render.ReadFile(t, path.Clean(v.Key))
		if err != nil {
			return nil, configError(v.Line, "fetch: verify: key %s can't be read", v.Key)
		}
		signer, err := store.NewSigner(v.URL, v.Key, key)
		if err != nil {
			return nil, configError(v.Line, "fetch: verify: key %s: %s", v.Key, err)
		}
		trust = append(trust, signer)
	}
	return trust, nil
}

func (s *sections) decode(config *yaml.Node) error {
	own := *config
	own.Content = nil
	for i := 0; i+1 < len(config.Content); i += 2 {
		if slices.Contains(sectionKeys(), config.Content[i].Value) {
			own.Content = append(own.Content, config.Content[i], config.Content[i+1])
		}
	}
	if err := decodeStrictly(&own, reflect.ValueOf(s).Elem(), ""); err != nil {
		return err
	}
	return s.check()
}

// check holds what each entry has to have.
func (s *sections) check() error {
	names := make(map[string]bool)
	for _, c := range s.Clusters {
		switch {
		case c.Name == "":
			return configError(c.Line, "clusters: name is missing")
		case strings.ContainsAny(c.Name, ":/"):
			return configError(c.Line, "clusters: name %q has a colon or slash in it", c.Name)
		case names[c.Name]:
			return configError(c.Line, "clusters: there are two with the name %q", c.Name)
		}
		names[c.Name] = true
		for _, p := range slices.Concat(c.Entry, c.With) {
			if err := inRepository(c.Line, p); err != nil {
				return err
			}
		}
	}
	for _, d := range s.Deployments {
		if d.Path == "" {
			return configError(d.Line, "deployments: path is missing")
		}
		if d.Cluster != "" && !names[d.Cluster] {
			return configError(d.Line, "deployments: no cluster %q is declared under clusters", d.Cluster)
		}
		for _, p := range append([]string{d.Path, d.ValuesEach}, d.Values...) {
			if err := inRepository(d.Line, p); err != nil {
				return err
			}
		}
	}
	return s.checkSources()
}

func (s *sections) checkSources() error {
	for _, x := range s.Sources {
		switch {
		case x.Path == "":
			return configError(x.Line, "sources: path is missing")
		case (x.URL == "") == (x.Object == ""):
			return configError(x.Line, "sources: want either url or object")
		case x.Object != "" && strings.Count(x.Object, "/") != 2:
			return configError(x.Line, "sources: object %q: want KIND/NAMESPACE/NAME", x.Object)
		}
	}
	for _, g := range s.Generators {
		if strings.Count(g.ApplicationSet, "/") != 1 {
			return configError(g.Line, "generators: applicationset %q: want NAMESPACE/NAME", g.ApplicationSet)
		}
	}
	for _, host := range s.Fetch.Hosts {
		if host == "" || strings.ContainsAny(host, "/ @") {
			return configError(s.Fetch.Line, "fetch: hosts: %q is no host name, such as charts.example.org", host)
		}
	}
	for _, catalogue := range s.Fetch.CRDs {
		if strings.HasPrefix(catalogue, "https://") || strings.HasPrefix(catalogue, "http://") {
			continue
		}
		if err := inRepository(s.Fetch.Line, catalogue); err != nil || catalogue == "" {
			return cmp.Or(err, configError(s.Fetch.Line, "fetch: crds: want URLs or directories"))
		}
	}
	for _, v := range s.Fetch.Verify {
		if v.URL == "" || v.Key == "" {
			return configError(v.Line, "fetch: verify: want url and key")
		}
		if err := inRepository(v.Line, v.Key); err != nil {
			return err
		}
	}
	return nil
}

func inRepository(line int, p string) error {
	if p != "" && !filepath.IsLocal(filepath.FromSlash(p)) && path.Clean(p) != "." {
		return configError(line, "%q leads out of the repository", p)
	}
	return nil
}

// A lineError is an error at a line of the configuration file.
type lineError struct {
	line int
	text string
}

func (e *lineError) Error() string { return e.text }

func configError(line int, format string, args ...any) error {
	return &lineError{line, fmt.Sprintf(format, args...)}
}

// inFile puts the place before an error in a configuration file.
func inFile(file string, err error) error {
	var e *lineError
	if errors.As(err, &e) {
		return fmt.Errorf("%s:%d: %s", file, e.line, e.text)
	}
	return err
}

// decodeStrictly decodes a node, and refuses keys that the type does not have
// and values of another type. at names the field in errors.
func decodeStrictly(n *yaml.Node, to reflect.Value, at string) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch to.Kind() {
	case reflect.Struct:
		return decodeStruct(n, to, at)
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return configError(n.Line, "%s: want a list", at)
		}
		for _, item := range n.Content {
			v := reflect.New(to.Type().Elem()).Elem()
			if err := decodeStrictly(item, v, at); err != nil {
				return err
			}
			to.Set(reflect.Append(to, v))
		}
		return nil
	case reflect.Map:
		if n.Kind != yaml.MappingNode {
			return configError(n.Line, "%s: want a mapping", at)
		}
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			return configError(n.Line, "%s: want a text", at)
		}
		to.SetString(n.Value)
		return nil
	}
	if err := n.Decode(to.Addr().Interface()); err != nil {
		return configError(n.Line, "%s: %s", at, strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	return nil
}

func decodeStruct(n *yaml.Node, to reflect.Value, at string) error {
	if n.Kind != yaml.MappingNode {
		return configError(n.Line, "%s: want a mapping", at)
	}
	if line := to.FieldByName("Line"); line.IsValid() {
		line.SetInt(int64(n.Line))
	}
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		field, ok := to.Type().FieldByNameFunc(func(name string) bool {
			f, _ := to.Type().FieldByName(name)
			return f.Tag.Get("yaml") == key.Value
		})
		name := strings.TrimPrefix(at+"."+key.Value, ".")
		switch {
		case !ok || key.Value == "" || key.Value == "-":
			return configError(key.Line, "unknown key %q; %s", name, render.Instead(key.Value, keysOf(to.Type())))
		case seen[key.Value]:
			return configError(key.Line, "%s stands here twice", name)
		}
		seen[key.Value] = true
		if err := decodeStrictly(n.Content[i+1], to.FieldByIndex(field.Index), name); err != nil {
			return err
		}
		if at := to.FieldByName(field.Name + "At"); at.IsValid() {
			at.Set(reflect.ValueOf(valueSpans(n.Content[i+1])))
		}
	}
	return nil
}

// valueSpans returns where the values of a mapping are written.
func valueSpans(n *yaml.Node) map[string]render.Span {
	spans := make(map[string]render.Span)
	for i := 0; i+1 < len(n.Content); i += 2 {
		v := n.Content[i+1]
		spans[n.Content[i].Value] = render.Span{Line: v.Line, Column: v.Column, EndLine: v.Line, EndColumn: v.Column + utf8.RuneCountInString(v.Value)}
	}
	return spans
}

func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "-" && key != "" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// clusters are those that are declared, as resolvers know them.
func (s *sections) clusters() []render.Cluster {
	var all []render.Cluster
	for _, c := range s.Clusters {
		all = append(all, render.Cluster{
			Name: c.Name, Server: c.Server, Labels: c.Labels, Annotations: c.Annotations,
			KubeVersion: c.KubeVersion, APIVersions: c.APIVersions, FluxVersion: c.FluxVersion, ArgoCDVersion: c.ArgoCDVersion,
			Substitute: c.Substitute,
		})
	}
	return all
}

// home is the name of the cluster of what the tree does not say it of: the only
// one, else that in which Argo CD is.
func (s *sections) home() string {
	if len(s.Clusters) == 1 {
		return s.Clusters[0].Name
	}
	for _, c := range s.Clusters {
		if c.Server == "https://kubernetes.default.svc" {
			return c.Name
		}
	}
	return ""
}

// declaresRoots reports whether the sections say where to begin.
func (s *sections) declaresRoots() bool {
	return len(s.Deployments) > 0 || slices.ContainsFunc(s.Clusters, func(c clusterSection) bool { return len(c.Entry)+len(c.With) > 0 })
}
