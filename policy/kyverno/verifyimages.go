package kyverno

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/preadmit/preadmit/policy/internal/pattern"
	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
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
		images, err := x.matchingImages(s)
		switch {
		case err != nil:
			return []Response{x.response(broken("failed to extract images", err))}
		case len(images) == 0:
			return nil
		}
		v, _ := x.admits(s)
		if v == nil {
			v = x.evaluateImages(images)
		}
		return []Response{x.response(v)}
	},
}

// An imageMatch is an image of the object that an entry of verifyImages names.
type imageMatch struct {
	entry *document.VerifyImages
	image map[string]any
}

// matchingImages returns the images that the entries name, in the order of the
// entries.
func (r *run) matchingImages(s *scope) ([]imageMatch, error) {
	images, _, err := s.Lookup("images")
	if err != nil {
		return nil, err
	}
	groups, _ := images.(map[string]any)
	var found []imageMatch
	for _, entry := range r.program.rule.VerifyImages {
		for _, group := range slices.Sorted(maps.Keys(groups)) {
			in, _ := groups[group].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(in)) {
				image, _ := in[name].(map[string]any)
				if ref, _ := image["reference"].(string); pattern.AnyWildcard(entry.ImageReferences, ref) {
					found = append(found, imageMatch{entry, image})
				} else {
					r.review.trace.image(entry, image, nil)
				}
			}
		}
	}
	return found, nil
}

// evaluateImages evaluates the images in order and returns the first verdict
// that is neither a pass nor a skip.
func (r *run) evaluateImages(images []imageMatch) *verdict {
	var result *verdict
	for _, m := range images {
		v := r.evaluateImage(m.entry, m.image)
		r.review.trace.image(m.entry, m.image, v)
		switch {
		case v.status != StatusPass && v.status != StatusSkip:
			return v
		case result == nil || result.status == StatusSkip:
			result = v
		}
	}
	return result
}

func (r *run) evaluateImage(entry *document.VerifyImages, image map[string]any) *verdict {
	ref, _ := image["reference"].(string)
	at, _ := image["jsonPointer"].(string)
	if pattern.AnyWildcard(entry.SkipImageReferences, ref) {
		return &verdict{status: StatusSkip, message: "skipping image verification since image reference " + ref + " is skipped"}
	}
	digest, _ := image["digest"].(string)
	verified := r.verified(ref)
	switch {
	case entry.VerifyDigest && digest == "" && (!entry.MutateDigest || r.review.engine.options.CLI):
		return &verdict{status: StatusFail, message: "missing digest for " + ref, fields: []string{at}}
	case entry.MutateDigest && digest == "" && !r.review.engine.options.CLI:
		return r.unverifiable(fmt.Sprintf("image %s: its digest is in the registry", ref), at)
	case entry.Attestors+entry.Attestations > 0 && !verified:
		return r.unverifiable("image "+ref, at)
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
