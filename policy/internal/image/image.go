// Package image parses references of container images by the grammar of
// github.com/distribution/reference, which API servers and Kyverno use.
package image

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/preadmit/preadmit/render"
)

const defaultRegistry = "docker.io"

// A Reference is a container image's reference, in parts.
type Reference struct {
	Registry string // docker.io
	Path     string // bitnami/nginx
	Name     string // nginx
	Tag      string // latest, if there is no digest
	Digest   string // sha256:...
}

// String returns the canonical reference, by the digest if there is one.
func (r Reference) String() string {
	if r.Digest != "" {
		return r.Registry + "/" + r.Path + "@" + r.Digest
	}
	return r.Registry + "/" + r.Path + ":" + r.Tag
}

const (
	domainPart = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	domainRule = `(?:` + domainPart + `(?:\.` + domainPart + `)*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?`
	pathPart   = `[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*`
	pathRule   = pathPart + `(?:/` + pathPart + `)*`
	digestRule = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`
)

var rule = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:(` + domainRule + `)/)?(` + pathRule + `)(?::(\w[\w.-]{0,127}))?(?:@(` + digestRule + `))?$`)
})

// Parse parses the image of a container. The error is worded as Kyverno's.
func Parse(image string) (Reference, error) {
	full := image
	if !namesRegistry(image) {
		full = defaultRegistry + "/" + image
	}
	parts, problem := split(full)
	if problem != "" {
		return Reference{}, fmt.Errorf("bad image: %s, defaultRegistry: %s, enableDefaultRegistryMutation: true: %s",
			render.Cut(full, 256), defaultRegistry, problem)
	}
	r := Reference{Registry: parts[1], Path: parts[2], Tag: parts[3], Digest: parts[4]}
	r.Name = r.Path[strings.LastIndexByte(r.Path, '/')+1:]
	if r.Tag == "" && r.Digest == "" {
		r.Tag = "latest"
	}
	return r, nil
}

// namesRegistry reports whether the part before the first slash is a host.
func namesRegistry(image string) bool {
	host, _, found := strings.Cut(image, "/")
	return found && (strings.ContainsAny(host, ".:") || host == "localhost" || strings.ToLower(host) != host)
}

func split(image string) (parts []string, problem string) {
	if len(image) > 4096 {
		return nil, "invalid reference format"
	}
	parts = rule().FindStringSubmatch(image)
	switch {
	case parts == nil && rule().MatchString(strings.ToLower(image)):
		return nil, "repository name must be lowercase"
	case parts == nil:
		return nil, "invalid reference format"
	case len(parts[2]) > 255:
		return nil, "repository name must not be more than 255 characters"
	case parts[4] != "":
		return parts, digestProblem(parts[4])
	}
	return parts, ""
}

// digestProblem describes an error in a digest of a registered algorithm, or returns
// "".
func digestProblem(digest string) string {
	algorithm, sum, _ := strings.Cut(digest, ":")
	length := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}[algorithm]
	switch {
	case length == 0:
		return "unsupported digest algorithm"
	case len(sum) != length:
		return "invalid checksum digest length"
	case strings.ToLower(sum) != sum:
		return "invalid checksum digest format"
	}
	return ""
}
