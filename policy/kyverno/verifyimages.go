package kyverno

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/preadmit/preadmit/policy/internal/kyvernodoc"
	"github.com/preadmit/preadmit/policy/internal/pattern"
)

// verifies is the phase of verifyImages rules. Signatures and attestations need
// a registry and keys, so only checks of the object itself are decided here.
var verifies = phase{
	concerns: func(r *Rule) bool { return len(r.VerifyImages) > 0 },
	run: func(x *run) []Response {
		if x.review.object == nil {
			return nil
		}
		s := x.review.scopeOf(x.program.rule, x.program.entries)
		if v, _ := x.admits(s); v != nil {
			return []Response{x.response(v)}
		}
		if v := x.evaluateImages(s); v != nil || len(x.review.questions) > 0 {
			if v == nil {
				v = &verdict{}
			}
			return []Response{x.response(v)}
		}
		return nil
	},
}

// evaluateImages evaluates the entries in order and returns the first verdict
// that is not a pass. It returns nil if no entry matches an image.
func (r *run) evaluateImages(s *scope) *verdict {
	images, _, err := s.Lookup("images")
	if err != nil {
		return broken("failed to extract images", err)
	}
	groups, _ := images.(map[string]any)
	var result *verdict
	for _, entry := range r.program.rule.VerifyImages {
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			in, _ := groups[group].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(in)) {
				image, _ := in[name].(map[string]any)
				v := r.evaluateImage(entry, image)
				r.review.trace.image(entry, image, v)
				switch {
				case v == nil:
				case v.status != StatusPass && v.status != StatusSkip:
					return v
				case result == nil || result.status == StatusSkip:
					result = v
				}
			}
		}
	}
	return result
}

func (r *run) evaluateImage(entry *kyvernodoc.VerifyImages, image map[string]any) *verdict {
	ref, _ := image["reference"].(string)
	at, _ := image["jsonPointer"].(string)
	if !pattern.AnyWildcard(entry.ImageReferences, ref) {
		return nil
	}
	if pattern.AnyWildcard(entry.SkipImageReferences, ref) {
		return &verdict{status: StatusSkip, message: "skipping image verification since image reference " + ref + " is skipped"}
	}
	digest, _ := image["digest"].(string)
	verified := r.verified(ref)
	switch {
	case entry.VerifyDigest && digest == "" && (!entry.MutateDigest || r.review.engine.options.CLI):
		return &verdict{status: StatusFail, message: "missing digest for " + ref, fields: []string{at}}
	case entry.MutateDigest && digest == "" && !r.review.engine.options.CLI:
		return r.unverifiable(fmt.Sprintf("image %s: its digest is in the registry", ref))
	case entry.Attestors+entry.Attestations > 0 && !verified:
		return r.unverifiable("image " + ref)
	case entry.Required && !verified:
		return &verdict{status: StatusFail, message: "unverified image " + ref, fields: []string{at}}
	}
	return &verdict{status: StatusPass, message: "image verified"}
}

const verifiedAnnotation = "kyverno.io/verify-images"

// verified reports whether the object's annotation records that an image was
// verified. In a cluster Kyverno alone writes it, so the annotation in a
// manifest does not count.
func (r *run) verified(ref string) bool {
	if !r.review.engine.options.CLI {
		return false
	}
	v, _ := lookup(r.review.object, "metadata", "annotations", verifiedAnnotation)
	text, _ := v.(string)
	var all map[string]any
	if json.Unmarshal([]byte(text), &all) != nil {
		return false
	}
	for name, state := range all {
		if pattern.Wildcard(name, ref) && (state == "pass" || state == true) {
			return true
		}
	}
	return false
}
