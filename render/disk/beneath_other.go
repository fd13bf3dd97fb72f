//go:build !linux

package disk

import "io/fs"

// openBeneath opens nothing: only Linux can open a name in one step without following
// links.
func (d *dirs) openBeneath(string) (f fs.File, info fs.FileInfo, ok bool) { return nil, nil, false }
