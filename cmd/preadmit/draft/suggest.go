package draft

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/preadmit/preadmit/cmd/preadmit/config"
	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/evaluate"
	"github.com/preadmit/preadmit/cmd/preadmit/graph"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/schema"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/store"
)

// pack suggests the pack that is used because there are no policies.
func (d *draft) pack() {
	if !d.run.Engines.Implied {
		return
	}
	n, first := 0, ""
	for r := range d.report.Others() {
		if r.Engine == policy.EnginePodSecurity && r.Outcome == policy.Fail && !r.Unreached {
			if n++; n == 1 {
				first = ", the first at " + place(r)
			}
		}
	}
	d.suggest("pack", fmt.Sprintf("No policy is read, so check uses this pack, and its failures only warn (%d today%s). With this line they are denied, and the pack stays when policies are added.",
		n, first)).value = engines.DefaultPack
}

func place(r *policy.Result) string {
	if len(r.Origins) == 0 {
		return cmp.Or(r.Object.Unit, "no place")
	}
	return fmt.Sprintf("%s:%d", r.Origins[0].File, max(r.Origins[0].Line, 1))
}

// cluster suggests the version of the API server, and objects that it has and that decide results.
func (d *draft) cluster() {
	if d.options.KubeVersion == "" {
		versions := schema.Versions()
		d.suggest("kube-version", "The tree does not show the version of the API server, so the newest that preadmit knows is assumed.").value = strconv.Quote(versions[len(versions)-1])
	}
	with := func(text, get, file string) {
		to := path.Join(path.Dir(config.Path), file)
		d.suggest("with", text+". First run: "+strings.Replace(get, "> "+file, "> "+to, 1), list(to)...)
	}
	for _, l := range d.report.Lacks() {
		with(l.Text, l.Get, l.File)
	}
	if text := evaluate.WithoutSchema(d.run.Engines.Unknown, render.Objects(d.in.Head)); text != "" {
		with(text, evaluate.CRDs, "crds.yaml")
	}
}

// deployed suggests deployments that no object of the tree makes.
func (d *draft) deployed() {
	why, deploy, exclude := evaluate.Doubt(d.in)
	if exclude != nil {
		d.suggest("exclude", why+". Failures of what they deploy are not reported then:", list(exclude...)...)
	}
	if deploy != nil {
		d.suggest("gitops", fmt.Sprintf("No object of Argo CD or Flux here deploys %d of %s, and their failures do not count. If nothing deploys them, this line leaves them out of reports; else see deployments.",
			d.report.Summary.Unreached, policy.Plural(d.report.Summary.Discovered, "unit"))).value = load.GitOpsOnly
		var lines []string
		for _, p := range deploy {
			lines = append(lines, "- path: "+config.DeployedPath(p))
		}
		d.suggest("deployments", why+":", lines...)
	}
	var names, lines []string
	for _, u := range d.in.Head {
		if u.Kind != "helm" || u.ID != "" || u.State == render.Unreached || render.Below(deploy, u.Path) {
			continue
		}
		item, n := "- path: "+config.DeployedPath(u.Path)+"\n  values", len(lines)
		for _, glob := range []string{"values-*.yaml", "ci/*-values.yaml"} { // as charts' authors and chart-testing name them
			if found, err := fs.Glob(d.in.Tree, path.Join(config.GlobOf(u.Path), glob)); err == nil && len(found) > 0 {
				lines = append(lines, item+"-each: "+config.Scalar(glob))
			}
		}
		if d.in.Deployed.Roots[u] && len(lines) == n {
			lines = append(lines, item+":")
		}
		if len(lines) > n {
			names = append(names, d.in.Tree.Display(u.Path))
		}
	}
	if len(names) > 0 {
		d.suggest("deployments", "No object here deploys these charts, so they are rendered with their default values, although they have other values files or hold objects of Argo CD or Flux: "+policy.Few(names)+
			". If they are deployed with other values, these lines render them with those instead:", lines...)
	}
}

