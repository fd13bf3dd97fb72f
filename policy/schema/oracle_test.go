package schema

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// An oracleAnswer is what Kubernetes 1.36.3 itself answered, recorded in testdata.
type oracleAnswer struct {
	Object map[string]any `json:"object,omitempty"`
	Faults []oracleFault  `json:"faults,omitempty"`
	Error  string         `json:"error,omitempty"`
}

// An oracleFault is an error about a field, or of decoding, which names none.
type oracleFault struct {
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

func (o oracleFault) String() string {
	if o.Field == "" {
		return o.Message
	}
	return o.Field + ": " + o.Message
}

func readAnswers(t *testing.T, out []byte) []oracleAnswer {
	t.Helper()
	var answers []oracleAnswer
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var a oracleAnswer
		rendertest.OK(t, json.Unmarshal(lines.Bytes(), &a))
		answers = append(answers, a)
	}
	return answers
}
