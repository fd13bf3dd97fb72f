package change

import (
	"testing"

	"github.com/preadmit/preadmit/render"
)

func TestNewlyExcluded(t *testing.T) {
	t.Parallel()
	at := render.Span{File: "c.yaml", Line: 3, Column: 5}
	head := []render.TreeDocument{{State: render.DocRendered}, {State: render.DocRendered}, {State: render.DocFailed}, {State: render.DocRendered}}
	for i, file := range []string{"a/web.yaml", "old/db.yaml", "old/x.yaml", "old/api.yaml"} {
		head[i].File, head[i].Line = file, i+1
	}
	if got := NewlyExcluded("none/**", at, head); got != nil {
		t.Errorf("a glob without matches: %v", got)
	}
	got := NewlyExcluded("old/**", at, head)
	const want = `no longer checked once this change is merged: 2 Kubernetes objects that the new glob "old/**" excludes, the first at old/db.yaml:2`
	if len(got) != 1 || got[0].Message != want || got[0].Origins[0].Span != at {
		t.Errorf("got %v", got)
	}
}
