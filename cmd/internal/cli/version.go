package cli

import (
	"runtime/debug"
)

// Version is that of the module, or of the commit it was built from.
func Version() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return "(unknown)"
	}
	v := build.Main.Version
	if v == "" {
		v = "(devel)"
	}
	return v + " " + build.GoVersion
}
