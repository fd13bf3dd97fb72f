package config

import (
	"cmp"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// check returns an error if an entry is incomplete or inconsistent.
func (f *File) check() error {
	names := make(map[string]bool)
	for _, c := range f.Clusters {
		switch {
		case c.Name == "":
			return Errorf(c.Line, "clusters: name is missing")
		case strings.ContainsAny(c.Name, ":/"):
			return Errorf(c.Line, "clusters: name %q has a colon or slash in it", c.Name)
		case names[c.Name]:
			return Errorf(c.Line, "clusters: there are two with the name %q", c.Name)
		}
		names[c.Name] = true
		for _, p := range slices.Concat(c.Entry, c.With) {
			if err := inRepository(c.Line, p); err != nil {
				return err
			}
		}
	}
	for _, d := range f.Deployments {
		if d.Path == "" {
			return Errorf(d.Line, "deployments: path is missing")
		}
		if d.Cluster != "" && !names[d.Cluster] {
			return Errorf(d.Line, "deployments: no cluster %q is declared under clusters", d.Cluster)
		}
		for _, p := range append([]string{d.Path, path.Join(d.Path, d.ValuesEach)}, d.Values...) {
			if err := inRepository(d.Line, p); err != nil {
				return err
			}
		}
	}
	return f.checkSources()
}

func (f *File) checkSources() error {
	for _, x := range f.Sources {
		switch {
		case x.Path == "":
			return Errorf(x.Line, "sources: path is missing")
		case (x.URL == "") == (x.Object == ""):
			return Errorf(x.Line, "sources: want either url or object")
		case x.Object != "" && strings.Count(x.Object, "/") != 2:
			return Errorf(x.Line, "sources: object %q: want KIND/NAMESPACE/NAME", x.Object)
		}
	}
	for _, g := range f.Generators {
		if strings.Count(g.ApplicationSet, "/") != 1 {
			return Errorf(g.Line, "generators: applicationset %q: want NAMESPACE/NAME", g.ApplicationSet)
		}
	}
	for _, host := range f.Fetch.Hosts {
		if host == "" || strings.ContainsAny(host, "/ @") {
			return Errorf(f.Fetch.Line, "fetch: hosts: %q is no host name, such as charts.example.org", host)
		}
	}
	for _, catalogue := range f.Fetch.CRDs {
		if strings.HasPrefix(catalogue, "https://") || strings.HasPrefix(catalogue, "http://") {
			continue
		}
		if err := inRepository(f.Fetch.Line, catalogue); err != nil || catalogue == "" {
			return cmp.Or(err, Errorf(f.Fetch.Line, "fetch: crds: want URLs or directories"))
		}
	}
	for _, v := range f.Fetch.Verify {
		if v.URL == "" || v.Key == "" {
			return Errorf(v.Line, "fetch: verify: want url and key")
		}
		if err := inRepository(v.Line, v.Key); err != nil {
			return err
		}
	}
	return nil
}

func inRepository(line int, p string) error {
	if p != "" && !filepath.IsLocal(filepath.FromSlash(p)) && path.Clean(p) != "." {
		return Errorf(line, "%q leads out of the repository", p)
	}
	return nil
}
