package tui

// suspends reports whether a shell can continue the program after it is suspended. Windows can't suspend it.
func suspends() bool { return false }
