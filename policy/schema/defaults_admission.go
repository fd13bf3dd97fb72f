package schema

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1alpha1 "k8s.io/api/admissionregistration/v1alpha1"
	admissionv1beta1 "k8s.io/api/admissionregistration/v1beta1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const httpsPort = 443

// admissionDefaults lists the defaults of webhook configurations, admission
// policies and other extensions of the API server.
var admissionDefaults = []rule{
	on(func(_ release, w *admissionv1.ValidatingWebhook) {
		fillPtr(&w.FailurePolicy, admissionv1.Fail)
		fillPtr(&w.MatchPolicy, admissionv1.Equivalent)
		selectors(&w.NamespaceSelector, &w.ObjectSelector)
		fillPtr(&w.TimeoutSeconds, 10)
	}),
	on(func(_ release, w *admissionv1.MutatingWebhook) {
		fillPtr(&w.FailurePolicy, admissionv1.Fail)
		fillPtr(&w.MatchPolicy, admissionv1.Equivalent)
		selectors(&w.NamespaceSelector, &w.ObjectSelector)
		fillPtr(&w.TimeoutSeconds, 10)
		fillPtr(&w.ReinvocationPolicy, admissionv1.NeverReinvocationPolicy)
	}),
	on(func(_ release, r *admissionv1.Rule) { fillPtr(&r.Scope, admissionv1.AllScopes) }),
	on(func(_ release, s *admissionv1.ServiceReference) { fillPtr(&s.Port, httpsPort) }),
	on(func(_ release, s *admissionv1.ValidatingAdmissionPolicySpec) {
		fillPtr(&s.FailurePolicy, admissionv1.Fail)
	}),
	on(func(_ release, s *admissionv1.MutatingAdmissionPolicySpec) {
		fillPtr(&s.FailurePolicy, admissionv1.Fail)
	}),
	on(func(_ release, m *admissionv1.MatchResources) {
		fillPtr(&m.MatchPolicy, admissionv1.Equivalent)
		selectors(&m.NamespaceSelector, &m.ObjectSelector)
	}),
	on(func(_ release, s *admissionv1beta1.ValidatingAdmissionPolicySpec) {
		fillPtr(&s.FailurePolicy, admissionv1beta1.Fail)
	}),
	on(func(_ release, s *admissionv1beta1.MutatingAdmissionPolicySpec) {
		fillPtr(&s.FailurePolicy, admissionv1beta1.Fail)
	}),
	on(func(_ release, m *admissionv1beta1.MatchResources) {
		fillPtr(&m.MatchPolicy, admissionv1beta1.Equivalent)
		selectors(&m.NamespaceSelector, &m.ObjectSelector)
	}),
	on(func(_ release, s *admissionv1alpha1.ValidatingAdmissionPolicySpec) {
		fillPtr(&s.FailurePolicy, admissionv1alpha1.Fail)
	}),
	on(func(_ release, s *admissionv1alpha1.MutatingAdmissionPolicySpec) {
		fillPtr(&s.FailurePolicy, admissionv1alpha1.Fail)
	}),
	on(func(_ release, p *admissionv1alpha1.ParamRef) {
		fillPtr(&p.ParameterNotFoundAction, admissionv1alpha1.DenyAction)
	}),
	on(func(_ release, m *admissionv1alpha1.MatchResources) {
		fillPtr(&m.MatchPolicy, admissionv1alpha1.Equivalent)
		selectors(&m.NamespaceSelector, &m.ObjectSelector)
	}),
	on(func(_ release, d *apiextensionsv1.CustomResourceDefinition) {
		apiextensionsv1.SetDefaults_CustomResourceDefinition(d)
	}),
	on(func(_ release, s *apiextensionsv1.ServiceReference) { fillPtr(&s.Port, httpsPort) }),
}

func selectors(namespaces, objects **metav1.LabelSelector) {
	fillPtr(namespaces, metav1.LabelSelector{})
	fillPtr(objects, metav1.LabelSelector{})
}
