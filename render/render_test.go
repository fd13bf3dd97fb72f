package render_test

import (
	"errors"
	"testing"

	"github.com/preadmit/preadmit/render"
)

func TestStatus(t *testing.T) {
	t.Parallel()
	warning := &render.Error{Err: errors.New("odd"), Warning: true}
	missing := &render.Error{Err: errors.New("remote"), Missing: true}
	broken := &render.Error{Err: errors.New("broken")}
	one := []*render.Object{{}}
	for _, c := range []struct {
		objects []*render.Object
		err     error
		want    string
	}{
		{one, nil, "rendered"},
		{nil, nil, "rendered"},
		{nil, warning, "rendered"},
		{one, broken, "rendered"},
		{nil, missing, "not-rendered"},
		{nil, errors.Join(missing, warning), "not-rendered"},
		{nil, errors.Join(missing, broken), "failed"},
		{nil, broken, "failed"},
	} {
		u := render.Unit{Objects: c.objects, Err: c.err}
		if got := u.Status(); got != c.want {
			t.Errorf("%d objects, %v: %s, want %s", len(c.objects), c.err, got, c.want)
		}
	}
}
