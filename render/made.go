package render

import "sync"

// Made caches the rendered objects of one Source across its Variants, by a digest of everything
// that they were made from. A renderer that finds the digest there returns the objects instead of
// rendering again. It is safe for concurrent use.
type Made struct {
	mu      sync.Mutex
	objects map[[32]byte][]*Object
}

// Objects returns the objects that were kept for a digest.
func (m *Made) Objects(digest [32]byte) (objects []*Object, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	objects, ok = m.objects[digest]
	return objects, ok
}

// Keep keeps objects for a digest.
func (m *Made) Keep(digest [32]byte, objects []*Object) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects = make(map[[32]byte][]*Object)
	}
	m.objects[digest] = objects
}
