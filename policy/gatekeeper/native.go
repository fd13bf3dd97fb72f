package gatekeeper

import (
	"errors"

	"github.com/preadmit/preadmit/render"
)

type nativeCode struct {
	text      string
	generates bool
}
type nativeEnvs struct{}
type nativeReview struct{}

func newNativeEnvs() (*nativeEnvs, error) { return nil, nil }

func (k *compiler) newNative(o *render.Object, pointer string, source map[string]any) (*nativeCode, []error) {
	return nil, []error{at(o, pointer, "cel", errors.New("not there yet"))}
}
func (r *review) askNative(c *constraint) []Response { return nil }
