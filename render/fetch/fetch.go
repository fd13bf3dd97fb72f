// Package fetch downloads what a repository deploys but does not contain: charts, artifacts, Git
// trees and files. It is the only package that opens connections, and only the command fetch uses
// it.
//
// It takes [render.Remote]s and returns [Content], which the caller checks,
// stores and locks. Every answer of a server is limited in size and, if there
// is a digest, compared with it. [Options] decide which hosts are asked, and
// with which credentials.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/internal/artifact"
	"github.com/preadmit/preadmit/render/internal/signature"
)

// Options configure a Fetcher.
type Options struct {
	// Hosts are hosts such as ghcr.io, *.example.org or localhost:5000. They
	// may have private addresses.
	Hosts []string
	// Locked are further hosts that may be asked, at public addresses only.
	Locked []string
	// Only restricts requests to Hosts and Locked.
	Only bool
	// Logins are each sent to their own host only.
	Logins []Login
	// RegistryLogin returns the credentials for a registry; nil means none.
	RegistryLogin func(ctx context.Context, hostport string) (username, password, token string, err error)
	// Proxy is the same as in net/http.Transport.
	Proxy func(*http.Request) (*url.URL, error)
	// Git clones with the git program, for addresses that go-git can't reach.
	// If it is nil, the program is not used.
	Git func(ctx context.Context, c Clone) (commit string, tar []byte, err error)
	// Timeout is the limit for each download.
	Timeout time.Duration
}

// A Clone is a revision that the git program must fetch.
type Clone struct {
	Address, Revision string
	// Resolve pins the address's host, as "HOST:PORT:ADDRESS,…" for curl. If it
	// is "", the program looks up the host.
	Resolve string
}

// A Login holds credentials or other settings for requests to a host.
type Login struct {
	Host               string // with its port, unless it is the scheme's
	Username, Password string
	CA                 []byte // PEM with the certificate authorities of the host
}

// Limits of one run.
const (
	maxIndex    = 64 << 20
	maxManifest = 4 << 20
	maxRequests = 20_000
	maxBytes    = 4 << 30
	maxHops     = 5
)

// A Fetcher fetches Remotes. It is safe for concurrent use.
type Fetcher struct {
	options  Options
	client   *http.Client
	registry *auth.Client

	mu      sync.Mutex
	indexes map[string]*repositoryIndex
}

// New returns a Fetcher.
func New(o Options) *Fetcher {
	f := &Fetcher{options: o, indexes: make(map[string]*repositoryIndex)}
	f.client = newClient(&f.options)
	f.registry = &auth.Client{Client: f.client, Cache: auth.NewCache()}
	f.registry.SetUserAgent(userAgent)
	if o.RegistryLogin != nil {
		f.registry.Credential = func(ctx context.Context, hostport string) (auth.Credential, error) {
			user, password, token, err := o.RegistryLogin(ctx, hostport)
			return auth.Credential{Username: user, Password: password, RefreshToken: token}, err
		}
	}
	return f
}

const userAgent = "preadmit"

// Content is the downloaded content of a Remote.
type Content struct {
	Resolved string // version, tag or commit
	Digest   string // digest of Data
	Data     []byte
	Archive  string            // address of a chart's archive
	More     map[string][]byte // other content that Data refers to, by digest

	// Signatures are the candidates found beside the content. The caller must check
	// that at least one of them verifies it.
	Signatures [][]byte
}

// Locked describes the content of a Remote as it was locked.
type Locked struct{ Digest, Resolved, Archive string }

// A Want is a Remote to fetch, and the content that the caller already has.
type Want struct {
	Remote *render.Remote
	Locked *Locked                  // nil resolves the Remote anew
	Has    func(digest string) bool // reports content that need not be downloaded
	Signed signature.Kind           // kind of signatures to download too, or ""

	// Progress is called with the number of bytes just received and the total
	// size, or -1 if that is unknown. It may be nil.
	Progress func(n int, of int64)
}

// Fetch downloads the content of a Remote: the locked content, or the current one if
// w.Locked is nil.
func (f *Fetcher) Fetch(ctx context.Context, w Want) (*Content, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.options.Timeout, fmt.Errorf("it takes longer than %s", f.options.Timeout))
	defer cancel()
	if w.Progress != nil {
		ctx = context.WithValue(ctx, progressKey{}, w.Progress)
	}
	c, err := f.bring(ctx, w)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, reason(err)
	}
	c.Digest = artifact.Digest(c.Data)
	if w.Locked != nil && c.Digest != w.Locked.Digest {
		return nil, fmt.Errorf("the downloaded content has the digest %s, and is locked as %s", c.Digest, w.Locked.Digest)
	}
	return c, nil
}

func (f *Fetcher) bring(ctx context.Context, w Want) (*Content, error) {
	r := w.Remote
	switch r.Kind {
	case render.HelmChart:
		c, err := f.chart(ctx, r, w.Locked)
		if err == nil && w.Signed == signature.Provenance {
			err = f.provenance(ctx, c)
		}
		return c, err
	case render.HelmOCIChart, render.OCIArtifact:
		return f.image(ctx, w)
	case render.GitTree:
		return f.git(ctx, r, w.Locked)
	case render.URLFile:
		data, err := f.get(ctx, r.URL, artifact.MaxBlob)
		return &Content{Data: data}, err
	case render.KindSchema:
		return f.kindSchema(ctx, r)
	}
	return nil, fmt.Errorf("%s is no kind that can be fetched", r.Kind)
}

// Absent is the resolved version of a schema that is missing from the catalogue.
const Absent = "absent"

// kindSchema downloads the schema of a custom resource. Catalogues name it in
// lower case: GROUP/KIND_VERSION.json.
func (f *Fetcher) kindSchema(ctx context.Context, r *render.Remote) (*Content, error) {
	data, err := f.get(ctx, r.URL+"/"+render.SchemaName(r.Name, r.Version), maxManifest)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusNotFound {
		return &Content{Resolved: Absent}, nil
	}
	return &Content{Data: data}, err
}

// A statusError is a response with another status than OK.
type statusError struct {
	host, status string
	code         int
}

func (s *statusError) Error() string { return s.host + " answers " + s.status }

// get downloads the content at an address.
func (f *Fetcher) get(ctx context.Context, address string, most int64) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("%q is no address of a file", address)
	}
	u.Fragment = ""
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	res, err := f.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, &statusError{res.Request.URL.Host, res.Status, res.StatusCode}
	}
	return readAll(res.Body, most, res.ContentLength)
}

// reason returns an error without the address, which may contain a token; the
// caller names the address.
func reason(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if strings.Contains(err.Error(), "://") {
		return errors.New(urlQuery.ReplaceAllString(err.Error(), "$1"))
	}
	return err
}
