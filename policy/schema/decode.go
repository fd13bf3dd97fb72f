package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serverjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kubernetes/pkg/apis/autoscaling"

	"github.com/preadmit/preadmit/policy/schema/internal/apiserver"
	"github.com/preadmit/preadmit/render"
)

// A goType is a kind's Go type with its decoding and conversion. It is safe for
// concurrent use.
type goType struct {
	gvk   schema.GroupVersionKind
	typ   reflect.Type
	shape *shape
	older *adapter
}

// newGoType returns the type of a kind, or nil if Kubernetes no longer has it.
func (s *server) newGoType(gvk schema.GroupVersionKind) *goType {
	typ := typeOf(gvk)
	if typ == nil {
		return nil
	}
	return &goType{gvk: gvk, typ: typ, shape: shapeOf(typ), older: s.newAdapter(gvk)}
}

// typeOf returns the Go type of a kind.
func typeOf(gvk schema.GroupVersionKind) reflect.Type {
	object, err := apiserver.Scheme(gvk.Group).New(gvk)
	if err != nil {
		return nil
	}
	return reflect.TypeOf(object).Elem()
}

// decode converts a value tree to a pointer to a typed object. If the API server
// would refuse the tree, the error is a *policy.FieldError with its message.
func (g *goType) decode(object map[string]any) (runtime.Object, error) {
	faults := g.shape.faults(object)
	if faults.hostile != nil {
		return nil, faults.hostile
	}
	typed, err := g.typed(object, faults.first)
	if err != nil {
		return nil, err
	}
	return typed, refuse(typed)
}

// typed decodes an object whose quantities are harmless. fault is the pointer
// of the first value of a wrong type, or "".
func (g *goType) typed(object map[string]any, fault string) (runtime.Object, error) {
	if fault == "" {
		if typed, err := g.fromTree(object); err == nil {
			return typed, nil
		}
	}
	typed := g.new()
	// The API server's decoder decides whether something is wrong, and words
	// the error.
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if err := serverjson.Unmarshal(data, typed); err != nil {
		return nil, fieldError(short(err), fault)
	}
	return typed, nil
}

// short limits the length of an error that quotes its input.
func short(err error) error {
	const limit = 1000
	if text := err.Error(); len(text) > limit {
		return fmt.Errorf("%s…", text[:limit])
	}
	return err
}

func (g *goType) new() runtime.Object { return reflect.New(g.typ).Interface().(runtime.Object) }

// fromTree converts a value tree to a typed object.
func (g *goType) fromTree(object map[string]any) (runtime.Object, error) {
	typed := g.new()
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(object, typed)
}

// complete sets the defaults of a release in a decoded object, and what plugins set, and returns
// it as the API server holds it. If the server can't convert a definition, it stays as it is, and its
// validation reports why.
func (g *goType) complete(r release, typed runtime.Object, namespace string, plugins *apiserver.Plugins) (runtime.Object, error) {
	completed, err := apiserver.Complete(int(r), g.gvk, typed, namespace, plugins)
	if err == nil {
		return completed, nil
	}
	if g.gvk.Group == "apiextensions.k8s.io" {
		return typed, nil
	}
	return nil, fieldError(short(err), annotationOf(typed, err.Error()))
}

// annotationOf returns the pointer of the annotation that an error of conversion is about:
// some hold fields of the internal types.
func annotationOf(typed runtime.Object, text string) string {
	m, ok := typed.(metav1.Object)
	if !ok {
		return ""
	}
	for key, value := range m.GetAnnotations() {
		if strings.Contains(text, key) || strings.Contains(text, strconv.Quote(value)) {
			return render.Pointer("metadata", "annotations", key)
		}
	}
	return ""
}

// autoscalerShapes are the shapes of annotations that autoscaling/v1 converts to fields.
var autoscalerShapes = sync.OnceValue(func() map[string]*shape {
	return map[string]*shape{
		autoscaling.MetricSpecsAnnotation:    shapeOf(reflect.TypeFor[[]autoscalingv1.MetricSpec]()),
		autoscaling.BehaviorSpecsAnnotation:  shapeOf(reflect.TypeFor[autoscaling.HorizontalPodAutoscalerBehavior]()),
		autoscaling.MetricStatusesAnnotation: shapeOf(reflect.TypeFor[[]autoscalingv1.MetricStatus]()),
	}
})

// refuse returns the error about a quantity in an annotation that is too costly to
// parse.
func refuse(typed runtime.Object) error {
	h, ok := typed.(*autoscalingv1.HorizontalPodAutoscaler)
	if !ok || len(h.Annotations) == 0 {
		return nil
	}
	for key, shape := range autoscalerShapes() {
		var value any
		if json.Unmarshal([]byte(h.Annotations[key]), &value) != nil {
			continue
		}
		f := &faults{}
		if f.check(shape, value); f.hostile != nil {
			return fieldError(f.hostile, render.Pointer("metadata", "annotations", key))
		}
	}
	return nil
}
