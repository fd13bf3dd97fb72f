package store

import (
	"reflect"
	"strings"
	"testing"
)

// FuzzLock holds that a lock is written so that it reads the same.
func FuzzLock(f *testing.F) {
	digest := "sha256:" + strings.Repeat("0", 64)
	for _, s := range []string{
		"version: 1\nentries:\n- {kind: helm, url: 'https://a', name: b, requested: 1.x, resolved: 1.2.3, digest: '" + digest + "', size: 3}\n",
		"version: 1\nentries: []\n", "version: 2\n", "version: 1\nentries:\n- {kind: url, url: \"a\\u0085b\", requested: '', digest: '" + digest + "', size: 0x10}\n", "- x", "\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		lock, err := ParseLock(data)
		if err != nil {
			return
		}
		text, err := lock.Marshal()
		if err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		again, err := ParseLock(text)
		if err != nil || len(lock.Entries)+len(again.Entries) > 0 && !reflect.DeepEqual(again.Entries, lock.Entries) {
			t.Errorf("%q: %+v, and written and read again %+v, %v\n%s", data, lock, again, err, text)
		}
		for i := range lock.Entries {
			if e := &lock.Entries[i]; lock.Find(e.Remote()) != e {
				t.Errorf("%q: entry %d is not found", data, i)
			}
		}
	})
}
