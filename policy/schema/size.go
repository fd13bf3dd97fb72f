package schema

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

const (
	maxStored = 3 << 19 // bytes of a request to etcd: DefaultMaxRequestBytes in go.etcd.io/etcd/server/v3/embed
	spare     = 4 << 10 // bytes that the server adds at most: the key, the uid, times, and the envelope of etcd's request
)

// oversized returns the refusal of an object that is larger than what etcd stores. The size is the least one, so that a
// denial is certain. If the object might be too large with what the server adds, it is a warning.
func oversized(req *policy.Request, typ *goType) []policy.Result {
	// JSON has at most six bytes for one of a text, and less than weigh counts for all else.
	if req.Maker != nil || 6*weigh(req.Admitted) < maxStored-spare {
		return nil
	}
	size, ok := stored(req.Admitted, typ)
	added := spare
	if req.Method == policy.ApplyServerSide || req.Method == policy.ApplyAsData { // else the server leaves managedFields out if they are too much
		added += managed(req.Admitted)
	}
	if !ok || size+added <= maxStored {
		return nil
	}
	r := result(req.Kind, ruleTooLong, policy.Fail)
	r.Assumed = []string{"etcd runs with its default --max-request-bytes"}
	r.Message, r.Hint, r.Reason = fmt.Sprintf("etcdserver: request is too large: the object has %d bytes, %d are allowed", size, maxStored), "split it, or leave out descriptions", "InternalError"
	if size <= maxStored {
		r.Action, r.Assumed = policy.Warn, append(r.Assumed, fmt.Sprintf("the API server adds more than %d bytes to it, such as managedFields", maxStored-size))
	}
	return []policy.Result{r}
}

// stored returns the least number of bytes that the storage holds of an object: of the protocol buffer for built-in
// kinds, else of the JSON. The status is left out, since most kinds reset it.
func stored(object map[string]any, typ *goType) (size int, ok bool) {
	object = maps.Clone(object)
	delete(object, "status")
	data, err := json.Marshal(object)
	if err != nil || typ == nil || len(data) <= maxStored-spare { // a protocol buffer is smaller
		return len(data), err == nil
	}
	typed, err := typ.fromTree(object)
	if err != nil {
		return 0, false
	}
	m, ok := typed.(interface {
		runtime.Object
		Size() int
	})
	if !ok {
		return len(data), true
	}
	return m.Size(), true
}

// managed estimates the bytes of managedFields after server-side apply: each field's name stands there.
func managed(object map[string]any) (size int) {
	for key := range render.Values(object) {
		size += len(`"f:":{},`) + len(key)
	}
	return size
}
