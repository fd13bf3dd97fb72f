package policytest

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/preadmit/preadmit/render"
)

// A gatorReview is the request of an AdmissionReview.
type gatorReview struct {
	operation string
	subject   *render.Object // the object, or the old one where there is none
	typed     *render.Object // the review as gator passes it on, without empty fields
}

// isReview reports whether an object is an AdmissionReview, of whatever version.
func isReview(o *render.Object) bool {
	gvk := o.GroupVersionKind()
	return gvk.Kind == "AdmissionReview" && gvk.Group == "admission.k8s.io"
}

// reviewOf parses an AdmissionReview as strictly as gator does: unknown fields
// are errors.
func reviewOf(o *render.Object) (*gatorReview, error) {
	var review admissionv1.AdmissionReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &review, true); err != nil {
		return nil, fmt.Errorf("is not an AdmissionReview: %s", bounded(err))
	}
	if review.Request == nil {
		return nil, errors.New("is an AdmissionReview without a request")
	}
	object, err := reviewed(o, "object")
	if err != nil {
		return nil, err
	}
	old, err := reviewed(o, "oldObject")
	if err != nil {
		return nil, err
	}
	r := &gatorReview{operation: string(review.Request.Operation), subject: object}
	if object == nil {
		r.subject = old
	}
	switch {
	case r.subject == nil:
		return nil, errors.New("is an AdmissionReview with neither an object nor an oldObject")
	case r.operation == string(admissionv1.Delete) && old == nil:
		return nil, errors.New("is an AdmissionReview of a DELETE without an oldObject")
	}
	r.typed, err = typedReview(o, review.Request)
	return r, err
}

// typedReview returns the review with its request re-encoded from the Go type.
func typedReview(o *render.Object, request *admissionv1.AdmissionRequest) (*render.Object, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("is not an AdmissionReview: %s", bounded(err))
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, fmt.Errorf("is not an AdmissionReview: %s", bounded(err))
	}
	typed := *o
	typed.Unstructured = &unstructured.Unstructured{Object: maps.Clone(o.Object)}
	typed.Object["request"] = tree
	return &typed, nil
}

// reviewed returns an object of a review's request, or nil.
func reviewed(o *render.Object, field string) (*render.Object, error) {
	request, _ := o.Object["request"].(map[string]any)
	v := request[field]
	if v == nil {
		return nil, nil
	}
	object, err := objectOf(v, nil)
	if err != nil {
		return nil, fmt.Errorf("its request's %s %w", field, err)
	}
	return object, nil
}

// bounded returns the first line of an error, cut to a limit.
func bounded(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return render.Cut(text, 512)
}
