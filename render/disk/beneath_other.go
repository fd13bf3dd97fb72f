//go:build !linux

package disk

import "io/fs"

// Only Linux can open a name in one step without following links, so these functions
// open nothing.

func (d *dirs) openBeneath(string) (f fs.File, info fs.FileInfo, ok bool) { return nil, nil, false }

func (d *dirs) listBeneath(string) (entries []named, ok bool) { return nil, false }

func (d *dirs) infoBeneath(string) (info fs.FileInfo, ok bool) { return nil, false }
