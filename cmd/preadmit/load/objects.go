package load

import (
	"github.com/preadmit/preadmit/render/cache"
	"github.com/preadmit/preadmit/render/git"
)

// factParts is the number of entries with facts about the objects of a repository, since
// the size of an entry is bounded.
const factParts = 16

// RememberObjects gives the revision's repository what earlier runs learned about its
// objects, and keeps what this one uses.
func (o *Sources) RememberObjects(r *Revision) {
	m := o.Memory
	if m == nil {
		return
	}
	key := func(i int) cache.Key {
		return cache.KeyOf("git objects", m.Build, r.Tree.Dir, string(rune('a'+i)))
	}
	var known []git.Fact
	for i := range factParts {
		if data, ok := m.Store.Get(key(i)); ok {
			known = append(known, decodeFacts(data)...)
		}
	}
	facts := git.NewFacts(known)
	r.Repo.Remember(facts)
	m.Put = append(m.Put, func() {
		used, changed := facts.Used()
		if !changed {
			return
		}
		parts := make([][]git.Fact, factParts)
		for _, f := range used {
			i := int(f.Object[0]) % factParts
			parts[i] = append(parts[i], f)
		}
		for i, part := range parts {
			if data, err := encodeFacts(part); err == nil {
				m.Store.Put(key(i), data)
			}
		}
	})
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

// decodeFacts is the inverse of encodeFacts. It returns nothing for other bytes.
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
