package schema

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/preadmit/preadmit/render/rendertest"
)

// An oracleRequest and an oracleAnswer are what the nested module oracle reads
// and writes, one a line.
type oracleRequest struct {
	Object   map[string]any `json:"object"`
	To       string         `json:"to,omitempty"`
	Validate bool           `json:"validate,omitempty"`
	Old      map[string]any `json:"old,omitempty"`
}

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

// needOracle is the oracle's binary; without it the test is skipped.
func needOracle(t *testing.T) string {
	t.Helper()
	binary := os.Getenv("PREADMIT_ORACLE")
	if binary == "" {
		t.Skip("PREADMIT_ORACLE does not name the oracle's binary: see oracle/README.md")
	}
	return binary
}

// askOracle asks the API server's own code.
func askOracle(t *testing.T, requests []oracleRequest) []oracleAnswer {
	t.Helper()
	binary := needOracle(t)
	var in bytes.Buffer
	for _, r := range requests {
		data, err := json.Marshal(r)
		rendertest.OK(t, err)
		in.Write(append(data, '\n'))
	}
	c := exec.Command(binary)
	c.Stdin, c.Stderr = &in, os.Stderr
	out, err := c.Output()
	rendertest.OK(t, err)
	return readAnswers(t, out)
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
