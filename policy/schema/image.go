package schema

import (
	"regexp"
	"strings"
	"sync"
)

// The grammar of image references, as in github.com/distribution/reference,
// which API servers parse them with.
const (
	domainComponent = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	domain          = `(?:` + domainComponent + `(?:\.` + domainComponent + `)*|\[(?:[a-fA-F0-9:]+)\])(?::[0-9]+)?`
	pathComponent   = `[a-z0-9]+(?:(?:[._]|__|[-]+)[a-z0-9]+)*`
	tagPart         = `[\w][\w.-]{0,127}`
	maxImagePath    = 255
	digestPart      = `[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*[:][[:xdigit:]]{32,}`
)

var (
	imageReference = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^((?:` + domain + `/)?` + pathComponent + `(?:/` + pathComponent + `)*)(?::(` + tagPart + `))?(?:@(` + digestPart + `))?$`)
	})
	imageID     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-f0-9]{64}$`) })
	imageDigest = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128})$`)
	})
)

// latest reports whether the API server uses the pull policy Always for an
// image: it has the tag latest, or neither a tag nor a digest. For an invalid
// reference the tag is empty, so the result is false.
func latest(image string) bool {
	if imageID().MatchString(image) {
		return false
	}
	registry, remainder := splitDomain(image)
	path, _, _ := strings.Cut(remainder, ":")
	if strings.ToLower(path) != path {
		return false
	}
	m := imageReference().FindStringSubmatch(registry + "/" + remainder)
	if m == nil || len(m[1])-len(registry)-1 > maxImagePath || m[3] != "" && !imageDigest().MatchString(m[3]) {
		return false
	}
	return m[2] == "latest" || m[2] == "" && m[3] == ""
}

// splitDomain separates the registry, which is docker.io unless the first
// part looks like a host.
func splitDomain(image string) (registry, remainder string) {
	const hub = "docker.io"
	first, rest, ok := strings.Cut(image, "/")
	if !ok || !strings.ContainsAny(first, ".:") && first != "localhost" && strings.ToLower(first) == first {
		registry, remainder = hub, image
	} else {
		registry, remainder = first, rest
	}
	if registry == "index.docker.io" {
		registry = hub
	}
	if registry == hub && !strings.Contains(remainder, "/") {
		remainder = "library/" + remainder
	}
	return registry, remainder
}
