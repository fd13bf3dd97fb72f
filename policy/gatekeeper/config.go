package gatekeeper

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/gatekeeper/internal/document"
	"github.com/preadmit/preadmit/render"
)

// A config has the namespaces that the Config excludes, and the kinds that Config and
// SyncSets put into data.inventory. nil has neither
// (gatekeeper/v3/pkg/controller/config/process, pkg/cachemanager).
type config struct {
	excluded []exclusion
	synced   map[schema.GroupVersionKind]bool // nil: not configured
}

// An exclusion leaves a namespace out of some of Gatekeeper's processes.
type exclusion struct {
	object    *render.Object
	pointer   string
	namespace document.Wildcard
	processes []string
}

// The processes of Gatekeeper that can leave namespaces out.
const (
	processWebhook  = "webhook"
	processMutation = "mutation-webhook"
	processSync     = "sync"
	processAudit    = "audit"
)

var processes = []string{"*", processWebhook, processMutation, processSync, processAudit}

type configSpec struct {
	Match []struct {
		Processes          []string            `json:"processes"`
		ExcludedNamespaces []document.Wildcard `json:"excludedNamespaces"`
	} `json:"match"`
	Sync struct {
		SyncOnly []syncedKind `json:"syncOnly"`
	} `json:"sync"`
	Validation any `json:"validation"`
	Readiness  any `json:"readiness"`
}

type syncSetSpec struct {
	GVKs []syncedKind `json:"gvks"`
}

type syncedKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

// newConfig reads the Config and the SyncSets among the objects.
func newConfig(objects []*render.Object) (*config, []error) {
	c := &config{}
	var errs []error
	for _, o := range objects {
		switch gvk := o.GroupVersionKind(); {
		case gvk.Group == configGroup && gvk.Kind == "Config":
			errs = append(errs, c.readConfig(o)...)
		case gvk.Group == syncSetGroup && gvk.Kind == "SyncSet":
			errs = append(errs, c.readSyncSet(o)...)
		}
	}
	return c, errs
}

func (c *config) readConfig(o *render.Object) []error {
	if o.GetName() != "config" {
		return []error{policy.ErrorAt(o, "/metadata/name", "config", fmt.Errorf("Gatekeeper reads only a Config with the name config, and this one is %q", o.GetName()))}
	}
	var spec configSpec
	errs := document.Decode(o, "/spec", o.Object["spec"], &spec, "config")
	if document.Broken(errs) {
		return errs
	}
	for i, m := range spec.Match {
		base := render.Pointer("spec", "match", i)
		for j, p := range m.Processes {
			if !slices.Contains(processes, p) {
				errs = append(errs, document.Warning(o, base+render.Pointer("processes", j), "config", fmt.Errorf("process %q is none of %s", p, strings.Join(processes, ", "))))
			}
		}
		for j, n := range m.ExcludedNamespaces {
			pointer := base + render.Pointer("excludedNamespaces", j)
			if !document.WildcardPattern.MatchString(string(n)) {
				errs = append(errs, policy.ErrorAt(o, pointer, "config", fmt.Errorf("%q is not a name; it may begin or end with *", n)))
				continue
			}
			c.excluded = append(c.excluded, exclusion{o, pointer, n, m.Processes})
		}
	}
	c.sync(spec.Sync.SyncOnly)
	return errs
}

func (c *config) readSyncSet(o *render.Object) []error {
	var spec syncSetSpec
	errs := document.Decode(o, "/spec", o.Object["spec"], &spec, "syncset")
	if !document.Broken(errs) {
		c.sync(spec.GVKs)
	}
	return errs
}

func (c *config) sync(kinds []syncedKind) {
	if c.synced == nil {
		c.synced = map[schema.GroupVersionKind]bool{}
	}
	for _, k := range kinds {
		c.synced[schema.GroupVersionKind{Group: k.Group, Version: k.Version, Kind: k.Kind}] = true
	}
}

// excludes returns the exclusion of a namespace from a process, or nil.
func (c *config) excludes(process, namespace string) *exclusion {
	if c == nil || namespace == "" {
		return nil
	}
	for i := range c.excluded {
		x := &c.excluded[i]
		if (slices.Contains(x.processes, process) || slices.Contains(x.processes, "*")) && x.namespace.Matches(namespace) {
			return x
		}
	}
	return nil
}

// syncAnnotation lists the kinds that a template needs in data.inventory.
const syncAnnotation = "metadata.gatekeeper.sh/requires-sync-data"

// A requirement is a set of kinds; one of them must be synced.
type requirement []schema.GroupVersionKind

// requirements parses the template's annotation
// metadata.gatekeeper.sh/requires-sync-data.
func requirements(o *render.Object) ([]requirement, []error) {
	text := strings.Trim(o.GetAnnotations()[syncAnnotation], "\n\"")
	if text == "" {
		return nil, nil
	}
	var clauses [][]struct {
		Groups   []string `json:"groups"`
		Versions []string `json:"versions"`
		Kinds    []string `json:"kinds"`
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&clauses); err != nil {
		return nil, []error{document.Warning(o, render.Pointer("metadata", "annotations", syncAnnotation), "template", fmt.Errorf("the annotation is not a list of lists of {groups, versions, kinds}, in JSON"))}
	}
	var all []requirement
	for _, alternatives := range clauses {
		var r requirement
		for _, c := range alternatives {
			for _, group := range c.Groups {
				for _, version := range c.Versions {
					for _, kind := range c.Kinds {
						r = append(r, schema.GroupVersionKind{Group: group, Version: version, Kind: kind})
					}
				}
			}
		}
		all = append(all, r)
	}
	return all, nil
}

// unsynced returns warnings about templates that need kinds which neither the
// Config nor a SyncSet syncs. Their policies would miss violations.
func (c *config) unsynced(all templates) []error {
	if c.synced == nil {
		return nil
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t := all[name]
		for _, r := range t.requires {
			if !slices.ContainsFunc(r, func(k schema.GroupVersionKind) bool { return c.synced[k] }) {
				errs = append(errs, document.Warning(t.object, render.Pointer("metadata", "annotations", syncAnnotation), "template",
					fmt.Errorf("template %s needs %s in data.inventory, which neither the Config nor a SyncSet syncs: it does not see any", name, r)))
			}
		}
	}
	return errs
}

func (r requirement) String() string {
	names := make([]string, len(r))
	for i, k := range r {
		names[i] = strings.TrimPrefix(k.GroupVersion().String()+" ", "/") + k.Kind
	}
	return strings.Join(names, " or ")
}
