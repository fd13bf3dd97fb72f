package schema

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
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
	// JSON may write a byte of a text as six, such as \u0001. For all else it has fewer bytes than weigh counts.
	if req.Maker != nil || 6*weigh(req.Admitted) < maxStored-spare {
		return nil
	}
	size, ok := stored(req, typ)
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
func stored(req *policy.Request, typ *goType) (size int, ok bool) {
	object := maps.Clone(req.Admitted)
	delete(object, "status")
	data, err := json.Marshal(object)
	switch {
	case err != nil || len(data) <= maxStored-spare: // other forms are smaller
		return len(data), err == nil
	case isDefinition(req.Kind):
		return storedDefinition(object)
	case typ == nil:
		return len(data), true
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

// storedDefinition returns the bytes of a definition, which is stored as v1beta1. There versions that have the same schema
// share it (pkg/controlplane/apiserver/apiextensions.go of k8s.io/kubernetes).
func storedDefinition(object map[string]any) (size int, ok bool) {
	var given apiextensionsv1.CustomResourceDefinition
	var internal apiextensions.CustomResourceDefinition
	var held apiextensionsv1beta1.CustomResourceDefinition
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &given) != nil ||
		apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&given, &internal, nil) != nil ||
		apiextensionsv1beta1.Convert_apiextensions_CustomResourceDefinition_To_v1beta1_CustomResourceDefinition(&internal, &held, nil) != nil {
		return 0, false
	}
	data, err := json.Marshal(held)
	return len(data), err == nil
}

// managed estimates the bytes of managedFields after server-side apply: each field's name stands there.
func managed(object map[string]any) (size int) {
	for key := range render.Values(object) {
		size += len(`"f:":{},`) + len(key)
	}
	return size
}
