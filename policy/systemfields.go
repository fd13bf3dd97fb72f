package policy

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"

	"github.com/preadmit/preadmit/render"
)

// SystemFields sets the metadata that the API server sets (FillObjectMetaSystemFields of
// k8s.io/apiserver/pkg/registry/rest, and the version and generation of an object that exists) for the validators
// after it. Only the cluster knows the values, so a rule whose verdict is not the same for several is undecided.
type SystemFields struct{ named map[string]bool }

// systemFields holds three values of each field. The last one of creationTimestamp is no time, so a rule that reads it
// as one fails. The first ones are replaced by otherMade in objects that controllers create. Numbers are added to the
// generation that the object has.
var systemFields = map[string][3]any{
	"uid":               {podUID, otherUID, otherUID},
	"creationTimestamp": {firstTime, lastTime, "unknown"},
	"resourceVersion":   {"1", "4294967296", "4294967296"},
	"generation":        {int64(0), int64(1) << 40, int64(1) << 40},
}

var systemField = regexp.MustCompile(`\b(?:uid|creationTimestamp|resourceVersion|generation)\b`)

// NewSystemFields returns the validator for the fields that the policies name anywhere, or nil if they name none.
// With it, all policies are evaluated two or three times.
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
	if req.SubResource != "" {
		return
	}
	last := 1
	if s.named["creationTimestamp"] {
		last = 2
	}
	var p *Prepared
	for which := last; which >= 0; which-- {
		other := p
		p = s.set(req, which)
		p.Other, p.Differs = other, "depends on metadata that the API server sets, such as its uid and its times"
	}
	req.Prepare(p)
}

// set returns the objects of a request with the values of an index.
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
	return &Prepared{Admitted: with(req.Admitted), OldAdmitted: with(req.OldAdmitted), Typed: req.Typed}
}
