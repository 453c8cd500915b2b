// Package version tells which version of this Go module a program contains.
package version

import (
	"runtime/debug"
	"sync"
)

// Path is the path of this Go module.
const Path = "github.com/caddy-presets/caddy-presets"

// unknown is the version of a module that was built from a folder, as Go writes it.
const unknown = "(devel)"

// given is the version that the linker was told, for the image: it is built from a folder.
// The linker's flag is -X <this package>.given=v1.2.0.
var given string

// Module returns the version of this module in the running program, such as v1.2.0. It is
// "(devel)" if the program was built from a folder of unknown revision.
var Module = sync.OnceValue(func() string {
	if given != "" {
		return given
	}
	info, _ := debug.ReadBuildInfo()
	return Of(info)
})

// Of returns the version of this module in a program with this build information, which may
// be nil. A module in the place of this one counts with its own version.
func Of(info *debug.BuildInfo) string {
	if info == nil {
		return unknown
	}
	found := info.Main
	if found.Path != Path {
		found = debug.Module{}
		for _, module := range info.Deps {
			if module.Path == Path {
				found = *module
				break
			}
		}
	}
	if found.Replace != nil {
		found = *found.Replace
	}
	if found.Version == "" {
		return unknown
	}
	return found.Version
}
