package policy

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// defaulted returns an assumption about a field that no mutation set, if nobody
// wrote it either: the API server of the chosen version defaults it. Otherwise
// it returns "". was is the field's pointer in held, which is the object as the
// API server had it before any mutation.
func defaulted(field, was string, rendered *render.Object, held map[string]any) string {
	value, _ := render.Lookup(held, was)
	text, found := render.Lookup(rendered.Object, written([]string{was}, rendered)[0])
	if value == nil || found && text != nil {
		return ""
	}
	how := " is not written"
	if found {
		how = " is null"
	}
	switch secret := rendered.GetKind() == "Secret"; {
	case was == "/metadata/namespace":
		return field + how + ": it is that of the request, " + brief(value)
	case secret:
		return field + how + ": the API server defaults it"
	default:
		return field + how + ": the API server defaults it to " + brief(value)
	}
}

// first returns the object before all mutations; held is the object after them.
func (h *history) first(held map[string]any) map[string]any {
	if len(h.changes) > 0 {
		return h.changes[0].before
	}
	return held
}

// brief returns the JSON of a value, cut to fit on a line.
func brief(value any) string {
	const most = 100
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return "…"
	}
	return render.Cut(strings.TrimSuffix(text.String(), "\n"), most)
}
