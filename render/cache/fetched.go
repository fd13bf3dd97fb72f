package cache

import (
	"slices"
	"sync"

	"github.com/preadmit/preadmit/render"
)

// inquiryFor returns the inquiry for a Remote.
func inquiryFor(r *render.Remote) inquiry {
	return inquiry{"fetched", string(r.Kind), r.URL, r.Name, r.Version}
}

// remoteOf returns the Remote that an inquiry asks for.
func remoteOf(q inquiry) *render.Remote {
	return &render.Remote{Kind: render.RemoteKind(q.Cluster), URL: q.A, Name: q.B, Version: q.C}
}

// A recordingStore records which Remotes a source's rendering asks its store
// for. It is safe for concurrent use.
type recordingStore struct {
	of  render.Store
	rec *recorder

	mu    sync.Mutex
	asked map[inquiry]string
}

func newRecordingStore(of render.Store, rec *recorder) *recordingStore {
	if of == nil {
		of = render.NoStore{}
	}
	return &recordingStore{of: of, rec: rec, asked: make(map[inquiry]string)}
}

// Fetched implements render.Store.
func (r *recordingStore) Fetched(remote *render.Remote) (render.Repository, error) {
	repo, err := r.of.Fetched(remote)
	r.mu.Lock()
	r.asked[inquiryFor(remote)] = rootOf(repo, err)
	r.mu.Unlock()
	if repo.FS != nil {
		repo.FS = r.rec
	}
	return repo, err
}

// condition returns the responses so far.
func (r *recordingStore) condition() condition {
	r.mu.Lock()
	defer r.mu.Unlock()
	var c condition
	for q, a := range r.asked {
		c.Asked = append(c.Asked, asked{Question: q, Answer: a})
	}
	c.sort()
	return c
}

// holds reports whether the Graph's store still gives the recorded answers.
func (g *Graph) holds(c *condition) bool {
	store := newRecordingStore(g.graph.Store, nil).of
	return !slices.ContainsFunc(c.Asked, func(a asked) bool {
		return a.Question.What != "fetched" || rootOf(store.Fetched(remoteOf(a.Question))) != a.Answer
	})
}
