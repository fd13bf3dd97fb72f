package cache

import "io/fs"

// isOwn is true: on Windows a directory in the user's profile is the user's.
func isOwn(fs.FileInfo) bool { return true }
