package apiserver

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
)

// TestBindingsWithParameters holds that bindings which name parameters are stored: nobody is asked
// whether the user may read these.
func TestBindingsWithParameters(t *testing.T) {
	t.Parallel()
	deny := admissionv1.DenyAction
	ref := &admissionv1.ParamRef{Name: "limits", Namespace: "platform", ParameterNotFoundAction: &deny}
	meta := metav1.ObjectMeta{Name: "binding"}
	for kind, o := range map[string]runtime.Object{
		"ValidatingAdmissionPolicyBinding": &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "p", ParamRef: ref, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}},
		"MutatingAdmissionPolicyBinding": &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.MutatingAdmissionPolicyBindingSpec{
			PolicyName: "p", ParamRef: ref,
		}},
	} {
		answer, err := Store(37, Request{Kind: admissionv1.SchemeGroupVersion.WithKind(kind), Object: o})
		if err != nil || !answer.Known || len(answer.Causes) > 0 {
			t.Errorf("%s: %+v, %v", kind, answer.Causes, err)
		}
	}
}

// TestUpdates holds which causes the replacement of an object has that the server prepared when it was created.
func TestUpdates(t *testing.T) {
	t.Parallel()
	service := func(address string) *corev1.Service {
		o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		o.Spec.ClusterIP, o.Spec.Ports = address, []corev1.ServicePort{{Port: 80}}
		return o
	}
	job := func(selector map[string]string) *batchv1.Job {
		o := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
		o.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}}}
		if selector != nil {
			o.Spec.Selector = &metav1.LabelSelector{MatchLabels: selector}
		}
		return o
	}
	for name, c := range map[string]struct {
		old, object runtime.Object
		want        []string // fields, with "warns" for those that may be stored
	}{
		"another address than the cluster's":        {service(""), service("10.96.0.7"), []string{"spec.clusterIPs[0] warns"}},
		"no address":                                {service(""), service("x"), []string{"spec.clusterIPs[0]", "spec.clusterIPs[0] warns"}},
		"no selector where the server has made one": {job(nil), job(nil), []string{"spec.selector", "spec.template", "spec.template.metadata.labels"}},
		"a label that the selector had not":         {job(nil), job(map[string]string{"a": "b"}), []string{"spec.selector", "spec.template", "spec.template.metadata.labels"}},
	} {
		for _, o := range []runtime.Object{c.old, c.object} {
			legacyscheme.Scheme.Default(o)
		}
		gvks, _, err := legacyscheme.Scheme.ObjectKinds(c.object)
		if err != nil {
			t.Fatal(err)
		}
		created, err := Store(37, Request{Kind: gvks[0], Namespace: "default", Object: c.old})
		if _, allocated := c.old.(*corev1.Service); !allocated {
			c.old = created.Object
		}
		if err != nil {
			t.Fatal(err)
		}
		answer, err := Store(37, Request{Kind: gvks[0], Namespace: "default", Object: c.object, Old: c.old})
		var got []string
		for _, cause := range answer.Causes {
			if cause.Warns {
				cause.Field += " warns"
			}
			got = append(got, cause.Field)
		}
		slices.Sort(got)
		if err != nil || !slices.Equal(slices.Compact(got), c.want) {
			t.Errorf("%s: %q, %v; want %q\n%+v", name, got, err, c.want, answer.Causes)
		}
	}
}
