package yamledit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// blockText writes a value in block style, with two spaces a level.
func blockText(v any) string {
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if e.Encode(v) != nil || e.Close() != nil {
		return ""
	}
	return b.String()
}

// flowText writes a value on one line: as JSON if quote is ", else with strings in that quote or
// without quotes where YAML allows it.
func flowText(v any, quote string) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, flowText(k, quote)+": "+flowText(v[k], quote))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, x := range v {
			parts = append(parts, flowText(x, quote))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return scalarText(v, quote)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

func scalarText(v, quote string) string {
	if quote == "'" && !strings.ContainsAny(v, "\r\n") {
		return "'" + strings.ReplaceAll(v, "'", "''") + "'"
	}
	plain := strings.TrimSuffix(blockText(v), "\n")
	if quote == `"` || strings.ContainsAny(plain, "\n[]{},") {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if e.Encode(v) != nil {
			return ""
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	return plain
}
