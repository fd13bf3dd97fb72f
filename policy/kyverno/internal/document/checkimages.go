package document

import (
	"cmp"
	"slices"
)

// images checks verifyImages with its image extractors.
func (c checker) images(r *Rule, x field) {
	if len(r.ImageExtractors) > 0 && len(r.VerifyImages) == 0 {
		c.add(x.at("imageExtractors").pointer, "imageExtractors are allowed only with verifyImages")
	}
	digests := false
	for i, v := range r.VerifyImages {
		entry := x.at("verifyImages").list()[i]
		c.verify(v, entry)
		digests = digests || v.MutateDigest
	}
	for _, kind := range x.at("imageExtractors").fields() {
		for _, e := range kind.list() {
			if digests && e.text("jmesPath") != "" {
				c.add(e.at("jmesPath").pointer, "an image that a jmesPath makes can't be given its digest: set mutateDigest to false")
			}
		}
	}
}

func (c checker) verify(v *VerifyImages, x field) {
	if len(v.ImageReferences) == 0 {
		c.add(x.pointer, "%s has no imageReferences", Dotted(x.pointer))
	}
	for _, ref := range x.at("imageReferences").list() {
		c.noVariables(ref, "a variable can't be used in an image reference")
	}
	c.noVariables(x.at("image"), "a variable can't be used in an image reference")
	action := cmp.Or(v.Action, c.Action)
	if v.MutateDigest && action == actionAudit {
		c.add(x.pointer, "mutateDigest must be false if failures are only audited")
	}
	c.attestors(x.at("attestors"))
	if x.text("type") == "Notary" {
		c.notary(x.at("attestors"))
	}
	for _, a := range x.at("attestations").list() {
		c.attestors(a.at("attestors"))
		for _, block := range a.at("conditions").list() {
			reader{faults: c.faults}.conditions(block, 0)
		}
	}
	if deny := x.at("validate", "deny", "conditions"); deny.isSet() {
		reader{faults: c.faults}.conditions(deny, 0)
		c.conditionsComplete(deny)
	}
}

func (c checker) attestors(sets field) {
	for _, set := range sets.list() {
		c.attestorSet(set, maxAttestors)
	}
}

// notary refuses attestors that Notary does not support.
func (c checker) notary(sets field) {
	for _, set := range sets.list() {
		for _, e := range set.at("entries").list() {
			for _, key := range []string{"keys", "keyless"} {
				if e.at(key).isSet() {
					c.add(e.at(key).pointer, "Notary has certificates, not %s", key)
				}
			}
		}
	}
}

// maxAttestors bounds the depth of attestors in attestors.
const maxAttestors = 16

func (c checker) attestorSet(set field, depth int) {
	entries := set.at("entries").list()
	if depth == 0 {
		c.add(set.pointer, "attestors are nested too deep")
		return
	}
	if len(entries) == 0 {
		c.add(set.pointer, "a set of attestors has entries")
	}
	if n, ok := wholeNumber(set.at("count").value); ok && (n < 1 || n > int64(len(entries))) {
		c.add(set.at("count").pointer, "count is from 1 to the number of entries")
	}
	for _, e := range entries {
		c.attestor(e, depth)
	}
}

func (c checker) attestor(e field, depth int) {
	c.exactlyOne(e, map[string]bool{
		"keys": e.at("keys").isSet(), "certificates": e.at("certificates").isSet(),
		"keyless": e.at("keyless").isSet(), "attestor": e.at("attestor").isSet(),
	}, "keys", "certificates", "keyless", "attestor")
	keys, certificates := e.at("keys"), e.at("certificates")
	if keys.isSet() && keys.text("publicKeys") == "" && keys.text("kms") == "" && !keys.at("secret").isSet() {
		c.add(keys.pointer, "keys have publicKeys, kms or secret")
	}
	if a := keys.text("signatureAlgorithm"); a != "" && !slices.Contains([]string{"sha224", "sha256", "sha384", "sha512"}, a) {
		c.add(keys.at("signatureAlgorithm").pointer, "the signature algorithm is not one that Kyverno knows")
	}
	if certificates.isSet() && certificates.text("cert") == "" && certificates.text("certChain") == "" {
		c.add(certificates.pointer, "certificates have cert or certChain")
	}
	keyless := e.at("keyless")
	if rekor := keyless.at("rekor"); rekor.isSet() && rekor.text("url") == "" || keyless.isSet() && !rekor.isSet() && keyless.text("roots") == "" {
		c.add(keyless.pointer, "keyless has roots, or rekor with its url")
	}
	if nested := e.at("attestor"); nested.isSet() {
		c.attestorSet(nested, depth-1)
	}
}
