package kyverno

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// hidden replaces text that quotes a Secret's values.
const hidden = "not shown, since it may quote a Secret"

// harmless are the variables whose values may be shown of a Secret, ofThisRequest
// those that hold nothing of another object.
var (
	harmless      = regexp.MustCompile(`^request\.(operation|namespace|name|object\.(kind|apiVersion|type|metadata\.(name|namespace|labels\.[^|]*)))$`)
	ofThisRequest = regexp.MustCompile(`^request\.[\w."]*$`)
)

// secret says whether messages could tell a Secret's values: the object's, or
// those of one that was looked up.
func (x *run) secret() bool {
	return !x.review.engine.options.CLI && (x.isSecret() || len(x.review.secrets) > 0)
}

func (x *run) isSecret() bool {
	return x.review.req.Kind.Kind == "Secret" && x.review.req.Kind.Group == ""
}

// tells says whether a variable's value may quote a Secret.
func (x *run) tells(source string) bool {
	return !harmless.MatchString(source) && (x.isSecret() || !ofThisRequest.MatchString(source))
}

// quoting is a text that may quote values of the object.
func (x *run) quoting(text string) string {
	if x.secret() {
		return hidden
	}
	return text
}

// reveal notes that a rule has seen an object, which may be a Secret.
func (n *notes) reveal(object map[string]any) {
	if object["kind"] == "Secret" && object["apiVersion"] == "v1" && len(n.secrets) < maxQuestions {
		n.secrets = append(n.secrets, object)
	}
}

// redact hides what quotes a Secret's values after all: the name of something
// that is made of one, say.
func (x *run) redact(resp *Response) {
	if !x.secret() {
		return
	}
	values := x.secretValues()
	quotes := func(text string) bool {
		return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(text, v) })
	}
	if quotes(resp.Message) {
		resp.Message = hidden
	}
	resp.Fields = slices.DeleteFunc(slices.Clone(resp.Fields), quotes)
	resp.Assumed = slices.DeleteFunc(slices.Clone(resp.Assumed), quotes)
}

// minSecret is how long a value must be to be told from words of a message.
const minSecret = 6

// secretValues are the values of the Secrets at hand, encoded and as they are.
func (x *run) secretValues() []string {
	var values []string
	add := func(text string) {
		if len(text) >= minSecret {
			values = append(values, text)
		}
	}
	secrets := x.review.secrets
	if x.isSecret() {
		secrets = append(slices.Clip(secrets), x.review.object, x.review.old)
	}
	for _, secret := range secrets {
		for _, v := range textsOf(secret["data"]) {
			add(v)
			if plain, err := base64.StdEncoding.DecodeString(v); err == nil {
				add(string(plain))
			}
		}
		for _, v := range textsOf(secret["stringData"]) {
			add(v)
		}
	}
	return values
}

// textsOf returns the strings of a map.
func textsOf(value any) []string {
	m, _ := value.(map[string]any)
	var all []string
	for _, v := range m {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}
