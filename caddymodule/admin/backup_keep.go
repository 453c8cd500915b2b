package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// rotation keeps the newest backups of a store in a folder. The names of its files sort in
// the order in which they were begun, also after the clock has gone back.
type rotation struct {
	folder   string
	keep     int // at least 1
	now      func() time.Time
	messages io.Writer
	// write writes a backup. verify fails unless the file of a name is a whole backup.
	write  func(to io.Writer) error
	verify func(name string) error
	// commit returns the number of the last commit in a backup.
	commit func(name string) (uint64, error)
}

// rotatedLayout is the time in the name of a backup, in UTC.
const rotatedLayout = "20060102T150405.000Z"

var rotatedName = regexp.MustCompile(`^presets-(\d{8}T\d{6}\.\d{3}Z)\.backup(\.partial)?$`)

func nameOf(at time.Time) string { return "presets-" + at.Format(rotatedLayout) + ".backup" }

// run makes a backup and verifies it. Then it removes the oldest ones beyond r.keep. It
// returns the path of the new one. After an error about the new one it has removed none. A folder
// takes one run at a time, so that commits rise with the names.
func (r rotation) run() (path string, err error) {
	release, err := badger.LockFolder(r.folder)
	if err != nil {
		return "", err
	}
	defer release()
	all, partial, err := r.list()
	if err != nil {
		return "", err
	}
	for _, name := range partial { // of runs that were killed
		if err := os.Remove(filepath.Join(r.folder, name)); err != nil {
			return "", fileowner.Explain(err, filepath.Join(r.folder, name))
		}
		fmt.Fprintf(r.messages, "Removed %s, which a run left that was cut off.\n", filepath.Join(r.folder, name))
	}
	name, err := r.make(all)
	if err != nil {
		return "", err
	}
	path = filepath.Join(r.folder, name)
	if err := r.checkOrder(append(all, name)); err != nil {
		return path, fmt.Errorf("%s is made and verified, but no backup was removed: %w", path, err)
	}
	if err := r.prune(name); err != nil {
		return path, fmt.Errorf("%s is made and verified, but older backups could not be removed: %w", path, err)
	}
	return path, nil
}

// checkOrder fails if the commits of the given backups do not rise with their names. The oldest
// would then be of another store than the newest, and may be the only ones of that store.
func (r rotation) checkOrder(names []string) error {
	var before string
	var last uint64
	for _, name := range names {
		commit, err := r.commit(filepath.Join(r.folder, name))
		switch {
		case err != nil:
			return fmt.Errorf("%s cannot be compared with the others; move it out of the folder: %w", name, fileowner.Explain(err, filepath.Join(r.folder, name)))
		case commit < last:
			return fmt.Errorf("%s ends at commit %d, and the older %s at commit %d. "+
				"The server had another store meanwhile, or its store was restored or salvaged. "+
				"Check that its store is the right one, and that its disk is mounted. "+
				"Then move the backups of the other store out of the folder. "+
				"If the store is right, move the older backups with higher commits", name, commit, before, last)
		}
		before, last = name, commit
	}
	return nil
}

// list returns the names of the backups that rotations made here, and of those that are not
// complete. The oldest come first. Other files are left out, whatever their names.
func (r rotation) list() (all, partial []string, err error) {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return nil, nil, fileowner.Explain(err, r.folder)
	}
	for _, entry := range entries {
		parts := rotatedName.FindStringSubmatch(entry.Name())
		if parts == nil || !entry.Type().IsRegular() {
			continue
		}
		if _, err := time.Parse(rotatedLayout, parts[1]); err != nil {
			continue
		}
		if parts[2] == "" {
			all = append(all, entry.Name())
		} else {
			partial = append(partial, entry.Name())
		}
	}
	return all, partial, nil // ReadDir sorts by name
}

// make makes a backup whose name is later than the earlier ones, and verifies it.
func (r rotation) make(earlier []string) (name string, err error) {
	at := r.now().UTC().Truncate(time.Millisecond)
	if len(earlier) > 0 {
		newest, err := time.Parse(rotatedLayout, rotatedName.FindStringSubmatch(earlier[len(earlier)-1])[1])
		if err != nil {
			return "", err
		}
		if !at.After(newest) {
			at = newest.Add(time.Millisecond)
		}
	}
	name = filepath.Join(r.folder, nameOf(at))
	return nameOf(at), newFile(name, func(to io.Writer) error {
		if err := r.write(to); err != nil {
			return err
		}
		return r.verify(name + partialSuffix)
	})
}

// prune removes the oldest backups beyond r.keep, but never the given one.
func (r rotation) prune(made string) error {
	all, _, err := r.list()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range all[:max(0, len(all)-r.keep)] {
		if name == made {
			continue
		}
		path := filepath.Join(r.folder, name)
		if err := os.Remove(path); err != nil {
			errs = append(errs, fileowner.Explain(err, path))
		} else {
			fmt.Fprintf(r.messages, "Removed %s.\n", path)
		}
	}
	return errors.Join(append(errs, badger.SyncFolder(r.folder))...)
}

// rotate makes a backup of the server's store in a folder, prints its path, and keeps the newest
// ones. With a key the backup is encrypted.
func (t *client) rotate(cmd *cobra.Command, folder string, keep int, key []byte) error {
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return cmp.Or(err, fmt.Errorf("%s is no folder, as --keep wants", folder))
	}
	messages := cmd.ErrOrStderr()
	path, err := rotation{
		folder: folder, keep: keep, now: time.Now, messages: messages, commit: commitOf,
		write: func(to io.Writer) error { return t.backupTo(messages, to, key) },
		verify: func(name string) error {
			v, err := verifyFile(cmd.Context(), messages, name, key)
			switch {
			case err != nil:
				return err
			case v.Error != "" && len(key) == 0 && v.Backup != nil && v.Backup.Encrypted:
				return errors.New("the backup is encrypted, so --keep needs --encryption-key-file to verify it; nothing was removed")
			case v.Error != "":
				return fmt.Errorf("the new backup is not kept, and nothing was removed: %s", v.Error)
			case v.Damaged:
				return fmt.Errorf("the new backup is not kept, and nothing was removed: %w", v.Err())
			}
			_, err = fmt.Fprintf(messages, "Verified it: nothing is damaged in %d records.\n", v.Records)
			return err
		},
	}.run()
	if path == "" {
		return err
	}
	_, failed := fmt.Fprintln(cmd.OutOrStdout(), path)
	return cmp.Or(err, failed)
}

// commitOf returns the number of the last commit in a backup, from its first lines.
func commitOf(name string) (uint64, error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := dump.ReadInfo(file)
	return info.Commit, err
}
