package fetch

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestPrivateAddresses tells addresses of the public internet from those that
// lead into a network from within it, in whatever spelling.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	for address, public := range map[string]bool{
		"140.82.121.4": true, "2606:50c0:8000::154": true, "::ffff:140.82.121.4": true,
		"127.0.0.1": false, "127.8.9.1": false, "0.0.0.0": false, "10.1.2.3": false, "172.31.0.1": false, "192.168.1.1": false,
		"169.254.169.254": false, "168.63.129.16": false, "100.100.100.200": false, "192.0.0.192": false, "224.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::7f00:1": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false,
		"fd00:ec2::254": false, "fc00::1": false, "64:ff9b::a9fe:a9fe": false, "2002:a9fe:a9fe::1": false, "2001:0:1::1": false, "ff02::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(address)); got != public {
			t.Errorf("%s: public is %t", address, got)
		}
	}
	for name, public := range map[string]bool{
		"ghcr.io": true, "charts.example.org.": true, "140.82.121.4": true, "localhost": false, "x.localhost": false, "intranet": false,
		"metadata.google.internal": false, "169.254.169.254": false, "2130706433": false, "0x7f.0.0.1": false, "127.1": false, "::1": false, "": false,
	} {
		if got := isPublicName(name); got != public {
			t.Errorf("%s: public is %t", name, got)
		}
	}
}

// TestNamedHosts lets a host that is named have a private address, but not that
// of the machine's metadata, to which a name server may lead it.
func TestNamedHosts(t *testing.T) {
	t.Parallel()
	o := Options{Hosts: []string{"charts.example.org", "*.example.net:8443", "169.254.169.254"}, Locked: []string{"ghcr.io"}, Only: true}
	for _, test := range []struct {
		host, port, address string
		want                bool
	}{
		{"charts.example.org", "443", "10.0.0.1", true},
		{"charts.example.org", "443", "169.254.169.254", false},
		{"charts.example.org", "443", "::ffff:169.254.169.254", false},
		{"charts.example.org", "443", "fd00:ec2::254", false},
		{"a.example.net", "8443", "127.0.0.1", true},
		{"a.example.net", "443", "127.0.0.1", false},
		{"example.net", "8443", "127.0.0.1", false},
		{"ghcr.io", "443", "10.0.0.1", false}, // of the lock, which anybody's chart is in
		{"ghcr.io", "443", "140.82.121.4", true},
		{"169.254.169.254", "80", "169.254.169.254", true},
	} {
		if got := o.allowsAddress(test.host, test.port, netip.MustParseAddr(test.address)); got != test.want {
			t.Errorf("%s:%s at %s: %t", test.host, test.port, test.address, got)
		}
	}
	for address, want := range map[string]bool{"https://ghcr.io/x": true, "https://charts.example.org:8080": true, "https://evil.example": false, "https://ghcr.io.evil.example": false} {
		u, err := url.Parse(address)
		rendertest.OK(t, err)
		if got := o.allows(u) == nil; got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// TestDialLooksAtAddress asks nothing of a server on the loopback address,
// however its address is written, by a name or along a redirect.
func TestDialLooksAtAddress(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked.Add(1) }))
	t.Cleanup(s.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	hosts := []string{"127.0.0.1", "localhost", "localhost.", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "2130706433", "0x7f000001", "127.1"}
	get := func(o Options, address string) error {
		o.Timeout = 20 * time.Second
		_, err := New(o).Fetch(t.Context(), Want{Remote: &render.Remote{Kind: render.URLFile, URL: address}})
		return err
	}
	for _, host := range hosts {
		if err := get(Options{}, "http://"+host+":"+port+"/x"); err == nil || asked.Load() > 0 {
			t.Fatalf("%s was asked", host)
		}
	}
	from := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+strings.TrimPrefix(r.URL.Path, "/")+":"+port+"/x", http.StatusFound)
	}))
	t.Cleanup(from.Close)
	named := strings.TrimPrefix(from.URL, "http://")
	for _, host := range hosts {
		if err := get(Options{Hosts: []string{named}}, from.URL+"/"+host); err == nil || asked.Load() > 0 {
			t.Fatalf("%s was asked along a redirect", host)
		}
	}
	if err := get(Options{Hosts: []string{"localhost"}}, "http://localhost:"+port+"/x"); err != nil || asked.Load() != 1 {
		t.Errorf("localhost is named: %v", err)
	}

	// A proxy is asked nothing that it would find within the network.
	proxied := Options{Proxy: func(*http.Request) (*url.URL, error) { return url.Parse(s.URL) }}
	for _, host := range append(hosts, "metadata.google.internal", "169.254.169.254") {
		if err := get(proxied, "http://"+host+"/x"); err == nil || asked.Load() != 1 {
			t.Fatalf("%s was asked through a proxy", host)
		}
	}
	if err := get(proxied, "http://charts.example.org/x"); err != nil || asked.Load() != 2 {
		t.Errorf("through a proxy: %v", err)
	}
}

// TestGitHosts asks the git program for nothing of hosts that may not be asked.
func TestGitHosts(t *testing.T) {
	t.Parallel()
	var cloned []Clone
	git := func(_ context.Context, c Clone) (string, []byte, error) {
		cloned = append(cloned, c)
		return "", nil, nil
	}
	get := func(o Options, address string) error {
		o.Timeout, o.Git = 20*time.Second, git
		_, err := New(o).Fetch(t.Context(), Want{Remote: &render.Remote{Kind: render.GitTree, URL: address}})
		return err
	}
	only := Options{Hosts: []string{"git.example.org"}, Only: true}
	for _, address := range []string{
		"https://evil.example/x.git", "ssh://git@evil.example/x.git", "git@evil.example:x.git", "http://127.0.0.1/x.git", "ext::sh -c id", "file:///etc",
		"/etc", "git://git.example.org/x", "-oProxyCommand=id:x", "foo::https://git.example.org/x",
	} {
		if err := get(only, address); err == nil {
			t.Errorf("%s was cloned", address)
		}
	}
	for _, address := range []string{"http://127.0.0.1/x.git", "ssh://git@localhost/x.git", "git@localhost:x.git", "ssh://[::1]/x"} {
		if err := get(Options{}, address); err == nil || !strings.Contains(err.Error(), "private address") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if len(cloned) > 0 {
		t.Errorf("cloned: %v", cloned)
	}
	for _, address := range []string{"https://git.example.org/x.git", "ssh://git@git.example.org/x.git", "git@git.example.org:x.git"} {
		if err := get(only, address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	if len(cloned) != 3 {
		t.Errorf("cloned: %v", cloned)
	}
}
