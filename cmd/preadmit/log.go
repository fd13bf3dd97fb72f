package main

import (
	"errors"
	"io"
	"log"
	"net/http"
	"os"

	"k8s.io/klog/v2"
)

// quietLibraries redirects what libraries write to standard error, and returns
// the real standard error. Everything that a user must know is a result.
// kustomize writes to os.Stderr directly.
func quietLibraries() *os.File {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	log.SetOutput(io.Discard)
	stderr := os.Stderr
	if null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0); err == nil {
		os.Stderr = null
	}
	return stderr
}

// cutOff is a second safeguard for offline work. Renderers refuse remote references before any
// library sees them. A library that tries anyway finds no HTTP transport and no program in PATH.
// PATH is kept in another variable for the editor, the only program that triage may run.
func cutOff() {
	http.DefaultTransport = refuse{}
	os.Setenv(editorPath, os.Getenv("PATH"))
	os.Setenv("PATH", "")
}

type refuse struct{}

func (refuse) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, errors.New("preadmit opens no connection: " + r.URL.Redacted())
}

// editorPath is the environment variable that holds the original PATH. PATH
// itself is emptied, so that only the editor can start programs.
const editorPath = "PREADMIT_EDITOR_PATH"
