package schema

import (
	"fmt"
	"reflect"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	flowcontrolv1beta3 "k8s.io/api/flowcontrol/v1beta3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
)

// Equivalent returns the other resources that the API server serves from the
// same storage. For built-in resources these are the other versions that are on
// by default, and for events the other of their two groups
// (AddCohabitatingResources in pkg/kubeapiserver).
func (k *Kinds) Equivalent(gvr schema.GroupVersionResource) []policy.Version {
	if found, builtin := k.equivalents()[gvr]; builtin {
		return found
	}
	return k.equivalentCustoms(gvr)
}

// newEquivalents returns the equivalents of every built-in resource.
func (s *server) newEquivalents() map[schema.GroupVersionResource][]policy.Version {
	kept := make(map[schema.GroupResource][]policy.Version)
	for _, b := range s.sortedKinds((*builtin).byDefault) {
		storage := storageOf(b.gvr().GroupResource())
		kept[storage] = append(kept[storage], policy.Version{Resource: b.gvr(), Kind: b.gvk})
	}
	all := make(map[schema.GroupVersionResource][]policy.Version, len(s.byName))
	for gvr := range s.byName {
		all[gvr] = nil
		for _, v := range kept[storageOf(gvr.GroupResource())] {
			if v.Resource != gvr {
				all[gvr] = append(all[gvr], v)
			}
		}
	}
	return all
}

// storageOf returns the resource under which the objects of a resource are
// stored.
func storageOf(gr schema.GroupResource) schema.GroupResource {
	if gr == (schema.GroupResource{Group: "events.k8s.io", Resource: "events"}) {
		return schema.GroupResource{Resource: "events"}
	}
	return gr
}

// Convert returns an admitted object in another version of its kind, as the API
// server converts it for a policy that names that version. It fails if the API
// server would call a conversion webhook, or if the conversion is not known
// here.
func (k *Kinds) Convert(admitted map[string]any, to schema.GroupVersionKind) (map[string]any, error) {
	apiVersion, _ := admitted["apiVersion"].(string)
	kind, _ := admitted["kind"].(string)
	from := policy.ParseGroupVersion(apiVersion).WithKind(kind)
	if from == to {
		return runtime.DeepCopyJSON(admitted), nil
	}
	if c := k.customs[from.GroupKind()]; c != nil && to.GroupKind() == from.GroupKind() {
		return c.convert(admitted, from, to)
	}
	a, b := k.builtins[from], k.builtins[to]
	if a == nil || b == nil || storageOf(a.gvr().GroupResource()) != storageOf(b.gvr().GroupResource()) {
		return nil, fmt.Errorf("%s %s is not another version of %s %s", to.GroupVersion(), to.Kind, from.GroupVersion(), from.Kind)
	}
	return convertBuiltin(a, b, admitted)
}

// convertBuiltin converts by types where they differ, and by the name of the
// version where they don't.
func convertBuiltin(from, to *builtin, admitted map[string]any) (map[string]any, error) {
	a, b := from.goType(), to.goType()
	if a == nil || b == nil {
		return nil, cantConvert(from.gvk, to.gvk)
	}
	if sameShape(a.typ, b.typ, map[[2]reflect.Type]bool{}) {
		converted := runtime.DeepCopyJSON(admitted)
		converted["apiVersion"] = to.gvk.GroupVersion().String()
		return converted, nil
	}
	if from.resource == "prioritylevelconfigurations" {
		return priorityLevel(admitted, to.gvk.GroupVersion().String()), nil
	}
	typed, err := a.decode(admitted)
	if err != nil {
		return nil, err
	}
	converted := convertTyped(typed)
	if reflect.TypeOf(converted) != reflect.PointerTo(b.typ) {
		return nil, cantConvert(from.gvk, to.gvk)
	}
	tree, err := b.toTree(converted)
	if err != nil {
		return nil, err
	}
	b.older.adapt(tree)
	return tree, nil
}

func cantConvert(from, to schema.GroupVersionKind) error {
	return fmt.Errorf("%s %s can't be converted to %s offline", from.GroupVersion(), from.Kind, to.GroupVersion())
}

