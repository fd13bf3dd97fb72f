package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// requestOf is what gator asks about an object: the object alone, without an
// operation and a user, or the request of an AdmissionReview.
func (g *gatorSuite) requestOf(o *render.Object) (*GatorRequest, error) {
	gvk := o.GroupVersionKind()
	if gvk.Kind == "AdmissionReview" && gvk.Group == "admission.k8s.io" {
		return g.reviewOf(o)
	}
	return &GatorRequest{Request: &policy.Request{
		Object: o, Admitted: o.Object,
		Kind: gvk, Resource: g.kinds.Resource(gvk), Namespace: o.GetNamespace(), Name: o.GetName(),
	}}, nil
}

// reviewOf takes the request of an AdmissionReview, of either version. Fields
// that one does not have are errors, as gator has it.
func (g *gatorSuite) reviewOf(o *render.Object) (*GatorRequest, error) {
	var review admissionv1.AdmissionReview
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &review, true); err != nil {
		return nil, fmt.Errorf("is no AdmissionReview: %s", bounded(err))
	}
	r := review.Request
	if r == nil {
		return nil, errors.New("is an AdmissionReview without a request")
	}
	req := &policy.Request{
		Operation: policy.Operation(r.Operation), SubResource: r.SubResource, DryRun: r.DryRun != nil && *r.DryRun,
		UserInfo: policy.UserInfo{Username: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups},
		Kind:     schema.GroupVersionKind(r.Kind), Namespace: r.Namespace, Name: r.Name,
	}
	for k, v := range r.UserInfo.Extra {
		if req.UserInfo.Extra == nil {
			req.UserInfo.Extra = make(map[string][]string)
		}
		req.UserInfo.Extra[k] = v
	}
	var err error
	if req.Object, err = reviewed(o, "object"); err != nil {
		return nil, err
	}
	if req.OldObject, err = reviewed(o, "oldObject"); err != nil {
		return nil, err
	}
	switch {
	case req.Subject() == nil:
		return nil, errors.New("is an AdmissionReview with neither an object nor an oldObject")
	case req.Operation == policy.Delete && req.OldObject == nil:
		return nil, errors.New("is an AdmissionReview of a DELETE without an oldObject")
	}
	if req.Object != nil {
		req.Admitted = req.Object.Object
	}
	if req.OldObject != nil {
		req.OldAdmitted = req.OldObject.Object
	}
	req.Resource = policy.Resource{GroupVersionResource: schema.GroupVersionResource(r.Resource), Namespaced: r.Namespace != "", Known: true}
	raw, err := plainReview(r)
	return &GatorRequest{Request: req, Review: raw}, err
}

// reviewed is the object of a review's request; nil when it has none.
func reviewed(o *render.Object, field string) (*render.Object, error) {
	request, _ := o.Object["request"].(map[string]any)
	v := request[field]
	if v == nil {
		return nil, nil
	}
	var at *render.Positions
	if p, ok := o.Provenance.(*render.Positions); ok {
		at = p.Sub(render.Pointer("request", field))
	}
	object, err := objectOf(v, at)
	if err != nil {
		return nil, fmt.Errorf("its request's %s %w", field, err)
	}
	return object, nil
}

// plainReview is a request with every field that the API server sends.
func plainReview(r *admissionv1.AdmissionRequest) (map[string]any, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("is no AdmissionReview: %s", bounded(err))
	}
	docs, err := render.Documents("request.json", data, render.YAML12)
	if err != nil || len(docs) != 1 {
		return nil, errors.New("is an AdmissionReview whose request is not JSON")
	}
	m, _ := docs[0].Value.(map[string]any)
	return m, nil
}

// bounded is the first line of an error, cut.
func bounded(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	if len(text) > 512 {
		text = strings.ToValidUTF8(text[:512], "") + "…"
	}
	return text
}
