package cache

import "io/fs"

// isOwn returns true: on Windows, directories in the user's profile belong to
// the user.
func isOwn(fs.FileInfo) bool { return true }
