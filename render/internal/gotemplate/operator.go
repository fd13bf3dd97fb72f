package gotemplate

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"
)

// operator changes the functions of a template to those of flux-operator: it takes slim-sprig,
// which lacks some of sprig's functions, and has a toYaml and a slugify of its own.
func (t *Template) operator(fns template.FuncMap) {
	maps.DeleteFunc(fns, func(name string, _ any) bool { return slices.Contains(notSlim, name) })
	for name, f := range map[string]any{"toYaml": wholeYAML, "mustToYaml": wholeYAML, "slugify": slug} {
		fns[name] = t.guard(f)
	}
}

// notSlim lists the functions that Argo CD's templates have and flux-operator's do not.
var notSlim = strings.Fields(`
	abbrev abbrevboth add1f addf bcrypt buildCustomCert camelcase decryptAES deepCopy derivePassword divf
	encryptAES genCA genCAWithKey genPrivateKey genSelfSignedCert genSelfSignedCertWithKey genSignedCert
	genSignedCertWithKey htpasswd initials kebabcase merge mergeOverwrite mulf mustDeepCopy mustMerge
	mustMergeOverwrite nospace randAlpha randAlphaNum randAscii randBytes randNumeric semver semverCompare
	sha512sum shuffle snakecase subf swapcase untitle uuidv4 wrap wrapWith
	normalize fromYaml fromYamlArray
`)

func wholeYAML(v any) (string, error) {
	data, err := yaml.Marshal(v)
	return string(data), err
}

var (
	notInWords = regexp.MustCompile("[^a-z0-9_]+")
	spelled    = strings.NewReplacer("&", "and", "@", "at", `"`, "", "'", "", "\u2019", "", "\u2012", "-", "\u2013", "-", "\u2014", "-", "\u2015", "-")
)

// slug converts a text to the part of a URL as the library gosimple/slug does. It fails for letters
// outside of ASCII, which that library spells by a table.
func slug(text string) (string, error) {
	text = strings.ToLower(spelled.Replace(strings.TrimSpace(text)))
	for _, r := range text {
		if r > 0x7f {
			return "", errors.New("slugify of text that is not ASCII is not rendered")
		}
	}
	text = strings.Trim(notInWords.ReplaceAllString(text, "-"), "-_")
	const most = 63
	if len(text) <= most {
		return text, nil
	}
	if i := strings.LastIndexByte(text[:most+1], '-'); i >= 0 {
		return text[:i], nil
	}
	return text[:most], nil
}
