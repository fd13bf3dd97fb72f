package kustomize

import (
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/kustomize/api/types"

	"github.com/preadmit/preadmit/render"
)

// A refKind says what a reference may name and how kustomize reads it.
type refKind int

const (
	refResource      refKind = iota // a manifest file or the directory of another kustomization
	refComponent                    // the directory of a component
	refPlugin                       // generators, transformers, validators: a file, a directory or YAML
	refPatch                        // a file with a patch
	refMerge                        // a file with a strategic merge patch, or the patch itself
	refReplacement                  // a file with replacements
	refConfiguration                // a file with field specs
	refCRD                          // a file with OpenAPI definitions
	refSchema                       // the OpenAPI schema to build with
	refData                         // any file; its content becomes a value
	refValues                       // a values file of a chart
)

// nouns name the target of a reference in messages and, with "missing-" in
// front, in rules.
var nouns = [...]string{
	refResource: "resource", refComponent: "component", refPlugin: "plugin", refPatch: "patch",
	refMerge: "patch", refReplacement: "replacement", refConfiguration: "configuration", refCRD: "crd",
	refSchema: "openapi schema", refData: "file", refValues: "values file",
}

// A ref is one path or URL in a kustomization.
type ref struct {
	at   []any // its path: "resources", 0
	text string
	kind refKind
	span render.Span // set if the reference is in another file: that of a plugin's configuration
}

// references returns the references of a kustomization in the order of its
// fields, except those of charts.
func references(k *types.Kustomization) []ref {
	var refs refList
	refs.all(refResource, "resources", k.Resources)
	refs.all(refResource, "bases", k.Bases)
	refs.all(refComponent, "components", k.Components)
	refs.all(refCRD, "crds", k.Crds)
	refs.all(refConfiguration, "configurations", k.Configurations)
	refs.add(refSchema, k.OpenAPI["path"], "openapi", "path")
	for i := range k.ConfigMapGenerator {
		refs.sources(&k.ConfigMapGenerator[i].KvPairSources, "configMapGenerator", i)
	}
	for i := range k.SecretGenerator {
		refs.sources(&k.SecretGenerator[i].KvPairSources, "secretGenerator", i)
	}
	refs.all(refPlugin, "generators", k.Generators)
	for i, p := range k.PatchesStrategicMerge {
		refs.add(refMerge, string(p), "patchesStrategicMerge", i)
	}
	for i, p := range k.Patches {
		refs.add(refPatch, p.Path, "patches", i, "path")
	}
	for i, p := range k.PatchesJson6902 {
		refs.add(refPatch, p.Path, "patchesJson6902", i, "path")
	}
	for i, r := range k.Replacements {
		refs.add(refReplacement, r.Path, "replacements", i, "path")
	}
	refs.all(refPlugin, "transformers", k.Transformers)
	refs.all(refPlugin, "validators", k.Validators)
	return refs
}

type refList []ref

func (r *refList) all(kind refKind, field string, texts []string) {
	for i, text := range texts {
		*r = append(*r, ref{at: []any{field, i}, text: text, kind: kind})
	}
}

// add appends a reference unless it is empty.
func (r *refList) add(kind refKind, text string, at ...any) {
	if text != "" {
		*r = append(*r, ref{at: at, text: text, kind: kind})
	}
}

// sources adds the files of a generator; of "key=path" the path counts.
func (r *refList) sources(s *types.KvPairSources, at ...any) {
	for i, text := range s.FileSources {
		if _, file, ok := strings.Cut(text, "="); ok {
			text = file
		}
		r.add(refData, text, append(at[:len(at):len(at)], "files", i)...)
	}
	for i, text := range s.EnvSources {
		r.add(refData, text, append(at[:len(at):len(at)], "envs", i)...)
	}
	r.add(refData, s.EnvSource, append(at[:len(at):len(at)], "env")...)
}

// userHost matches the user in git@host:path as kustomize does, see
// extractUsername in its internal/git/repospec.go.
var userHost = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*@`)

// remote reports whether text may name something to fetch. It may be true for
// text that kustomize reads as a path, but is never false for text that
// kustomize would fetch.
func remote(text string) bool {
	return fetches(text) || strings.Contains(text, "://")
}

// fetches reports whether kustomize could take text for something to fetch.
// kustomize checks this in IsRemoteFile, which accepts any spelling of http,
// and in NewRepoSpecFromURL, which accepts ssh, file, GitHub's host, a user
// before the host and go-getter's "git::" (internal/loader and internal/git).
// Both look at the beginning of the text.
func fetches(text string) bool {
	if u, err := url.Parse(text); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return true
	}
	lower := strings.ToLower(strings.TrimSpace(text))
	for _, prefix := range []string{"git::", "github.com/", "github.com:", "http:", "https:", "ssh:", "file:", "git:"} {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	return userHost.MatchString(text)
}

// inside joins a reference to the directory it is relative to; ok is false
// when it is absolute or leads out of the tree.
func inside(dir, text string) (name string, ok bool) {
	if path.IsAbs(text) || filepath.IsAbs(text) {
		return "", false
	}
	name = path.Join(dir, filepath.ToSlash(text))
	return name, name != ".." && !strings.HasPrefix(name, "../")
}

// ambiguous reports whether YAML joined two entries of a list to one path
// because the second is indented deeper. kustomize has the same check
// (hasAmbiguousPathSegment in its internal/loader/fileloader.go).
func ambiguous(text string) bool {
	for part := range strings.SplitSeq(filepath.ToSlash(text), "/") {
		if part != ".." && strings.Contains(part, "..") {
			return true
		}
	}
	return false
}

// below reports whether name is dir or inside it.
func below(name, dir string) bool {
	return dir == "." || name == dir || strings.HasPrefix(name, dir+"/")
}
