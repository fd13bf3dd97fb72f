package evaluate

import (
	"cmp"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// A line is a line of a file of the tree.
type line struct {
	file   string
	number int
}

// secretLines are the values that Secrets hold, by the line of each.
type secretLines map[line][]string

// SecretsOf returns what the Secrets in the trees of the inputs hold.
func SecretsOf(inputs ...*load.Input) policy.Secrets {
	all := make(secretLines)
	for _, in := range inputs {
		for _, o := range slices.Concat(render.Objects(in.Head), render.Objects(in.Context)) {
			if o.GetKind() == "Secret" && o.GetAPIVersion() == "v1" {
				all.add(o)
			}
		}
	}
	for _, texts := range all { // the longest first, since one may be part of another
		slices.SortFunc(texts, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	}
	return all.at
}

func (s secretLines) add(o *render.Object) {
	for _, field := range []string{"data", "stringData"} {
		values, _ := o.Object[field].(map[string]any)
		for key, v := range values {
			text, _ := v.(string)
			if strings.TrimSpace(text) == "" {
				continue
			}
			texts := []string{strings.TrimSpace(text)}
			if decoded, err := base64.StdEncoding.DecodeString(text); field == "data" && err == nil && strings.TrimSpace(string(decoded)) != "" {
				texts = append(texts, strings.TrimSpace(string(decoded)))
			}
			for _, at := range o.At(render.Pointer(field, key)) {
				l := line{at.File, at.Line}
				s[l] = append(s[l], texts...)
			}
		}
	}
}

// at returns what Secrets hold at the places.
func (s secretLines) at(places []render.Origin) (texts []string) {
	for _, at := range places {
		texts = append(texts, s[line{at.File, at.Line}]...)
	}
	return texts
}
