package kyverno

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/preadmit/preadmit/policy/kyverno/internal/document"
	"github.com/preadmit/preadmit/policy/kyverno/internal/signed"
)

func domainOf(m *document.Manifests) string { return cmp.Or(m.Domain, signed.DefaultDomain) }

func ignoredOf(m *document.Manifests) signed.Ignored {
	var list []signed.Ignore
	for _, i := range m.IgnoreFields {
		ignore := signed.Ignore{Fields: i.Fields}
		for _, o := range i.Objects {
			ignore.Objects = append(ignore.Objects, signed.Reference(o))
		}
		list = append(list, ignore)
	}
	return signed.NewIgnored(list, domainOf(m))
}

// A manifestCheck verifies the signed manifest of an object against attestors.
type manifestCheck struct {
	rule        *document.Manifests
	notes       map[string]any // the object's annotations
	message     *signed.Message
	unread      error // error of reading message
	differences []signed.Difference
}

// evaluateManifests verifies that each set of attestors signed the object's
// manifest. A set that certainly did not sign takes precedence over one that
// can't be decided.
func (r *run) evaluateManifests() *verdict {
	m := r.program.rule.Validate.Manifests
	if r.review.object == nil {
		return nil
	}
	object, err := plainJSON(r.review.object)
	if err != nil {
		return broken("error occurred during manifest verification", err)
	}
	c := &manifestCheck{rule: m}
	meta, _ := object["metadata"].(map[string]any)
	c.notes, _ = meta["annotations"].(map[string]any)
	if c.message, c.unread = signed.Read(object, domainOf(m)); c.unread == nil {
		c.differences = c.message.Differences(object, r.program.ignored)
		c.differences = c.differences[:min(len(c.differences), maxFields)]
	}
	if r.isSecret() { // the manifest's values must not be shown either
		for i := range c.differences {
			c.differences[i].Values = signed.Values{}
		}
	}
	var passed []string
	var open *signed.UndecidedError
	for i, set := range m.Attestors {
		reason, err := c.set(set, fmt.Sprintf(".attestors[%d]", i))
		var refused *refusal
		switch {
		case err == nil:
			passed = append(passed, reason)
		case errors.As(err, &refused):
			return &verdict{status: StatusFail, message: err.Error(), fields: c.fields()}
		case !errors.As(err, &open):
			return broken("error occurred during manifest verification", err)
		}
	}
	if open != nil {
		return r.unverifiable("a signed manifest: " + open.Reason)
	}
	return &verdict{status: StatusPass, message: "verified manifest signatures; " + strings.Join(passed, ",")}
}

// plainJSON returns the object with all numbers as float64, as encoding/json
// decodes them.
func plainJSON(object map[string]any) (map[string]any, error) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var same map[string]any
	err = json.Unmarshal(data, &same)
	return same, err
}

// fields returns the fields of the object that differ from the manifest, or
// else the signature's annotations.
func (m *manifestCheck) fields() []string {
	var all []string
	for _, d := range m.differences {
		all = append(all, d.Pointer)
	}
	if len(all) == 0 {
		all = []string{"/metadata/annotations"}
	}
	return all
}

// A refusal is the reason why a manifest is not verified, in cases that Kyverno
// reports as a failure.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

// set verifies the manifest with a set of attestors and says how. The error is
// a [refusal], a [signed.UndecidedError], or another error.
func (m *manifestCheck) set(set *document.AttestorSet, at string) (string, error) {
	required, verified := set.Count, 0
	entries := expand(set.Entries)
	if required == 0 {
		required = len(entries)
	}
	var failures, passed []string
	var errs []error
	var undecided []*signed.UndecidedError
	for i, a := range entries {
		reason, err := m.attestor(a, fmt.Sprintf("%s.entries[%d]", at, i))
		var refused *refusal
		var open *signed.UndecidedError
		switch {
		case errors.As(err, &refused):
			failures = append(failures, refused.reason)
		case errors.As(err, &open):
			undecided = append(undecided, open)
		case err != nil:
			errs = append(errs, err)
		default:
			verified, passed = verified+1, append(passed, reason)
		}
		if err == nil && verified >= required {
			return fmt.Sprintf("manifest verification succeeded; verifiedCount %d; requiredCount %d; message %s", verified, required, strings.Join(passed, ",")), nil
		}
	}
	switch {
	case len(undecided) > 0 && verified+len(undecided) >= required:
		return "", undecided[0]
	case len(errs) > 0:
		return "", errors.Join(errs...)
	}
	return "", &refusal{fmt.Sprintf("manifest verification failed; verifiedCount %d; requiredCount %d; message %s", verified, required, strings.Join(failures, ","))}
}

const beginKey, endKey = "-----BEGIN PUBLIC KEY-----", "-----END PUBLIC KEY-----"

// expand splits entries with several keys into an entry for each key.
func expand(entries []*document.Attestor) []*document.Attestor {
	var all []*document.Attestor
	for _, a := range entries {
		keys := strings.SplitAfter(a.Key, endKey)
		if len(keys) <= 2 {
			all = append(all, a)
			continue
		}
		for _, key := range keys[:len(keys)-1] {
			one := *a
			one.Key = key
			all = append(all, &one)
		}
	}
	return all
}

func (m *manifestCheck) attestor(a *document.Attestor, at string) (string, error) {
	if a.Nested != nil {
		return m.set(a.Nested, at+".attestor")
	}
	for key, want := range a.Annotations {
		if is, _ := m.notes[key].(string); is != want {
			return "", fmt.Errorf("annotations mismatch: %s does not match expected value %s for key %s", is, want, key)
		}
	}
	at += "." + a.Form
	switch {
	case cmp.Or(a.Repository, m.rule.Repository) != "":
		return "", &signed.UndecidedError{Reason: "it is in a registry: " + cmp.Or(a.Repository, m.rule.Repository)}
	case errors.Is(m.unread, signed.ErrNoMessage):
		return "", &refusal{at + ": YAML manifest not found for this resource: " + m.unread.Error()}
	case errors.Is(m.unread, signed.ErrNoSignature):
		return "", &refusal{at + ": failed to verify signature: " + m.unread.Error()}
	case m.unread != nil:
		return "", fmt.Errorf("%s: %w", at, m.unread)
	case a.Form != "keys":
		return "", &signed.UndecidedError{Reason: at + " can only be verified online"}
	case !strings.HasPrefix(a.Key, beginKey) && strings.Contains(a.Key, beginKey):
		return "", fmt.Errorf("%s: Kyverno reads a public key only where it begins the text, and no second one of a text", at)
	case !strings.HasPrefix(a.Key, beginKey):
		return "", &signed.UndecidedError{Reason: at + " names a key that is not in the policy"}
	}
	key, err := signed.ParseKey(a.Key)
	if err != nil {
		return "", fmt.Errorf("%s: %w", at, err)
	}
	if err := m.message.Verify(key); err != nil {
		return "", fmt.Errorf("%s: failed to verify signature: %w", at, err)
	}
	switch {
	case len(m.differences) == 0:
		return "signed by a valid signer", nil
	case m.rule.DryRun:
		return "", &signed.UndecidedError{Reason: "the object differs from its manifest: the dry run of an API server may explain it"}
	}
	diff, err := json.Marshal(map[string]any{"items": m.differences})
	if err != nil {
		return "", err
	}
	return "", &refusal{fmt.Sprintf("%s: failed to verify signature. diff found; %s", at, diff)}
}
