package authz

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// The interface of k8s.io/apiserver that engines ask.
var _ authorizer.UnconditionalAuthorizer = (*Authorizer)(nil)

// ask puts a check in one line, "USER[;GROUP...] VERB RESOURCE.GROUP/SUB [NAME]
// [-n NAMESPACE] [-f FIELDS] [-l LABELS]" or "USER VERB /path", and returns the
// answer in one: allow, deny, noopinion or unknown, and what it says.
func ask(t testing.TB, a *Authorizer, line string) string {
	t.Helper()
	decision, reason, err := a.Authorize(context.Background(), parseCheck(t, line))
	var u *cel.Undecided
	switch {
	case errors.As(err, &u):
		return "unknown: " + u.Question
	case err != nil:
		return fmt.Sprintf("%s error: %v", strings.ToLower(decision.String()), err)
	case reason != "":
		return fmt.Sprintf("%s: %s", strings.ToLower(decision.String()), reason)
	}
	return strings.ToLower(decision.String())
}

func parseCheck(t testing.TB, line string) authorizer.AttributesRecord {
	t.Helper()
	words := strings.Fields(line)
	if len(words) < 3 {
		t.Fatalf("%q is no check", line)
	}
	who := strings.Split(words[0], ";")
	a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: strings.TrimPrefix(who[0], "-"), Groups: who[1:]}, Verb: words[1]}
	if strings.HasPrefix(words[2], "/") {
		a.Path = words[2]
		return a
	}
	a.ResourceRequest = true
	resource, sub, _ := strings.Cut(words[2], "/")
	a.Subresource = sub
	a.Resource, a.APIGroup, _ = strings.Cut(resource, ".")
	for rest := words[3:]; len(rest) > 0; {
		if !strings.HasPrefix(rest[0], "-") {
			a.Name, rest = rest[0], rest[1:]
			continue
		}
		switch rest[0] {
		case "-n":
			a.Namespace = rest[1]
		case "-f":
			s, err := fields.ParseSelector(rest[1])
			if a.FieldSelectorParsingErr = err; err == nil {
				a.FieldSelectorRequirements = s.Requirements()
			}
		case "-l":
			a.LabelSelectorRequirements, a.LabelSelectorParsingErr = labels.ParseToRequirements(rest[1])
		default:
			t.Fatalf("%q: what is %s?", line, rest[0])
		}
		rest = rest[2:]
	}
	return a
}

// objects parses YAML, with the file's name as its unit.
func objects(t testing.TB, file, text string) []*render.Object {
	t.Helper()
	all := rendertest.Parse(t, file, text)
	unit := &render.Unit{Source: render.Source{Path: file}}
	for _, o := range all {
		o.Unit = unit
	}
	return all
}

func mustNew(t testing.TB, mode string, o Options) *Authorizer {
	t.Helper()
	a, err := New(mode, o)
	rendertest.OK(t, err)
	return a
}

func cluster(t testing.TB, text string) Options {
	return Options{Cluster: policy.NewCluster(objects(t, "tree.yaml", text)...)}
}

func TestModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, check, want string }{
		{"", "jane get pods -n prod", `unknown: needs to know whether jane may get pods in namespace prod`},
		{"unknown", "system:serviceaccount:prod:web get secrets -n prod", `unknown: needs to know whether system:serviceaccount:prod:web may get secrets in namespace prod`},
		{"unknown", "root;system:masters update deployments.apps/scale web -n prod", `unknown: needs to know whether root may update deployments.apps/scale "web" in namespace prod`},
		{"unknown", "- get /healthz", `unknown: needs to know whether the user may get /healthz`},
		{"unknown", "jane list pods -f spec.nodeName=n1,metadata.name!=x -l b=c,a", `unknown: needs to know whether jane may list pods where metadata.name!=x,spec.nodeName=n1 labelled a,b=c`},
		{"allow", "jane delete nodes", "allow"},
		{"allow", "- delete nodes", "allow"},
		{"deny", "root;system:masters get pods", "deny: every check is assumed to be denied"},
		{"deny", "jane get /metrics", "deny: every check is assumed to be denied"},
	} {
		if got := ask(t, mustNew(t, c.mode, Options{}), c.check); got != c.want {
			t.Errorf("%s: %s:\n got %s\nwant %s", c.mode, c.check, got, c.want)
		}
	}
}

func TestLongQuestion(t *testing.T) {
	t.Parallel()
	got := ask(t, mustNew(t, "unknown", Options{}), "jane get pods "+strings.Repeat("x", 1<<20))
	if len(got) > 2000 || !strings.HasPrefix(got, `unknown: needs to know whether jane may get pods "xxx`) {
		t.Errorf("%d bytes: %.100s", len(got), got)
	}
}

func TestAssumed(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"":      "",
		"allow": "authorizer: every check assumed to be allowed",
		"deny":  "authorizer: every check assumed to be denied",
		"rbac": "authorizer: RBAC, by the Roles and bindings in the tree and in --with, and the default ones of Kubernetes 1.31;" +
			" others are assumed not to exist",
	} {
		a := mustNew(t, mode, Options{KubeVersion: "1.31"})
		if a.Assumed != want {
			t.Errorf("%s: assumed %q, want %q", mode, a.Assumed, want)
		}
	}
}

func TestBadMode(t *testing.T) {
	t.Parallel()
	_, err := New("rbca", Options{})
	if err == nil || err.Error() != `"rbca" is none of unknown, allow, deny, rbac` {
		t.Errorf("mode rbca: %v", err)
	}
	if _, err := New("rbac", Options{KubeVersion: "two"}); err == nil {
		t.Error("version two is no error")
	}
}
