package reads

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/preadmit/preadmit/policy"
)

// Many objects of a repository are equal in all that a policy reads of them. The
// verdicts on the first of them hold for all. That saves 38% of the CPU of 20,000
// Deployments under the pack best-practices, and 10 to 17% of a mixed tree of 10,000
// objects under 60 policies.

// Repeats holds a policy's verdicts, each of type V, by the parts of objects that it
// reads. It is safe for concurrent use.
type Repeats[V any] struct {
	asked, found, missed atomic.Int64
	givenUp              atomic.Bool

	mu    sync.RWMutex
	known map[string]repeat[V]
}

// A Key identifies the parts of one object that a policy reads.
type Key interface {
	// Known reports whether there are keys, which are the same for objects on which the
	// policy has the same verdicts.
	Known() bool
	// Append appends the parts that verdicts depend on, or those that only the messages of
	// failures depend on. ok is false for an object without a key.
	Append(b []byte, messages bool) (key []byte, ok bool)
}

// A repeat holds verdicts. If there are failures, their key includes what messages
// read.
type repeat[V any] struct {
	verdicts []V
	fails    bool
}

// Look-ups begin with the few-th object, and end if the first ones show that objects
// differ too much. A tree has some hundred images, so there may be as many different
// objects at first.
const (
	fewObjects  = 16
	triedFirst  = 256
	mostRepeats = 1024
	mostKey     = 4 << 10 // bytes
)

// Verdicts returns the verdicts on an object: those on an earlier object that is
// equal in all that the policy reads, or those that evaluate returns. Evaluated
// verdicts are kept if all are decided and keep is true, which means that they depend
// on the object alone. room is a buffer for keys.
func (r *Repeats[V]) Verdicts(room *[]byte, object Key, outcome func(*V) policy.Outcome, evaluate func() (vs []V, keep bool)) []V {
	if !r.worthwhile(object) {
		vs, _ := evaluate()
		return vs
	}
	vs, found, key := r.lookUp(*room, object)
	if *room = key.bytes; found {
		return vs
	}
	vs, keep := evaluate()
	fails := false
	for i := range vs {
		switch outcome(&vs[i]) {
		case policy.Error, policy.Unknown:
			return vs
		case policy.Fail:
			fails = true
		}
	}
	if keep {
		r.learn(key, slices.Clone(vs), fails)
	}
	return vs
}

// worthwhile counts an object and reports whether to look it up.
func (r *Repeats[V]) worthwhile(object Key) bool {
	if r.asked.Load() < fewObjects {
		r.asked.Add(1)
		return false
	}
	if missed := r.missed.Load(); missed >= triedFirst && missed >= 2*r.found.Load() {
		r.giveUp()
		return false
	}
	return object.Known()
}

// giveUp frees the memory of verdicts that are not looked up any more.
func (r *Repeats[V]) giveUp() {
	if r.givenUp.CompareAndSwap(false, true) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.known = nil
	}
}

// A repeatKey identifies the parts of an object that a policy reads.
type repeatKey struct {
	bytes []byte
	rules int  // how many parts are not for messages
	all   bool // includes the parts for messages
	known bool // there is a key
}

// lookUp returns the verdicts on an object that is equal in all that the policy
// reads, or the key for this one.
func (r *Repeats[V]) lookUp(room []byte, object Key) (verdicts []V, found bool, key repeatKey) {
	key.bytes, key.known = object.Append(room[:0], false)
	if !key.known {
		return nil, false, key
	}
	x, known := r.find(key.bytes)
	key.rules = len(key.bytes)
	if known && !x.fails {
		r.found.Add(1)
		return x.verdicts, true, key
	}
	if key.bytes, key.all = object.Append(key.bytes, true); key.all && known {
		if x, known = r.find(key.bytes); known {
			r.found.Add(1)
			return x.verdicts, true, key
		}
	}
	r.missed.Add(1)
	return nil, false, key
}

// learn keeps the verdicts on an object. fails says that a message was evaluated.
func (r *Repeats[V]) learn(key repeatKey, verdicts []V, fails bool) {
	switch {
	case !key.known:
	case !fails:
		r.add(key.bytes[:key.rules], repeat[V]{verdicts: verdicts})
	case key.all:
		r.add(key.bytes[:key.rules], repeat[V]{fails: true})
		r.add(key.bytes, repeat[V]{verdicts: verdicts})
	}
}

func (r *Repeats[V]) find(key []byte) (repeat[V], bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	found, ok := r.known[string(key)]
	return found, ok
}

func (r *Repeats[V]) add(key []byte, x repeat[V]) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(key) > mostKey || len(r.known) >= mostRepeats || r.givenUp.Load() {
		return
	}
	if r.known == nil {
		r.known = make(map[string]repeat[V])
	}
	r.known[string(key)] = x
}

// Found returns how many objects were looked up and found.
func (r *Repeats[V]) Found() int64 { return r.found.Load() }
