package apiserver

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
