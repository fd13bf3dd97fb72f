package main

import (
	"errors"
	"io"
	"log"
	"net/http"
	"os"

	"k8s.io/klog/v2"
)

// quietLibraries keeps what libraries log out of standard error, which it
// returns: what a reader must know is a result. kustomize writes to os.Stderr
// itself.
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

// cutOff is a second layer under "offline": renderers refuse what is remote
// before any library sees it, and should one be asked all the same, it finds
// no transport and no program to run. The path is kept under a name of its own
// for the one program that a person may ask triage to run, the editor.
func cutOff() {
	http.DefaultTransport = refuse{}
	os.Setenv(editorPath, os.Getenv("PATH"))
	os.Setenv("PATH", "")
}

type refuse struct{}

func (refuse) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, errors.New("preadmit opens no connection: " + r.URL.Redacted())
}
