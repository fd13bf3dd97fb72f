package report

import (
	"bytes"
	"encoding/json"
	"io"
)

// WriteValue writes v as indented JSON, for commands other than check. As in reports,
// characters that control a terminal or a runner are escaped.
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
