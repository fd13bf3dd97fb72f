package mutator

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// assignImage reads an AssignImage, which sets parts of the name of an image
// (gatekeeper/v3/pkg/mutation/mutators/assignimage).
func (c *checker) assignImage(m *Mutator) {
	var p struct {
		PathTests    []pathTest `json:"pathTests,omitempty"`
		AssignDomain string     `json:"assignDomain,omitempty"`
		AssignPath   string     `json:"assignPath,omitempty"`
		AssignTag    string     `json:"assignTag,omitempty"`
	}
	spec, ok := c.spec(m, &p)
	if !ok {
		return
	}
	c.kinds(m, spec.ApplyTo)
	c.notMetadata(m)
	c.notKey(m)
	if m.location.last().list {
		c.add("/spec/location", errors.New("location ends with elements of a list: it must be that of an image"))
	}
	m.tests = c.newPathTests(m.location, p.PathTests)
	image := imageSetter{p.AssignDomain, p.AssignPath, p.AssignTag}
	c.image(image)
	m.set, m.terminal, m.terminates = image, shapeString, true
}

// Patterns of the parts of an image name. Gatekeeper checks them so that
// applying a mutator twice gives the same name as applying it once.
var (
	imageDomain = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(\w[\w-]*\.[\w.-]*\w|localhost)(:\d+)?$`) })
	imagePath   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]+((\.|_|/|__|-*)[a-z0-9]+)*$`) })
	imageTag    = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(:\w[\w.-]{0,127}|@[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,})$`)
	})
)

func (c *checker) image(s imageSetter) {
	if s == (imageSetter{}) {
		c.add("/spec/parameters", errors.New("one of assignDomain, assignPath and assignTag must be set"))
	}
	if s.domain != "" && !imageDomain().MatchString(s.domain) {
		c.add("/spec/parameters/assignDomain", fmt.Errorf("assignDomain %q must be a fully-qualified domain name or localhost", s.domain))
	}
	if s.path != "" && !imagePath().MatchString(s.path) {
		c.add("/spec/parameters/assignPath", fmt.Errorf("assignPath %q must be the path of an image", s.path))
	}
	if s.tag != "" && !imageTag().MatchString(s.tag) {
		c.add("/spec/parameters/assignTag", fmt.Errorf("assignTag %q must be a tag or a digest, with the ':' or '@' before it", s.tag))
	}
	if domain, _ := splitDomain(s.path); s.domain == "" && domain != "" {
		c.add("/spec/parameters/assignPath", fmt.Errorf("assignPath %q begins with a possible domain, so assignDomain must be set", s.path))
	}
}

// An imageSetter sets the parts of an image's name that are not empty.
type imageSetter struct{ domain, path, tag string }

func (imageSetter) element() map[string]any { return nil }

func (i imageSetter) setField(_ *application, object map[string]any, field string) (bool, error) {
	image, ok := object[field].(string)
	if old, was := object[field]; was && !ok {
		return false, fmt.Errorf("it is %s, and should be the name of an image", TypeName(old))
	}
	return put(object, field, i.apply(image)), nil
}

func (i imageSetter) apply(image string) string {
	domain, rest := splitDomain(image)
	path, tag := rest, ""
	if at := strings.IndexAny(rest, ":@"); at >= 0 {
		path, tag = rest[:at], rest[at:]
	}
	if i.domain != "" {
		domain = i.domain
	}
	if i.path != "" {
		path = i.path
	}
	if i.tag != "" {
		tag = i.tag
	}
	if domain != "" {
		domain += "/"
	}
	return domain + path + tag
}

// splitDomain splits the domain off an image name, if the text before the first
// slash can be one.
func splitDomain(image string) (domain, rest string) {
	before, after, found := strings.Cut(image, "/")
	if !found || before != "localhost" && !strings.ContainsAny(before, ".:") {
		return "", image
	}
	return before, after
}