// hidden suggests to check what is left out as hidden or as fixtures.
func (d *draft) hidden() {
	n, first := 0, ""
	for _, t := range d.in.Documents() {
		own := strings.HasPrefix(t.File, path.Dir(config.Path)+"/")
		if t.State == render.DocFixture || t.State == render.DocExcluded && !own && !d.options.Selection.Excludes(t.File) {
			if n++; n == 1 {
				first = fmt.Sprintf("%s:%d", d.in.Tree.Display(t.File), t.Line)
			}
		}
	}
	if n > 0 {
		d.suggest("include-hidden", fmt.Sprintf("Left out as fixtures of test suites, or in hidden folders: %s, the first at %s. If they are deployed:", policy.Plural(n, "Kubernetes object"), first)).value = "true"
	}
}

// asked suggests the keys that results name as their next step. What preadmit fetch can bring is
// left to fetch.
func (d *draft) asked() {
	type question struct{ key, rule, hint string }
	results := make(map[question][]*policy.Result)
	var order []question
	keys := regexp.MustCompile(`\b(` + strings.Join(config.Keys(), "|") + `)\b`)
	for r := range d.report.Others() {
		_, under, found := strings.Cut(r.Hint, " under ")
		if !found {
			under = r.Hint
		}
		q := question{keys.FindString(under), r.Rule, r.Hint}
		if q.key == "" || !strings.Contains(q.hint, config.Path) || strings.HasPrefix(q.hint, "run `preadmit fetch`") {
			continue
		}
		if results[q] == nil {
			order = append(order, q)
		}
		results[q] = append(results[q], r)
	}
	fields := ""
	for _, q := range order {
		first, more := results[q][0], ""
		if n := len(results[q]) - 1; n > 0 {
			more = fmt.Sprintf(" and %d more", n)
		}
		hint := strings.NewReplacer(", in "+config.Path, "", " in "+config.Path, "").Replace(q.hint)
		reason := fmt.Sprintf("At %s%s: %s. To settle this, %s.", place(first), more, first.Message, hint)
		var lines []string
		switch q.key {
		case "clusters":
			fields += " " + hint
		case "sources":
			lines = []string{"- object:\n  path:"}
		case "generators":
			for _, r := range results[q] {
				line := "- applicationset:"
				if _, set, ok := strings.Cut(r.Object.Unit, "applicationset/"); ok {
					line += " " + config.Scalar(set)
				}
				lines = append(lines, line+"\n  params:")
			}
		}
		d.suggest(q.key, reason, lines...)
	}
	d.clusters(fields)
}

// clusters suggests the clusters that the tree shows, with the fields that hints name, which are empty.
func (d *draft) clusters(hints string) {
	fields := ""
	for _, x := range []struct{ field, named string }{{"server", "with its server"}, {"labels", "and labels"}, {"with", "clusters[].with"}, {"substitute", "clusters[].substitute"}} {
		if strings.Contains(hints, x.named) {
			fields += "\n  " + x.field + ":"
		}
	}
	entries := make(map[string][]string)
	for _, u := range d.in.Head {
		entry := ""
		for dir := u.Path; d.in.Deployed.Roots[u] && dir != "."; dir = path.Dir(dir) {
			if path.Base(dir) == u.Cluster {
				entry = dir
			}
		}
		if entry != "" && !slices.Contains(entries[u.Cluster], entry) {
			entries[u.Cluster] = append(entries[u.Cluster], entry)
		}
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		lines = append(lines, "- name: "+config.Scalar(name)+"\n  entry: "+config.List(entries[name])+fields)
	}
	switch {
	case len(lines) > 0:
		d.suggest("clusters", "These folders have objects of the same names, so check takes each for a cluster. To give a cluster its version, or what is not in Git:", lines...)
	case hints != "":
		d.suggest("clusters", "", "- name:"+fields)
	}
}

// fetch suggests the hosts that preadmit fetch would ask.
func (d *draft) fetch() {
	needs := slices.DeleteFunc(graph.Remotes(d.in), func(n store.Need) bool { return n.State == store.Fetched })
	var hosts []string
	for _, n := range needs {
		if host, _, _ := strings.Cut(load.RepositoryName(n.URL), "/"); hostName.MatchString(host) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if slices.Sort(hosts); len(hosts) > 0 {
		d.suggest("fetch", fmt.Sprintf("Not in the tree: %s, which preadmit fetch downloads and locks. With this line it asks no other host, also not one to which these refer, such as for their downloads.",
			policy.Plural(len(needs), "source"))).value = "{hosts: " + config.List(hosts) + "}"
	}
}

var hostName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
