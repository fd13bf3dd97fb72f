package kyvernolib

import (
	"errors"
	"strings"
)

// A Reference names an image, as registries do.
type Reference struct{ Registry, Repository, Tag, Digest string }

const (
	defaultRegistry = "index.docker.io"
	defaultTag      = "latest"
)

// ParseReference parses an image reference as container registry clients do:
// the default registry is Docker's, and the default tag is latest unless there
// is a digest.
func ParseReference(s string) (*Reference, error) {
	r := &Reference{}
	name, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest {
		if err := checkDigest(digest); err != nil {
			return nil, err
		}
		r.Digest = digest
	}
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.Contains(name[i:], "/") {
		name, r.Tag = name[:i], name[i+1:]
	}
	if r.Tag == "" && !hasDigest {
		r.Tag = defaultTag
	}
	if len(r.Tag) > 127 || has(r.Tag, tagCharacters) {
		return nil, errors.New("could not parse reference: invalid tag")
	}
	r.Registry, r.Repository = defaultRegistry, name
	if host, rest, ok := strings.Cut(name, "/"); ok && (strings.ContainsAny(host, ".:") || host == "localhost") {
		r.Registry, r.Repository = host, rest
	}
	if r.Registry == "docker.io" {
		r.Registry = defaultRegistry
	}
	return r, r.check()
}

const (
	lower                = "abcdefghijklmnopqrstuvwxyz"
	upper                = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits               = "0123456789"
	repositoryCharacters = lower + digits + "_-./"
	tagCharacters        = lower + upper + digits + "_-."
	hostCharacters       = lower + upper + digits + "-.:[]_"
)

func (r *Reference) check() error {
	switch n := len(r.Repository); {
	case n < 2 || n > 255:
		return errors.New("could not parse reference: a repository has 2 to 255 characters")
	case has(r.Repository, repositoryCharacters):
		return errors.New("could not parse reference: invalid repository")
	case r.Registry == "" || has(r.Registry, hostCharacters):
		return errors.New("could not parse reference: invalid registry")
	}
	if r.Registry == defaultRegistry && !strings.Contains(r.Repository, "/") {
		r.Repository = "library/" + r.Repository
	}
	return nil
}

// has reports whether s contains characters that are not in allowed.
func has(s, allowed string) bool {
	return strings.ContainsFunc(s, func(c rune) bool { return !strings.ContainsRune(allowed, c) })
}

func checkDigest(digest string) error {
	algorithm, sum, ok := strings.Cut(digest, ":")
	length := map[string]int{"sha256": 64, "sha512": 128}[algorithm]
	if !ok || len(sum) != length || length == 0 || has(sum, digits+"abcdef") {
		return errors.New("could not parse reference: invalid digest")
	}
	return nil
}

// Identifier returns the tag and the digest, or the one that is set.
func (r *Reference) Identifier() string {
	switch {
	case r.Digest == "":
		return r.Tag
	case r.Tag == "":
		return r.Digest
	default:
		return r.Tag + "@" + r.Digest
	}
}

// IdentifierWithSeparator returns the identifier with the @ or colon before it.
func (r *Reference) IdentifierWithSeparator() string {
	if r.Tag == "" {
		return "@" + r.Identifier()
	}
	return ":" + r.Identifier()
}
