package kustomize

import (
	"bytes"
	"container/list"
	"errors"
	"sync"
	"weak"

	"sigs.k8s.io/kustomize/api/ifc"
	"sigs.k8s.io/kustomize/api/provider"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/yaml"

	"github.com/preadmit/preadmit/render"
)

// maxNodes is the most YAML nodes that the cached bases may have in all. A node
// takes about 200 bytes.
const maxNodes = 40_000

// Nodes have lines from firstLines on if they were read from files, and from firstSteps to
// lastLines if transformers wrote them. kustomize gives nodes that it makes lower ones.
const (
	firstLines = 1 << 28
	firstSteps = 3 << 28
	lastLines  = 1 << 30
)

// bases caches the most recently used bases. It is safe for concurrent use.
type bases struct {
	factory   *resmap.Factory
	validator ifc.Validator

	selections selections

	mu    sync.Mutex
	all   map[baseKey]*list.Element // of *base
	used  list.List                 // the last one first
	nodes int
	line  int
	step  int
}

type baseKey struct {
	dir   string
	hides bool
}

// A base is the result of a kustomization before an overlay changes it. It is
// shared: nobody may change it.
type base struct {
	key     baseKey
	inputs  *inputs
	objects []*resource.Resource
	nodes   int
}

func newBases() *bases {
	p := provider.NewDepProvider()
	return &bases{
		factory: resmap.NewFactory(p.GetResourceFactory()), validator: p.GetFieldValidator(),
		all: map[baseKey]*list.Element{}, line: firstLines, step: firstSteps,
	}
}

// get returns the cached base for a key, or nil.
func (b *bases) get(key baseKey) *base {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.all[key]
	if e == nil {
		return nil
	}
	b.used.MoveToFront(e)
	return e.Value.(*base)
}

// put caches a base and evicts the least recently used ones.
func (b *bases) put(key baseKey, made *base) {
	made.key = key
	for _, r := range made.objects {
		made.nodes += nodesIn(r.YNode())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.all[key]; e != nil {
		b.forget(e)
	}
	b.all[key] = b.used.PushFront(made)
	for b.nodes += made.nodes; b.nodes > maxNodes; {
		b.forget(b.used.Back())
	}
}

func (b *bases) forget(e *list.Element) {
	old := b.used.Remove(e).(*base)
	b.nodes -= old.nodes
	delete(b.all, old.key)
}

func nodesIn(n *yaml.Node) int {
	count := 1
	for _, c := range n.Content {
		count += nodesIn(c)
	}
	return count
}

// lines reserves count lines for the caller and returns the first.
func (b *bases) lines(count int) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if count > firstSteps-b.line {
		return 0, errors.New("no lines are left")
	}
	from := b.line
	b.line += count
	return from, nil
}

// nextStep reserves a line for a step. If none is left, it returns 0, for a step whose nodes
// have no place.
func (b *bases) nextStep() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.step == lastLines {
		return 0
	}
	b.step++
	return b.step - 1
}

// documents caches the parsed documents of files and kustomizations as long as
// a unit that reads them is in use. It is safe for concurrent use.
type documents struct {
	mu             sync.Mutex
	files          map[fileKey]weak.Pointer[parsed]
	kustomizations map[string]weak.Pointer[file]
}

type fileKey struct {
	name    string
	dialect render.Dialect
}

// A parsed is a file with its documents. It is shared and must not be changed.
type parsed struct {
	data []byte
	docs []render.Document
}

// read returns the documents of a file. Files with errors are not cached.
func (d *documents) read(name string, data []byte, dialect render.Dialect) (*parsed, error) {
	key := fileKey{name, dialect}
	d.mu.Lock()
	p := d.files[key].Value()
	d.mu.Unlock()
	if p != nil && bytes.Equal(p.data, data) {
		return p, nil
	}
	docs, err := render.Documents(name, data, dialect)
	p = &parsed{data, docs}
	if err == nil {
		d.mu.Lock()
		d.files[key] = weak.Make(p)
		d.mu.Unlock()
	}
	return p, err
}
