package kyvernocel

import (
	"errors"
	"strings"
)

// A reference names an image, as registries do.
type reference struct{ registry, repository, tag, digest string }

const (
	defaultRegistry = "index.docker.io"
	defaultTag      = "latest"
)

// parseReference parses an image reference as container registry clients do:
// the default registry is Docker's, and the default tag is latest unless there
// is a digest.
func parseReference(s string) (*reference, error) {
	r := &reference{}
	name, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest {
		if err := checkDigest(digest); err != nil {
			return nil, err
		}
		r.digest = digest
	}
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.Contains(name[i:], "/") {
		name, r.tag = name[:i], name[i+1:]
	}
	if r.tag == "" && !hasDigest {
		r.tag = defaultTag
	}
	if len(r.tag) > 127 || has(r.tag, tagCharacters) {
		return nil, errors.New("could not parse reference: invalid tag")
	}
	r.registry, r.repository = defaultRegistry, name
	if host, rest, ok := strings.Cut(name, "/"); ok && (strings.ContainsAny(host, ".:") || host == "localhost") {
		r.registry, r.repository = host, rest
	}
	if r.registry == "docker.io" {
		r.registry = defaultRegistry
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

func (r *reference) check() error {
	switch n := len(r.repository); {
	case n < 2 || n > 255:
		return errors.New("could not parse reference: a repository has 2 to 255 characters")
	case has(r.repository, repositoryCharacters):
		return errors.New("could not parse reference: invalid repository")
	case r.registry == "" || has(r.registry, hostCharacters):
		return errors.New("could not parse reference: invalid registry")
	}
	if r.registry == defaultRegistry && !strings.Contains(r.repository, "/") {
		r.repository = "library/" + r.repository
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

func (r *reference) identifier() string {
	switch {
	case r.digest == "":
		return r.tag
	case r.tag == "":
		return r.digest
	default:
		return r.tag + "@" + r.digest
	}
}

func (r *reference) identifierWithSeparator() string {
	if r.tag == "" {
		return "@" + r.identifier()
	}
	return ":" + r.identifier()
}
