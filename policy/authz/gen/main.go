// Command gen writes defaults.tsv: the roles and bindings that an API server
// makes when it starts, by Kubernetes version. Its sources are the objects
// recorded beside the bootstrap policy of the k8s.io/kubernetes modules, taken
// as data; they are those of the default feature gates.
package main

import (
	"bytes"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/preadmit/preadmit/policy/internal/releases"
)

const (
	policy  = "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata"
	boot    = "kubernetes.io/bootstrapping"
	heading = `# Written by gen: what an API server makes when it starts, by the versions 1.N that make it.
# ClusterRole, versions, name, labels, labels of the roles that it aggregates
# Role, versions, namespace/name
#   (tab) versions, verbs, groups, resources, resourceNames, nonResourceURLs: a rule of the role above
# ClusterRoleBinding, versions, name, role, subjects
# RoleBinding, versions, namespace/name, role, subjects
`
)

// files are the lists of objects, in the order in which they are written.
var files = []string{
	"cluster-roles.yaml", "controller-roles.yaml", "namespace-roles.yaml",
	"cluster-role-bindings.yaml", "controller-role-bindings.yaml", "namespace-role-bindings.yaml",
}

// A row is a line of the table, with the rows below it.
type row struct {
	text     string // what follows the versions
	kind     string // what precedes them; "" for a rule
	versions uint32 // bits that count from 1.29
	rows     table
}

// A table is rows in the order in which they were first seen.
type table struct {
	rows []*row
	at   map[string]*row
}

func (t *table) add(kind, text string, bit int) *row {
	if t.at == nil {
		t.at = map[string]*row{}
	}
	r := t.at[kind+text]
	if r == nil {
		r = &row{kind: kind, text: text}
		t.at[kind+text] = r
		t.rows = append(t.rows, r)
	}
	r.versions |= 1 << bit
	return r
}

func main() {
	log.SetFlags(0)
	var t table
	for bit, release := range releases.All {
		dir, err := releases.Dir(release)
		if err != nil {
			log.Fatal(err)
		}
		for _, f := range files {
			if err := t.read(filepath.Join(dir, policy, f), bit); err != nil {
				log.Fatalf("%s: %s: %v", release, f, err)
			}
		}
	}
	var b bytes.Buffer
	b.WriteString(heading)
	t.write(&b)
	if err := os.WriteFile("defaults.tsv", b.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// An object is any of the four kinds.
type object struct {
	rbacv1.ClusterRole
	RoleRef  rbacv1.RoleRef   `json:"roleRef"`
	Subjects []rbacv1.Subject `json:"subjects"`
}

func (t *table) read(file string, bit int) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var list struct{ Items []object }
	if err := yaml.Unmarshal(data, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if err := t.object(&list.Items[i], bit); err != nil {
			return fmt.Errorf("%s: %w", list.Items[i].Name, err)
		}
	}
	return nil
}

func (t *table) object(o *object, bit int) error {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	switch o.Kind {
	case "ClusterRoleBinding", "RoleBinding":
		t.add(o.Kind, line(name, o.RoleRef.Kind+" "+o.RoleRef.Name, subjects(o.Subjects)), bit)
		return nil
	}
	labels, err := only(o.Labels)
	if err != nil {
		return err
	}
	selects, err := selected(o.AggregationRule)
	if err != nil {
		return err
	}
	r := t.add(o.Kind, line(name, labels, selects), bit)
	for _, rule := range o.Rules {
		r.rows.add("", line(list(rule.Verbs), list(rule.APIGroups), list(rule.Resources), list(rule.ResourceNames), list(rule.NonResourceURLs)), bit)
	}
	return nil
}

func line(columns ...string) string {
	return strings.TrimRight(strings.Join(columns, "\t"), "\t")
}

// list joins names; the core group is "-".
func list(names []string) string {
	names = slices.Clone(names)
	for i, n := range names {
		if n == "" {
			names[i] = "-"
		}
	}
	return strings.Join(names, ",")
}

func subjects(all []rbacv1.Subject) string {
	var out []string
	for _, s := range all {
		name := s.Name
		if s.Namespace != "" {
			name = s.Namespace + "/" + s.Name
		}
		out = append(out, s.Kind+" "+name)
	}
	return strings.Join(out, ",")
}

// only returns the labels except the one that all of them have. All are "true".
func only(labels map[string]string) (string, error) {
	if labels[boot] != "rbac-defaults" {
		return "", fmt.Errorf("no label %s", boot)
	}
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if k != boot && labels[k] != "true" {
			return "", fmt.Errorf("label %s is %q", k, labels[k])
		}
		if k != boot {
			keys = append(keys, k)
		}
	}
	return strings.Join(keys, ","), nil
}

func selected(r *rbacv1.AggregationRule) (string, error) {
	if r == nil {
		return "", nil
	}
	var keys []string
	for _, s := range r.ClusterRoleSelectors {
		if len(s.MatchExpressions) > 0 || len(s.MatchLabels) != 1 {
			return "", fmt.Errorf("selector %v", s)
		}
		for k, v := range s.MatchLabels {
			if v != "true" {
				return "", fmt.Errorf("selector %v", s)
			}
			keys = append(keys, k)
		}
	}
	return strings.Join(keys, ","), nil
}

func (t *table) write(b *bytes.Buffer) {
	for _, r := range t.rows {
		fmt.Fprintf(b, "%s\t%s\t%s\n", r.kind, spans(r.versions), r.text)
		r.rows.write(b)
	}
}

// spans writes versions as "29-33,35-"; an open end is the newest and later.
func spans(bits uint32) string {
	var out []string
	for i := 0; i < len(releases.All); i++ {
		if bits>>i&1 == 0 {
			continue
		}
		from := i
		for i < len(releases.All) && bits>>i&1 == 1 {
			i++
		}
		to := ""
		if i < len(releases.All) {
			to = fmt.Sprint(releases.Oldest + i - 1)
		}
		out = append(out, fmt.Sprintf("%d-%s", releases.Oldest+from, to))
	}
	return strings.Join(out, ",")
}
