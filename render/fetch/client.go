package fetch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// urlQuery matches the query of an address, which may contain tokens.
var urlQuery = regexp.MustCompile(`(https?://[^\s"?]*)\?[^\s"]*`)

// newClient returns a client that sends requests to permitted hosts only, follows a few redirects,
// and sends each login only to its own host.
func newClient(o *Options) *http.Client {
	t := &guarded{options: o, proxies: &sync.Map{}, byHost: make(map[string]*http.Transport)}
	return &http.Client{
		Transport: t,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			last := via[len(via)-1]
			switch {
			case len(via) > maxHops:
				return fmt.Errorf("more than %d redirects", maxHops)
			case last.URL.Scheme == "https" && req.URL.Scheme != "https":
				return fmt.Errorf("it redirects to %s without encryption", req.URL.Host)
			}
			if req.URL.Host != last.URL.Host { // Go's own rule makes an exception for subdomains
				req.Header.Del("Authorization")
				req.Header.Del("Cookie")
			}
			req.Header.Del("Referer")
			return nil
		},
	}
}

// guarded is the transport of a Fetcher.
type guarded struct {
	options  *Options
	proxies  *sync.Map // host:port of the proxies in use
	requests atomic.Int64
	bytes    atomic.Int64

	mu     sync.Mutex
	byHost map[string]*http.Transport // for hosts with certificate authorities of their own; "" for all others
}

// RoundTrip implements http.RoundTripper.
func (g *guarded) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := g.options.allows(req.URL); err != nil {
		return nil, err
	}
	if g.requests.Add(1) > maxRequests {
		return nil, fmt.Errorf("more than %d requests", maxRequests)
	}
	req = req.Clone(req.Context())
	req.Header.Set("User-Agent", userAgent)
	if l := g.options.login(req.URL); l != nil && l.Username != "" && req.Header.Get("Authorization") == "" {
		req.SetBasicAuth(l.Username, l.Password)
	}
	if req.Header.Get("Authorization") != "" && req.URL.Scheme != "https" && !g.options.names(req.URL.Hostname(), port(req.URL)) {
		return nil, fmt.Errorf("%s requires a login without encryption", req.URL.Host) // such as a registry's token service
	}
	transport, err := g.transport(req.URL)
	if err != nil {
		return nil, err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body := &counted{ReadCloser: res.Body, g: g, length: res.ContentLength}
	body.progress, _ = req.Context().Value(progressKey{}).(func(int, int64))
	res.Body = body
	return res, nil
}

// progressKey is the context key of a Want's Progress.
type progressKey struct{}

// counted is a response body whose bytes count towards the limit of the run.
type counted struct {
	io.ReadCloser
	g        *guarded
	length   int64
	progress func(n int, of int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.progress != nil && n > 0 {
		c.progress(n, c.length)
	}
	if c.g.bytes.Add(int64(n)) > maxBytes {
		return n, fmt.Errorf("more than %d GiB were fetched", maxBytes>>30)
	}
	return n, err
}

// transport returns the transport for a host.
func (g *guarded) transport(u *url.URL) (*http.Transport, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := ""
	l := g.options.login(u)
	if l != nil && len(l.CA) > 0 {
		key = u.Host
	}
	if t := g.byHost[key]; t != nil {
		return t, nil
	}
	t := &http.Transport{
		DialContext: g.dial, ForceAttemptHTTP2: true, TLSHandshakeTimeout: 20 * time.Second,
		ResponseHeaderTimeout: 60 * time.Second, MaxIdleConnsPerHost: 8, MaxResponseHeaderBytes: 1 << 20,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	if g.options.Proxy != nil {
		t.Proxy = g.proxy
	}
	if key != "" {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool()
		}
		if !pool.AppendCertsFromPEM(l.CA) {
			return nil, fmt.Errorf("the file with the authorities of %s has no certificate", u.Host)
		}
		t.TLSClientConfig.RootCAs = pool
	}
	g.byHost[key] = t
	return t, nil
}

func (g *guarded) proxy(req *http.Request) (*url.URL, error) {
	u, err := g.options.Proxy(req)
	if u == nil || err != nil {
		return u, err
	}
	// With a proxy, this program does not see the address that a name resolves to.
	if !g.options.names(req.URL.Hostname(), port(req.URL)) && !isPublicName(req.URL.Hostname()) {
		return nil, &privateError{req.URL.Hostname()}
	}
	g.proxies.Store(u.Hostname()+" "+port(u), true)
	return u, nil
}

// isPublicName reports whether a host may be on the public internet, judging by its name or address
// only. A name whose last label begins with a digit is an address in an unusual spelling.
func isPublicName(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return isPublic(a)
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	last := host[strings.LastIndexByte(host, '.')+1:]
	inner := []string{"localhost", "local", "internal", "intranet", "lan", "home", "corp", "arpa"}
	return last != host && last != "" && (last[0] < '0' || last[0] > '9') && !slices.Contains(inner, last)
}

// dial connects to public addresses, and for hosts in Options.Hosts to private ones as well, except
// for cloud metadata addresses, which must be listed themselves. It checks the address of the
// actual connection, so a name that resolves to another address the second time can't avoid the
// check.
func (g *guarded) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	_, isProxy := g.proxies.Load(host + " " + port)
	d := net.Dialer{Timeout: 20 * time.Second}
	if !isProxy {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err == nil && g.options.allowsAddress(host, port, at.Addr()) {
				return nil
			}
			return &privateError{host}
		}
	}
	conn, err := d.DialContext(ctx, network, address)
	var private *privateError
	if errors.As(err, &private) {
		return nil, private
	}
	return conn, err
}

