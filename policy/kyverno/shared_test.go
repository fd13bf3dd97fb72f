package kyverno

import (
	"testing"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// corpora is other people's data, beside the project where it is there at all.
const corpora = "../../../shared/corpora"

// parse reads the objects of a test, which have to be free of errors.
func parse(t testing.TB, file, text string) []*render.Object {
	t.Helper()
	objects, err := render.Parse(file, []byte(text))
	rendertest.OK(t, err)
	return objects
}
