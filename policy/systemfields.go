package policy

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"

	"github.com/preadmit/preadmit/render"
)

// SystemFields is a Validator that finds nothing. It gives the validators after it objects with the
// metadata that the API server sets before it calls them (FillObjectMetaSystemFields of
// k8s.io/apiserver/pkg/registry/rest, and the storage for a version). What a policy says of the values
// themselves is undecided, since only the cluster knows them.
type SystemFields struct{ named map[string]bool }

// systemFields are two values of each field, which have nothing in common. The first are also those of
// objects that controllers create, so that otherMade replaces them.
var systemFields = map[string][2]any{
	"uid":               {podUID, otherUID},
	"creationTimestamp": {longAgo, farAhead},
	"resourceVersion":   {"1", "4294967296"},
	"managedFields":     {managedBy("a", longAgo), managedBy("b", farAhead)},
	"generation":        {int64(0), int64(1) << 40}, // more than the first, on an update
}

func managedBy(manager, time string) []any {
	return []any{map[string]any{
		"manager": manager, "operation": "Update", "apiVersion": "v1", "time": time, "fieldsType": "FieldsV1", "fieldsV1": map[string]any{},
	}}
}

var systemField = regexp.MustCompile(`\b(?:uid|creationTimestamp|resourceVersion|managedFields|generation)\b`)

// NewSystemFields returns the validator for the fields that policies name, or nil if they name none. To
// evaluate a policy costs twice as much with it.
func NewSystemFields(policies []*render.Object) *SystemFields {
	s := &SystemFields{named: make(map[string]bool)}
	for _, p := range policies {
		spec, _ := json.Marshal(p.Object["spec"]) // it was read as YAML, so it has no other values
		for _, name := range systemField.FindAllString(string(spec), -1) {
			s.named[name] = true
		}
	}
	if len(s.named) == 0 {
		return nil
	}
	return s
}

// Validate implements Validator.
func (s *SystemFields) Validate(_ context.Context, req *Request) ([]Result, error) {
	s.Prepare(req)
	return nil, nil
}

// Rules implements Validator.
func (*SystemFields) Rules() []Rule { return nil }

// Prepare implements Preparer.
func (s *SystemFields) Prepare(req *Request) {
	if req.SubResource == "" {
		p := s.set(req, 0)
		p.Other, p.Differs = s.set(req, 1), "depends on metadata that the API server sets, such as its uid and its times"
		req.Prepare(p)
	}
}

// set returns the objects of a request with the first or the second values.
func (s *SystemFields) set(req *Request, which int) *Prepared {
	with := func(o map[string]any) map[string]any {
		metadata, ok := o["metadata"].(map[string]any)
		if !ok {
			return o
		}
		metadata = maps.Clone(metadata)
		for name := range s.named {
			value := systemFields[name][which]
			switch more, counts := value.(int64); {
			case name == "resourceVersion" && req.Operation == Create:
			case !counts:
				metadata[name] = value
			case req.Operation != Create:
				if n, ok := metadata[name].(int64); ok {
					metadata[name] = n + more
				}
			}
		}
		o = maps.Clone(o)
		o["metadata"] = metadata
		return o
	}
	return &Prepared{Admitted: with(req.Admitted), OldAdmitted: with(req.OldAdmitted)}
}
