package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// Explanations is what explain writes: how policies decided on one object.
type Explanations struct {
	Schema       string               `json:"schema"`
	Tool         Tool                 `json:"tool"`
	Explanations []policy.Explanation `json:"explanations"`
}

const explainSchema = "preadmit.explain/v1"

// An ExplanationFormat is a way to write explanations.
type ExplanationFormat struct {
	Name  string
	Doc   string
	Write func(io.Writer, *Explanations, Options) error
}

// ExplanationFormats lists all of them; help and errors are made of it.
var ExplanationFormats = []ExplanationFormat{
	{"text", "for people: each step with its values", writeExplainedText},
	{"json", "for programs: everything", writeExplainedJSON},
}

// WriteExplanations writes explanations in the format of that name. For an
// unknown name the error lists the formats.
func WriteExplanations(w io.Writer, name string, tool Tool, es []policy.Explanation, o Options) error {
	e := &Explanations{Schema: explainSchema, Tool: tool, Explanations: es}
	var names []string
	for _, f := range ExplanationFormats {
		if f.Name == name {
			return f.Write(w, e, o)
		}
		names = append(names, f.Name)
	}
	return fmt.Errorf("unknown explanation format %q: there are %s", name, strings.Join(names, ", "))
}
