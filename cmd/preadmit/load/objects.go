package load

import (
	"strconv"

	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/git"
)

// factPart is the maximum size in bytes of a cache entry with facts about the objects of a
// repository. Entries are numbered from 0.
const factPart = 1 << 20

// RememberObjects gives the revision's repository the facts about its objects that earlier runs
// cached, and caches the facts that this run uses.
func (o *Sources) RememberObjects(r *Revision) {
	m := o.Memory
	if m == nil {
		return
	}
	key := func(i int) cache.Key {
		return cache.KeyOf("git objects", m.Build, r.Tree.Dir, strconv.Itoa(i))
	}
	var known []git.Fact
	for i := 0; ; i++ {
		data, ok := m.Store.Get(key(i))
		if !ok {
			break
		}
		known = append(known, decodeFacts(data)...)
	}
	facts := git.NewFacts(known)
	r.Repo.Remember(facts)
	m.Put = append(m.Put, func() {
		used, changed := facts.Used()
		if !changed {
			return
		}
		for i, part := range factParts(used) {
			if data, err := encodeFacts(part); err == nil {
				m.Store.Put(key(i), data)
			}
		}
	})
}

// factParts divides facts among entries. A tree that is larger than an entry is left out.
func factParts(facts []git.Fact) (parts [][]git.Fact) {
	room := 0
	for _, f := range facts {
		const more = 64 // bytes, besides the tree
		size := len(f.Tree) + more
		if size > factPart {
			continue
		}
		if room -= size; room < 0 {
			parts, room = append(parts, nil), factPart-size
		}
		last := len(parts) - 1
		parts[last] = append(parts[last], f)
	}
	return parts
}

func encodeFacts(facts []git.Fact) ([]byte, error) {
	var e cache.Encoder
	e.Uint(uint64(len(facts)))
	for _, f := range facts {
		e.String(f.Object)
		e.String(f.Tree)
		e.Uint(f.Size)
		e.String(f.Digest)
	}
	return e.Data()
}

// decodeFacts is the inverse of encodeFacts. It returns nil for invalid data.
func decodeFacts(data []byte) []git.Fact {
	var facts []git.Fact
	d := cache.NewDecoder(data)
	for n := d.Uint(); n > 0 && d.Err() == nil; n-- {
		facts = append(facts, git.Fact{Object: d.String(), Tree: d.String(), Size: d.Uint(), Digest: d.String()})
	}
	if d.End() != nil {
		return nil
	}
	return facts
}
