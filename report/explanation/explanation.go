// Package explanation writes explanations: how policies decided on one object, step by
// step. [Write] takes what policy.Chain.Explain returns, and writes it in one of the
// [Formats]. text.go is for people, json.go for programs.
package explanation

import (
	"io"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/report"
)

// Explanations is the JSON report of explain.
type Explanations struct {
	Schema       string               `json:"schema"`
	Tool         report.Tool          `json:"tool"`
	Explanations []policy.Explanation `json:"explanations"`
}

const schema = "preadmit.explain/v1"

// Formats lists the formats of explanations.
var Formats = report.FormatList[*Explanations]{
	{Name: "text", Doc: "for people: each step with its values", Write: writeText},
	{Name: "json", Doc: "for programs: everything", Write: writeJSON},
}

// Write writes explanations in the format with that name, one of Formats.
func Write(w io.Writer, name string, tool report.Tool, es []policy.Explanation, o report.Options) error {
	return Formats.Write(w, name, &Explanations{Schema: schema, Tool: tool, Explanations: es}, o)
}
