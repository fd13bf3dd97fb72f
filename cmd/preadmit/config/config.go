// Package config reads the configuration file of a repository, .preadmit/config.yaml. Package main
// handles its defaults for flags; [File] contains everything else. Errors name the line. The
// package also compares two versions of the file, because a pull request may edit it.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
	"github.com/preadmit/preadmit/report/objects"
)

// Path is the configuration file of a repository.
const Path = ".preadmit/config.yaml"

// A File is a configuration file without the defaults for flags. It declares deployments that the
// tree does not show, and sources that may be fetched.
type File struct {
	Repository  []string     `yaml:"repository"`
	Clusters    []Cluster    `yaml:"clusters"`
	Deployments []Deployment `yaml:"deployments"`
	Sources     []Source     `yaml:"sources"`
	Generators  []Generator  `yaml:"generators"`
	Fetch       Fetch        `yaml:"fetch"`
	Diff        Diff         `yaml:"diff"`

	Name  string      `yaml:"-"` // of the file, in reports
	Trust store.Trust `yaml:"-"` // from Fetch.Verify
}

// A Tree contains the files of a repository.
type Tree interface {
	fs.FS
	Display(name string) string // in reports
}

// A Cluster declares a cluster.
type Cluster struct {
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

// A Deployment declares a deployment that is not made by a GitOps object.
type Deployment struct {
	Line       int            `yaml:"-"`
	Path       string         `yaml:"path"`
	Name       string         `yaml:"name"`
	Cluster    string         `yaml:"cluster"`
	Namespace  string         `yaml:"namespace"`
	Release    string         `yaml:"release"`
	Values     []string       `yaml:"values"`
	ValuesEach string         `yaml:"values-each"`
	Set        map[string]any `yaml:"set"`

	SetAt map[string]render.Span `yaml:"-"` // positions of the values in Set, without the file
}

// A Source is the directory with the files of a repository or of a Flux source object.
type Source struct {
	Line     int    `yaml:"-"`
	URL      string `yaml:"url"`
	Revision string `yaml:"revision"`
	Object   string `yaml:"object"`
	Path     string `yaml:"path"`
}

// A Generator contains the parameters that an ApplicationSet's generator would get from outside of
// Git.
type Generator struct {
	Line           int              `yaml:"-"`
	ApplicationSet string           `yaml:"applicationset"`
	Params         []map[string]any `yaml:"params"`
}

// A Fetch configures preadmit fetch.
type Fetch struct {
	Line  int      `yaml:"-"`
	Hosts []string `yaml:"hosts"` // the only hosts that may be contacted

	// CRDs are catalogues with schemas of custom resources that nothing in the tree defines: URLs
	// or directories with GROUP/KIND_VERSION.json.
	CRDs []string `yaml:"crds"`

	// Verify lists the addresses whose content must be signed.
	Verify []Verification `yaml:"verify"`
}

// A Diff configures how reports show the change of an object.
type Diff struct {
	Ignore []objects.Ignored `yaml:"ignore"` // fields whose changes are not shown
}

// A Verification lists the keys that sign the content at an address and below it.
type Verification struct {
	Line int    `yaml:"-"`
	URL  string `yaml:"url"` // such as oci://ghcr.io/example, or "*" for everything
	Key  string `yaml:"key"` // file of an OpenPGP keyring (Helm's provenance) or of public keys (cosign)
}

// Keys returns the keys of the configuration file that are not flags.
func Keys() []string { return keysOf(reflect.TypeFor[File]()) }

// ReadNode returns the mapping in a tree's configuration file, or nil if there is no such file.
func ReadNode(t Tree, file string) (*yaml.Node, error) {
	data, err := render.ReadFile(t, file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return Parse(t.Display(file), data)
}

// Parse returns the mapping in a configuration file, or nil if the file is empty.
func Parse(file string, data []byte) (*yaml.Node, error) {
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
		return nil, fmt.Errorf("%s:%d: the file must have keys with values, such as fail-on: warn", file, config.Line)
	}
	return doc.Content[0], nil
}

// Read reads the configuration file of a tree. If there is none, the File is empty.
func Read(t Tree, file string) (*File, error) {
	config, err := ReadNode(t, file)
	s := &File{Name: t.Display(file)}
	if err != nil || config == nil {
		return s, err
	}
	if err := s.Decode(config); err != nil {
		return s, InFile(s.Name, err)
	}
	s.Trust, err = s.Fetch.trust(t)
	return s, InFile(s.Name, err)
}

// trust reads the keys from the tree that contains the configuration.
func (f *Fetch) trust(t Tree) (store.Trust, error) {
	var trust store.Trust
	for _, v := range f.Verify {
		key, err := render.ReadFile(t, path.Clean(v.Key))
		if err != nil {
			return nil, Errorf(v.Line, "fetch: verify: key %s can't be read", v.Key)
		}
		signer, err := store.NewSigner(v.URL, v.Key, key)
		if err != nil {
			return nil, Errorf(v.Line, "fetch: verify: key %s: %s", v.Key, err)
		}
		trust = append(trust, signer)
	}
	return trust, nil
}

// Decode decodes the entries that are not defaults for flags.
func (f *File) Decode(config *yaml.Node) error {
	own := *config
	own.Content = nil
	for i := 0; i+1 < len(config.Content); i += 2 {
		if slices.Contains(Keys(), config.Content[i].Value) {
			own.Content = append(own.Content, config.Content[i], config.Content[i+1])
		}
	}
	if err := decodeStrictly(&own, reflect.ValueOf(f).Elem(), ""); err != nil {
		return err
	}
	return f.check()
}

// A lineError is an error at a line of the configuration file.
type lineError struct {
	line int
	text string
}

func (l *lineError) Error() string { return l.text }

// Errorf returns an error at a line of the configuration file.
func Errorf(line int, format string, args ...any) error {
	return &lineError{line, fmt.Sprintf(format, args...)}
}

// InFile adds the file and line to an error in a configuration file.
func InFile(file string, err error) error {
	var e *lineError
	if errors.As(err, &e) {
		return fmt.Errorf("%s:%d: %s", file, e.line, e.text)
	}
	return err
}

// RenderClusters returns the declared clusters for resolvers.
func (f *File) RenderClusters() []render.Cluster {
	var all []render.Cluster
	for _, c := range f.Clusters {
		all = append(all, render.Cluster{
			Name: c.Name, Server: c.Server, Labels: c.Labels, Annotations: c.Annotations,
			KubeVersion: c.KubeVersion, APIVersions: c.APIVersions, FluxVersion: c.FluxVersion, ArgoCDVersion: c.ArgoCDVersion,
			Substitute: c.Substitute,
		})
	}
	return all
}

// Home returns the name of the cluster of units that name none: the only declared cluster, else the
// one that Argo CD runs in.
func (f *File) Home() string {
	if len(f.Clusters) == 1 {
		return f.Clusters[0].Name
	}
	for _, c := range f.Clusters {
		if c.Server == "https://kubernetes.default.svc" {
			return c.Name
		}
	}
	return ""
}

// HasEntries reports whether the file declares units to start from.
func (f *File) HasEntries() bool {
	return len(f.Deployments) > 0 || slices.ContainsFunc(f.Clusters, func(c Cluster) bool { return len(c.Entry)+len(c.With) > 0 })
}

// HasClusters returns an error if clusters are declared, but one of names is not among them.
func (f *File) HasClusters(names []string) error {
	var declared []string
	for _, c := range f.Clusters {
		declared = append(declared, c.Name)
	}
	for _, name := range names {
		if len(declared) > 0 && !slices.Contains(declared, name) {
			return fmt.Errorf("--cluster %q: no such cluster in %s; %s", name, Path, render.Instead(name, declared))
		}
	}
	return nil
}

// HelmSet returns the values of a deployment's set in the form of --set, and their positions.
func (f *File) HelmSet(x Deployment) (set []string, places []render.Span) {
	for _, key := range slices.Sorted(maps.Keys(x.Set)) {
		set = append(set, key+"="+strings.NewReplacer(`\`, `\\`, ",", `\,`).Replace(fmt.Sprint(x.Set[key])))
		at := x.SetAt[key]
		at.File = f.Name
		places = append(places, at)
	}
	return set, places
}

// Cluster returns the declared cluster with a name, or for "" the only declared one. It returns an
// empty Cluster if there is none.
func (f *File) Cluster(name string) Cluster {
	for _, c := range f.Clusters {
		if c.Name == name || name == "" && len(f.Clusters) == 1 {
			return c
		}
	}
	return Cluster{}
}