// convertTyped converts an object between the two served versions of its kind,
// in either direction. It is for kinds whose versions have different fields.
func convertTyped(typed any) any {
	switch o := typed.(type) {
	case *autoscalingv1.HorizontalPodAutoscaler:
		return hpaV2(o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		return hpaV1(o)
	case *corev1.Event:
		return eventsEvent(o)
	case *eventsv1.Event:
		return coreEvent(o)
	default:
		return nil
	}
}

// sameShape reports whether two types have the same fields of the same types,
// names of types aside.
func sameShape(a, b reflect.Type, seen map[[2]reflect.Type]bool) bool {
	if a == b || seen[[2]reflect.Type{a, b}] {
		return true
	}
	seen[[2]reflect.Type{a, b}] = true
	if a.Kind() != b.Kind() {
		return false
	}
	switch a.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return sameShape(a.Elem(), b.Elem(), seen)
	case reflect.Struct:
		return slices.EqualFunc(fieldsOf(a), fieldsOf(b), func(x, y field) bool {
			return x.name == y.name && sameShape(x.typ, y.typ, seen)
		})
	default:
		return true
	}
}

func eventsEvent(in *corev1.Event) *eventsv1.Event {
	out := &eventsv1.Event{
		TypeMeta: in.TypeMeta, ObjectMeta: in.ObjectMeta, EventTime: in.EventTime,
		ReportingController: in.ReportingController, ReportingInstance: in.ReportingInstance,
		Action: in.Action, Reason: in.Reason, Regarding: in.InvolvedObject, Related: in.Related, Note: in.Message, Type: in.Type,
		DeprecatedSource: in.Source, DeprecatedFirstTimestamp: in.FirstTimestamp,
		DeprecatedLastTimestamp: in.LastTimestamp, DeprecatedCount: in.Count,
	}
	if in.Series != nil {
		out.Series = &eventsv1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
	out.APIVersion = eventsv1.SchemeGroupVersion.String()
	return out
}

func coreEvent(in *eventsv1.Event) *corev1.Event {
	out := &corev1.Event{
		TypeMeta: in.TypeMeta, ObjectMeta: in.ObjectMeta, EventTime: in.EventTime,
		ReportingController: in.ReportingController, ReportingInstance: in.ReportingInstance,
		Action: in.Action, Reason: in.Reason, InvolvedObject: in.Regarding, Related: in.Related, Message: in.Note, Type: in.Type,
		Source: in.DeprecatedSource, FirstTimestamp: in.DeprecatedFirstTimestamp,
		LastTimestamp: in.DeprecatedLastTimestamp, Count: in.DeprecatedCount,
	}
	if in.Series != nil {
		out.Series = &corev1.EventSeries{Count: in.Series.Count, LastObservedTime: in.Series.LastObservedTime}
	}
	out.APIVersion = corev1.SchemeGroupVersion.String()
	return out
}

// priorityLevel converts a PriorityLevelConfiguration between v1beta3 and v1.
// They differ in the shares of a limited level: in v1beta3 zero means 30, and
// an annotation marks a real zero.
func priorityLevel(admitted map[string]any, apiVersion string) map[string]any {
	const zeroMeant = flowcontrolv1beta3.PriorityLevelPreserveZeroConcurrencySharesKey
	converted := unstructured.Unstructured{Object: runtime.DeepCopyJSON(admitted)}
	converted.SetAPIVersion(apiVersion)
	annotations := converted.GetAnnotations()
	delete(annotations, zeroMeant)
	limited, ok, _ := unstructured.NestedMap(converted.Object, "spec", "limited")
	if shares, _ := limited["nominalConcurrencyShares"].(int64); ok && shares == 0 {
		if apiVersion == flowcontrolv1beta3.SchemeGroupVersion.String() {
			annotations = with(annotations, zeroMeant)
		}
		_ = unstructured.SetNestedField(converted.Object, int64(0), "spec", "limited", "nominalConcurrencyShares")
	}
	converted.SetAnnotations(annotations)
	return converted.Object
}

func with(annotations map[string]string, key string) map[string]string {
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = ""
	return annotations
}
