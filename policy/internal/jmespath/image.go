package jmespath

import (
	"fmt"
	"regexp"
	"strings"
)

// DefaultRegistry is the registry that Kyverno adds to an image without one.
const DefaultRegistry = "docker.io"

// An Image is a container image's reference, in parts.
type Image struct {
	Registry string // docker.io
	Path     string // bitnami/nginx
	Name     string // nginx
	Tag      string // latest, if there is no digest
	Digest   string // sha256:...
}

// String returns the canonical reference, by the digest if there is one.
func (i Image) String() string {
	if i.Digest != "" {
		return i.Registry + "/" + i.Path + "@" + i.Digest
	}
	return i.Registry + "/" + i.Path + ":" + i.Tag
}

// References are parsed by the grammar of github.com/distribution/reference.
const (
	domainPart = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	domainRule = `(?:` + domainPart + `(?:\.` + domainPart + `)*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?`
	pathPart   = `[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*`
	pathRule   = pathPart + `(?:/` + pathPart + `)*`
	digestRule = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}`
)

var imageRule = regexp.MustCompile(`^(?:(` + domainRule + `)/)?(` + pathRule + `)(?::(\w[\w.-]{0,127}))?(?:@(` + digestRule + `))?$`)

// ParseImage parses the image of a container. The error is worded as Kyverno's.
func ParseImage(image string) (Image, error) {
	full := image
	if !namesRegistry(image) {
		full = DefaultRegistry + "/" + image
	}
	parts, problem := splitImage(full)
	if problem != "" {
		return Image{}, fmt.Errorf("bad image: %s, defaultRegistry: %s, enableDefaultRegistryMutation: true: %s",
			clip(full, 256), DefaultRegistry, problem)
	}
	i := Image{Registry: parts[1], Path: parts[2], Tag: parts[3], Digest: parts[4]}
	i.Name = i.Path[strings.LastIndexByte(i.Path, '/')+1:]
	if i.Tag == "" && i.Digest == "" {
		i.Tag = "latest"
	}
	return i, nil
}

// namesRegistry reports whether the part before the first slash is a host.
func namesRegistry(image string) bool {
	host, _, found := strings.Cut(image, "/")
	return found && (strings.ContainsAny(host, ".:") || host == "localhost" || strings.ToLower(host) != host)
}

func splitImage(image string) (parts []string, problem string) {
	if len(image) > 4096 {
		return nil, "invalid reference format"
	}
	parts = imageRule.FindStringSubmatch(image)
	switch {
	case parts == nil && imageRule.MatchString(strings.ToLower(image)):
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

func imageNormalize(s *search, a []val) (val, error) {
	image, err := ParseImage(a[0].v.(string))
	if err != nil {
		return val{}, errorf("image_normalize", "%s", err)
	}
	return s.newText(image.String())
}
