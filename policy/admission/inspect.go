package admission

import (
	"strings"

	"k8s.io/api/admissionregistration/v1alpha1"
	"k8s.io/api/admissionregistration/v1beta1"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

var (
	_ policy.Inspector = (*Engine)(nil)
	_ policy.Inspector = (*Mutating)(nil)
)

// Inspect implements policy.Inspector.
func (m *Mutating) Inspect() []policy.Result { return m.engine.Inspect() }

// Inspect implements policy.Inspector. It finds constant expressions, missing
// parameters, and versions of the policy API that are no longer served.
func (e *Engine) Inspect() []policy.Result {
	var all []policy.Result
	for _, b := range e.policies {
		if b.object.Span("").File == "" {
			continue // of a pack
		}
		all = append(all, b.names.Constants(b.policy.Name, b.variables, b.conditions, b.validations)...)
		for _, bind := range b.bindings {
			all = append(all, e.parameter(b, bind)...)
		}
		all = append(all, oldVersion(b.object)...)
		for _, bind := range b.bindings {
			if bind.object != nil {
				all = append(all, oldVersion(bind.object)...)
			}
		}
	}
	return all
}

// parameter returns a finding if a binding names a parameter that does not
// exist.
func (e *Engine) parameter(b *bound, bind *binding) []policy.Result {
	kind, ref := b.policy.Spec.ParamKind, bind.paramRef
	if kind == nil || ref == nil || bind.object == nil || ref.Name == "" {
		return nil
	}
	var names []string
	for _, o := range e.options.Cluster.List(policy.ParseGroupVersion(kind.APIVersion).WithKind(kind.Kind).GroupKind()) {
		switch {
		case o.GetName() == ref.Name && (ref.Namespace == "" || ref.Namespace == o.EffectiveNamespace() || o.GetNamespace() == ""):
			return nil
		case o.GetName() == ref.Name:
			names = append(names, o.EffectiveNamespace()+"/"+o.GetName())
		default:
			names = append(names, o.GetName())
		}
	}
	name := ref.Name
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + name
	}
	r := policy.NewFinding(policy.NoParameter, b.policy.Name, bind.object.Span("/spec/paramRef/name"), "binding %s of %s: there is no %s %s", bind.name, b.policy.Name, kind.Kind, name)
	if meant := render.DidYouMean(ref.Name, names); meant != "" {
		r.Message += "; " + meant
	}
	return []policy.Result{r}
}

// A lifecycle names the releases in which a version of the API was deprecated
// and removed.
type lifecycle interface {
	APILifecycleDeprecated() (major, minor int)
	APILifecycleRemoved() (major, minor int)
}

// oldVersions lists the versions of the policy API before v1.
var oldVersions = map[string]lifecycle{
	"ValidatingAdmissionPolicy v1alpha1": &v1alpha1.ValidatingAdmissionPolicy{},
	"ValidatingAdmissionPolicy v1beta1":  &v1beta1.ValidatingAdmissionPolicy{},
	"MutatingAdmissionPolicy v1alpha1":   &v1alpha1.MutatingAdmissionPolicy{},
	"MutatingAdmissionPolicy v1beta1":    &v1beta1.MutatingAdmissionPolicy{},
}

func oldVersion(o *render.Object) []policy.Result {
	gvk := o.GroupVersionKind()
	old, ok := oldVersions[strings.TrimSuffix(gvk.Kind, "Binding")+" "+gvk.Version]
	if !ok {
		return nil
	}
	_, deprecated := old.APILifecycleDeprecated()
	_, removed := old.APILifecycleRemoved()
	return []policy.Result{policy.NewFinding(policy.Deprecated, o.GetName(), o.Span("/apiVersion"),
		"%s %s is of %s, which is deprecated since Kubernetes 1.%d and not served from 1.%d: use %s/v1", gvk.Kind, o.GetName(), gvk.GroupVersion(), deprecated, removed, gvk.Group)}
}
