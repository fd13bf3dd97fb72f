package report

import (
	"bytes"
	"encoding/json"
	"io"
)

// WriteValue writes v as indented JSON for other commands than check: what a
// terminal or a runner would act on is escaped, as it is in reports.
func WriteValue(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(jsonSafe(b.Bytes()))
	return err
}
