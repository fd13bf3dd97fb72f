package evaluate

import (
	"context"
	"io"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/render"
)

// leaveOut renders the head again without the roots that the change stops deploying, if there are
// any.
func (b *base) leaveOut(ctx context.Context, o *Options, head *load.Input, args []string, stdin io.Reader) error {
	sources := o.Sources
	if sources.Dropped = b.dropped(head); len(sources.Dropped) == 0 {
		return nil
	}
	again, err := load.From(ctx, &sources, head.Tree, orHere(args), stdin)
	if err == nil {
		*head = *again
	}
	return err
}

// dropped returns the paths of roots of the head that a kustomization built at the base and no
// longer builds, although it still exists. The values are the kustomizations' paths. Such roots
// would count as deployed by a person, but the change stops deploying them.
func (b *base) dropped(head *load.Input) map[string]string {
	was := make(map[string]bool) // paths that are units at the base
	for _, u := range b.in.Head {
		was[u.Path] = true
	}
	now := make(map[string]*render.Unit)
	for _, u := range head.Head {
		now[u.Identity()] = u
	}
	dropped := make(map[string]string)
	for root := range head.Deployed.Roots {
		if root.Origin.File != "" || was[root.Path] || root.Kind != "kustomize" && root.Kind != "manifest" {
			continue
		}
		for _, u := range b.in.Head {
			if u.State != render.Unreached && builds(u, root.Path) && now[u.Identity()] != nil && !builds(now[u.Identity()], root.Path) {
				dropped[root.Path] = u.Path
				break
			}
		}
	}
	return dropped
}

// builds reports whether a unit is a kustomization with objects from another path.
func builds(u *render.Unit, path string) bool {
	if u.Kind != "kustomize" && u.Renderer != "kustomize" || u.Path == path {
		return false
	}
	for _, o := range u.Objects {
		for _, at := range o.At("") {
			if at.File == path || strings.HasPrefix(at.File, path+"/") {
				return true
			}
		}
	}
	return false
}
