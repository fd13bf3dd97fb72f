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
func (r *run) secret() bool {
	return !r.review.engine.options.CLI && (r.isSecret() || len(r.review.secrets) > 0)
}

func (r *run) isSecret() bool {
	return r.review.req.Kind.Kind == "Secret" && r.review.req.Kind.Group == ""
}

// tells says whether a variable's value may quote a Secret.
func (r *run) tells(source string) bool {
	return !harmless.MatchString(source) && (r.isSecret() || !ofThisRequest.MatchString(source))
}

// quoting is a text that may quote values of the object.
func (r *run) quoting(text string) string {
	if r.secret() {
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
func (r *run) redact(resp *Response) {
	if !r.secret() {
		return
	}
	values := r.secretValues()
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
func (r *run) secretValues() []string {
	var values []string
	add := func(text string) {
		if len(text) >= minSecret {
			values = append(values, text)
		}
	}
	secrets := r.review.secrets
	if r.isSecret() {
		secrets = append(slices.Clip(secrets), r.review.object, r.review.old)
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
