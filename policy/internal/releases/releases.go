// Package releases lists the k8s.io/kubernetes modules from which the generators of
// policy/authz and policy/schema take tables.
package releases

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Oldest is the minor version of the first of All.
const Oldest = 29

// All are the modules' versions, one a Kubernetes version, in order.
var All = []string{"v1.29.6", "v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3"}

// Dir downloads a release into the module cache, and returns its directory there.
func Dir(release string) (string, error) {
	tmp, err := os.MkdirTemp("", "gen")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	if err := os.WriteFile(filepath.Join(tmp, "go.mod"), []byte("module gen\n"), 0o644); err != nil {
		return "", err
	}
	c := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@"+release)
	c.Dir = tmp
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", release, err)
	}
	var m struct{ Dir string }
	err = json.Unmarshal(out, &m)
	return m.Dir, err
}
