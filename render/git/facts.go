package git

import (
	"crypto/sha256"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
)

// A Fact is what is known about a Git object. It is valid in every repository, because an object's
// name is a hash of its content.
type Fact struct {
	Object string // hash of the object, as bytes
	Tree   string // content, if it is a tree
	Size   uint64 // in bytes, if it is a file
	Digest string // SHA-256 of a file's content, as bytes; "" for a tree
}

// Facts is a set of facts about objects, which save reading the objects. It is safe for concurrent
// use. A nil *Facts is empty.
type Facts struct {
	mu    sync.Mutex
	known map[plumbing.Hash]*Fact
	used  map[plumbing.Hash]*Fact
	fresh bool
}

// NewFacts returns the facts of earlier runs.
func NewFacts(known []Fact) *Facts {
	f := &Facts{known: make(map[plumbing.Hash]*Fact, len(known)), used: make(map[plumbing.Hash]*Fact, len(known))}
	for i := range known {
		var h plumbing.Hash
		if copy(h[:], known[i].Object) == len(known[i].Object) {
			f.known[h] = &known[i]
		}
	}
	return f
}

// Used returns the facts that this run used or added, sorted. changed reports whether it is worth
// storing them in place of those given to NewFacts.
func (f *Facts) Used() (all []Fact, changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, x := range f.used {
		all = append(all, *x)
	}
	slices.SortFunc(all, func(a, b Fact) int { return strings.Compare(a.Object, b.Object) })
	return all, f.fresh || len(f.used) < len(f.known)/2
}

// of returns the fact about an object, or nil.
func (f *Facts) of(h plumbing.Hash) *Fact {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.known[h]
	if x == nil {
		x = f.used[h]
	}
	if x != nil {
		f.used[h] = x
	}
	return x
}

// learn adds a fact about an object that was read.
func (f *Facts) learn(h plumbing.Hash, kind plumbing.ObjectType, data []byte) {
	if f == nil {
		return
	}
	x := &Fact{Object: string(h[:])}
	if kind == plumbing.TreeObject {
		x.Tree = string(data)
	} else {
		sum := sha256.Sum256(data)
		x.Size, x.Digest = uint64(len(data)), string(sum[:])
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.used[h], f.fresh = x, true
}

// Remember makes the repository use facts instead of reading objects. It does nothing if objects
// may be missing, because reading them must fail then.
func (r *Repository) Remember(f *Facts) {
	if !r.partial && len(r.objects.gone) == 0 {
		r.facts = f
	}
}

// treeContent returns the content of a directory's object.
func (t *Tree) treeContent(n *node, dir string) ([]byte, error) {
	if x := n.repo.facts.of(n.hash); x != nil && x.Digest == "" {
		return []byte(x.Tree), nil
	}
	data, err := t.object(plumbing.TreeObject, n, dir)
	if err == nil {
		n.repo.facts.learn(n.hash, plumbing.TreeObject, data)
	}
	return data, err
}

// Digest returns the SHA-256 and the size of the file with a name, following links. ok is false if
// the file can't be read or the repository has no Facts.
func (t *Tree) Digest(name string) (sum string, size uint64, ok bool) {
	n, _, err := t.lookup("open", name, true)
	if err != nil || n.mode.IsDir() || n.repo.facts == nil {
		return "", 0, false
	}
	if x := n.repo.facts.of(n.hash); x != nil && x.Digest != "" {
		return x.Digest, x.Size, true
	}
	data, err := t.object(plumbing.BlobObject, n, name)
	if err != nil {
		return "", 0, false
	}
	n.repo.facts.learn(n.hash, plumbing.BlobObject, data)
	digest := sha256.Sum256(data)
	return string(digest[:]), uint64(len(data)), true
}
