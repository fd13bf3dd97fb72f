package cel

import (
	"sync"
	"sync/atomic"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"
)

// Many objects of a repository are equal in all that a policy reads of them. The
// verdicts on the first of them hold for all.

// Repeats holds a policy's verdicts by the parts of objects that it reads. It is safe
// for concurrent use. A Repeats without reads finds nothing.
type Repeats[V any] struct {
	reads func() repeatReads

	asked, found, missed atomic.Int64

	mu    sync.RWMutex
	known map[string]repeat[V]
}

// repeatReads are the parts of objects that the expressions of a policy read; nil where
// these read anything else. Messages are evaluated for failures only.
type repeatReads struct{ rules, messages *Reads }

// A repeat holds verdicts. Those with failures depend on what messages read, too, and
// are found by that.
type repeat[V any] struct {
	verdicts V
	fails    bool
}

// How repeats are looked for: from the few-th object on, until the first ones show that
// objects differ too much, and for so many different ones.
const (
	fewObjects  = 16
	triedFirst  = 64
	mostRepeats = 1024
	mostKey     = 4 << 10 // bytes
)

// Reading says which expressions the verdicts depend on, and on which besides those if
// there are failures. names are those of the policy's variables. It is called before
// anything is looked up.
func (r *Repeats[V]) Reading(names *Names, variable func(i int) *cel.Ast, rules, messages func() []*cel.Ast) {
	r.reads = sync.OnceValue(func() repeatReads {
		return repeatReads{ReadsOf(rules(), names, variable), ReadsOf(messages(), names, variable)}
	})
}

// Worthwhile counts an object and reports whether to look it up.
func (r *Repeats[V]) Worthwhile() bool {
	if r.reads == nil || r.asked.Add(1) <= fewObjects {
		return false
	}
	missed := r.missed.Load()
	return (missed < triedFirst || missed < 2*r.found.Load()) && r.reads().rules != nil
}

// A RepeatKey is what a policy reads of an object.
type RepeatKey struct {
	bytes []byte
	rules int  // how many of them are not for messages
	all   bool // those for messages are there
	known bool // there is a key
}

// LookUp returns the verdicts on an object that is equal in what the policy reads. If
// found is false, the caller passes the verdicts on this one with the key to Learn.
// room is memory for the key, until then.
func (r *Repeats[V]) LookUp(room []byte, object ref.Val) (verdicts V, found bool, key RepeatKey) {
	reads := r.reads()
	key.bytes, key.known = reads.rules.Key(room[:0], object)
	if !key.known {
		return verdicts, false, key
	}
	x, known := r.find(key.bytes)
	key.rules = len(key.bytes)
	if known && !x.fails {
		r.found.Add(1)
		return x.verdicts, true, key
	}
	if key.bytes, key.all = reads.messages.Key(key.bytes, object); key.all && known {
		if x, known = r.find(key.bytes); known {
			r.found.Add(1)
			return x.verdicts, true, key
		}
	}
	r.missed.Add(1)
	return verdicts, false, key
}

// Learn keeps the verdicts on an object. They must depend on nothing else, and not
// change any more. fails says that a message was evaluated.
func (r *Repeats[V]) Learn(key RepeatKey, verdicts V, fails bool) {
	switch {
	case !key.known:
	case !fails:
		r.add(key.bytes[:key.rules], repeat[V]{verdicts: verdicts})
	case key.all:
		r.add(key.bytes[:key.rules], repeat[V]{fails: true})
		r.add(key.bytes, repeat[V]{verdicts: verdicts})
	}
}

// Room is memory for the next key.
func (r RepeatKey) Room() []byte { return r.bytes }

func (r *Repeats[V]) find(key []byte) (repeat[V], bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found, ok := r.known[string(key)]
	return found, ok
}

func (r *Repeats[V]) add(key []byte, x repeat[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(key) > mostKey || len(r.known) >= mostRepeats {
		return
	}
	if r.known == nil {
		r.known = make(map[string]repeat[V])
	}
	r.known[string(key)] = x
}

// Found returns how many objects were looked up and found.
func (r *Repeats[V]) Found() int64 { return r.found.Load() }
