package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// releases are the versions of the k8s.io/kubernetes modules from which tables are taken, one a
// Kubernetes version, in order.
var releases = []string{"v1.29.6", "v1.30.14", "v1.31.14", "v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3"}

// dirOf downloads a release into the module cache, and returns its directory there.
func dirOf(release string) (string, error) {
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
