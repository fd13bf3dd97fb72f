package apiserver

import (
	"testing"
	"time"
)

// TestNestedRelease holds that a call for a release can be made within another one while a third, for another
// release, waits: the admission plugins prepare further objects.
func TestNestedRelease(t *testing.T) {
	t.Parallel()
	outside, inside := make(chan bool), make(chan bool)
	go as(37, func() {
		go as(30, func() { close(outside) })
		time.Sleep(50 * time.Millisecond) // the other call waits by now
		as(37, func() { close(inside) })
	})
	for _, done := range []chan bool{inside, outside} {
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatal("the calls wait for each other")
		}
	}
}
