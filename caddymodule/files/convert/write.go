package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

// Write writes the presets of a conversion into the folder dir, which it makes if it is
// missing. It changes no file that exists: an error names those, and nothing is written.
//
// A preset may not fit into a file, such as one with the form of a secret. It becomes an
// entry of report, and is no longer among its Written. The others are written.
func Write(dir string, set *files.Set, report *Report) error {
	if err := refuseExisting(dir, set); err != nil {
		return err
	}
	written, err := files.Write(dir, set)
	mistakes, ok := errors.AsType[files.Errors](err)
	if !ok {
		return err
	}
	for _, mistake := range mistakes {
		i := slices.IndexFunc(report.Written, func(w Written) bool { return isFileOf(w, mistake.File) })
		if i < 0 {
			return err
		}
		report.Entries = append(report.Entries, Entry{
			Kind: NotWritten, Prompt: report.Written[i].Prompt, File: mistake.File, Path: mistake.Path, Message: mistake.Message,
		})
	}
	report.Written = slices.DeleteFunc(report.Written, func(w Written) bool {
		return !slices.Contains(written, w.Workspace+"/"+w.Slug+".yaml")
	})
	return nil
}

// isFileOf reports whether a path is that of a preset's YAML, or of its prompt.
func isFileOf(w Written, file string) bool {
	rest, ok := strings.CutPrefix(file, w.Workspace+"/"+w.Slug+".")
	return ok && !strings.Contains(rest, ".")
}

// refuseExisting returns an error that names the files which a preset of the set has already.
func refuseExisting(dir string, set *files.Set) error {
	var existing []string
	for _, w := range set.Workspaces {
		for _, p := range w.Presets {
			for _, extension := range []string{".yaml", ".md"} {
				name := filepath.Join(dir, w.Slug, p.Slug+extension)
				if _, err := os.Lstat(name); err == nil {
					existing = append(existing, name)
				} else if !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
	}
	if len(existing) == 0 {
		return nil
	}
	return fmt.Errorf("nothing is written, as there are files already: %s; remove them, or choose another folder", files.ShortList(existing))
}