// A privateError is the error for a host with a private address.
type privateError struct{ host string }

func (p *privateError) Error() string {
	return fmt.Sprintf("%s has a private address; name the host under fetch.hosts in .preadmit/config.yaml to allow that", p.host)
}

// reserved lists address ranges that can lead into the local network, in addition to those that
// net/netip knows: shared and benchmarking ranges, and IPv4 addresses embedded in IPv6.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("::/96"), netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("192.88.99.0/24"),
}

// metadata lists addresses at which clouds serve a machine's secrets. Only one of them is in a
// private range.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("fd00:ec2::/32"), netip.MustParsePrefix("100.100.100.200/32"), netip.MustParsePrefix("192.0.0.192/32"),
}

// allowsAddress reports whether a connection to host may use address a.
func (o *Options) allowsAddress(host, port string, a netip.Addr) bool {
	named, isLiteral := o.names(host, port), a.String() == strings.Trim(host, "[]")
	return isPublic(a) || named && (isLiteral || !within(metadata, a.Unmap()))
}

func within(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a.WithZone("")) })
}

func isPublic(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsGlobalUnicast() && !a.IsPrivate() && !a.IsLoopback() && !a.IsLinkLocalUnicast() &&
		!within(reserved, a) && !within(metadata, a)
}

// allows returns an error if the host of an address may not be contacted.
func (o *Options) allows(u *url.URL) error {
	if !o.Only || o.names(u.Hostname(), port(u)) || among(o.Locked, u.Hostname(), port(u)) {
		return nil
	}
	return fmt.Errorf("host %s is not among fetch.hosts in .preadmit/config.yaml", u.Host)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	case u.Scheme == "ssh":
		return "22"
	}
	return "443"
}

// names reports whether a host is among Hosts.
func (o *Options) names(host, port string) bool { return among(o.Hosts, host, port) }

// among reports whether a host is among hosts, which may have a port and begin
// with "*.".
func among(hosts []string, host, port string) bool {
	host = strings.ToLower(strings.Trim(host, "[]"))
	return slices.ContainsFunc(hosts, func(h string) bool {
		h = strings.ToLower(h)
		if name, p, err := net.SplitHostPort(h); err == nil {
			if p != port {
				return false
			}
			h = name
		}
		if suffix, ok := strings.CutPrefix(h, "*"); ok && strings.HasPrefix(suffix, ".") {
			return strings.HasSuffix(host, suffix)
		}
		return h == host
	})
}

// login returns the login for the host of an address, or nil. Without encryption, a login is used
// only for hosts in Options.Hosts.
func (o *Options) login(u *url.URL) *Login {
	if u.Scheme != "https" && !o.names(u.Hostname(), port(u)) {
		return nil
	}
	for i := range o.Logins {
		l := &o.Logins[i]
		if strings.EqualFold(l.Host, u.Host) || strings.EqualFold(l.Host, u.Hostname()+":"+port(u)) {
			return l
		}
	}
	return nil
}

// readAll reads a body of at most most bytes. want is its length, -1 if unknown.
func readAll(body io.Reader, most, want int64) ([]byte, error) {
	if want > most {
		return nil, fmt.Errorf("it is larger than %d MiB", most>>20)
	}
	data, err := io.ReadAll(io.LimitReader(body, most+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the answer ends too early")
	case err != nil:
		return nil, err
	case int64(len(data)) > most:
		return nil, fmt.Errorf("it is larger than %d MiB", most>>20)
	}
	return data, nil
}
