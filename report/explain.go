package report

import (
	"io"

	"github.com/preadmit/preadmit/policy"
)

// Explanations is the JSON report of explain: how policies decided on one
// object.
type Explanations struct {
	Schema       string               `json:"schema"`
	Tool         Tool                 `json:"tool"`
	Explanations []policy.Explanation `json:"explanations"`
}

const explainSchema = "preadmit.explain/v1"

// ExplanationFormats lists the formats of explanations.
var ExplanationFormats = FormatList[*Explanations]{
	{"text", "for people: each step with its values", writeExplainedText},
	{"json", "for programs: everything", writeExplainedJSON},
}

// WriteExplanations writes explanations in the format with that name, one of
// ExplanationFormats.
func WriteExplanations(w io.Writer, name string, tool Tool, es []policy.Explanation, o Options) error {
	return ExplanationFormats.Write(w, name, &Explanations{Schema: explainSchema, Tool: tool, Explanations: es}, o)
}
