package cache

import (
	"crypto/sha256"
	"reflect"
	"sync"
	"unsafe"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/render"
)

// Digests computes digests of objects without the places of their fields. Objects share equal
// parts ([render.Parts]), and each part is hashed once. Objects must not change afterwards. It is
// safe for concurrent use.
type Digests struct {
	mu      sync.Mutex
	objects map[*unstructured.Unstructured]string
	parts   map[part]string
	buffer  []byte
}

// A part is a map or list in memory, which it keeps there.
type part struct {
	at     unsafe.Pointer
	length int
}

// NewDigests returns empty Digests.
func NewDigests() *Digests {
	return &Digests{objects: make(map[*unstructured.Unstructured]string), parts: make(map[part]string)}
}

// Of returns the digest of an object.
func (d *Digests) Of(o *render.Object) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if sum, ok := d.objects[o.Unstructured]; ok {
		return sum, nil
	}
	fields := make(map[string]any, len(o.Object))
	for key, v := range o.Object {
		fields[key] = v
		at := reflect.ValueOf(v)
		if (at.Kind() == reflect.Map || at.Kind() == reflect.Slice) && at.Len() > 0 {
			sum, err := d.part(part{at.UnsafePointer(), at.Len()}, v)
			if err != nil {
				return "", err
			}
			fields[key] = []any{sum} // no other field is a list with elements
		}
	}
	sum, err := d.sum(fields)
	if err == nil {
		d.objects[o.Unstructured] = sum
	}
	return sum, err
}

func (d *Digests) part(p part, v any) (string, error) {
	if sum, ok := d.parts[p]; ok {
		return sum, nil
	}
	sum, err := d.sum(v)
	if err == nil {
		d.parts[p] = sum
	}
	return sum, err
}

func (d *Digests) sum(v any) (string, error) {
	e := Encoder{data: d.buffer[:0], whole: true}
	e.Value(v)
	d.buffer = e.data
	sum := sha256.Sum256(e.data)
	return string(sum[:]), e.err
}
