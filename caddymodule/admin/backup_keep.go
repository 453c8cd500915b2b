package admin

import (
	"cmp"
	"context"
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

// place is where backups are kept: a folder, or a bucket.
type place interface {
	// names returns the names of all files, in their order.
	names() ([]string, error)
	open(name string) (io.ReadCloser, error)
	remove(name string) error
	// path returns a file's name for an operator.
	path(name string) string
}

// folder is a place on a disk.
type folder string

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

func (f folder) names() (names []string, err error) {
	entries, err := os.ReadDir(string(f)) // sorts by name
	if err != nil {
		return nil, fileowner.Explain(err, string(f))
	}
	for _, entry := range entries {
		if entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func (f folder) open(name string) (io.ReadCloser, error) {
	file, err := os.Open(f.path(name))
	if err != nil {
		return nil, fileowner.Explain(err, f.path(name))
	}
	return file, nil
}

func (f folder) remove(name string) error {
	return fileowner.Explain(os.Remove(f.path(name)), f.path(name))
}

// rotation keeps the newest backups of a store in a place. The names of its files sort in
// the order in which they were begun, also after the clock has gone back.
type rotation struct {
	place    place
	keep     int // 0 for all
	messages io.Writer
	// commit returns the number of the last commit in a backup, as commitIn does.
	commit func(of place, name string) (uint64, error)
}

// folderRotation makes backups in a folder, too.
type folderRotation struct {
	rotation
	folder folder // the place
	now    func() time.Time
	// write writes a backup. verify fails unless the file of a name is a whole backup.
	write  func(to io.Writer) error
	verify func(name string) error
}

// rotatedLayout is the time in the name of a backup, in UTC.
const rotatedLayout = "20060102T150405.000Z"

var rotatedName = regexp.MustCompile(`^presets-(\d{8}T\d{6}\.\d{3}Z)\.backup(\.partial)?$`)

// run makes a backup and verifies it. Then it removes the oldest ones beyond r.keep. It
// returns the path of the new one. After an error about the new one it has removed none. A folder
// takes one run at a time, so that commits rise with the names.
func (r folderRotation) run() (path string, err error) {
	release, err := badger.LockFolder(string(r.folder))
	if err != nil {
		return "", err
	}
	defer release()
	all, partial, err := r.list()
	if err != nil {
		return "", err
	}
	for _, name := range partial { // of runs that were killed
		if err := r.folder.remove(name); err != nil {
			return "", err
		}
		fmt.Fprintf(r.messages, "Removed %s, which a run left that was cut off.\n", r.folder.path(name))
	}
	name, err := r.make(all)
	if err != nil {
		return "", err
	}
	return r.folder.path(name), errors.Join(r.finish(name), badger.SyncFolder(string(r.folder)))
}

// finish removes the oldest backups beyond r.keep, after a new one was made.
func (r rotation) finish(made string) error {
	if r.keep == 0 {
		return nil
	}
	all, _, err := r.list()
	if err == nil {
		err = r.checkOrder(all)
	}
	if err != nil {
		return fmt.Errorf("%s is made and verified, but no backup was removed: %w", r.place.path(made), err)
	}
	if err := r.prune(all, made); err != nil {
		return fmt.Errorf("%s is made and verified, but older backups could not be removed: %w", r.place.path(made), err)
	}
	return nil
}

// checkOrder fails if the commits of the given backups do not rise with their names. The oldest
// would then be of another store than the newest, and may be the only ones of that store.
func (r rotation) checkOrder(names []string) error {
	var before string
	var last uint64
	for _, name := range names {
		commit, err := r.commit(r.place, name)
		switch {
		case err != nil:
			return fmt.Errorf("%s cannot be compared with the others; move it away: %w", name, err)
		case commit < last:
			return fmt.Errorf("%s ends at commit %d, and the older %s at commit %d. "+
				"The server had another store meanwhile, or its store was restored or salvaged. "+
				"Check that its store is the right one, and that its disk is mounted. "+
				"Then move the backups of the other store away. "+
				"If the store is right, move the older backups with higher commits", name, commit, before, last)
		}
		before, last = name, commit
	}
	return nil
}

// list returns the names of the backups that rotations made here, and of those that are not
// complete. The oldest come first. Other files are left out, whatever their names.
func (r rotation) list() (all, partial []string, err error) {
	names, err := r.place.names()
	for _, name := range names {
		at, isPartial := timeIn(name)
		switch {
		case at.IsZero():
		case isPartial:
			partial = append(partial, name)
		default:
			all = append(all, name)
		}
	}
	return all, partial, err
}

// timeIn returns the time in the name of a backup that a rotation made, zero for another name.
func timeIn(name string) (at time.Time, isPartial bool) {
	parts := rotatedName.FindStringSubmatch(name)
	if parts == nil {
		return at, false
	}
	at, err := time.Parse(rotatedLayout, parts[1])
	if err != nil {
		return time.Time{}, false
	}
	return at, parts[2] != ""
}

// nextName returns the name of a backup that was made at a time. It is later than the earlier ones.
func nextName(at time.Time, earlier []string) string {
	at = at.UTC().Truncate(time.Millisecond)
	if len(earlier) > 0 {
		if newest, _ := timeIn(earlier[len(earlier)-1]); !at.After(newest) {
			at = newest.Add(time.Millisecond)
		}
	}
	return "presets-" + at.Format(rotatedLayout) + ".backup"
}

// make makes a backup whose name is later than the earlier ones, and verifies it.
func (r folderRotation) make(earlier []string) (name string, err error) {
	name = nextName(r.now(), earlier)
	path := r.folder.path(name)
	return name, newFile(path, func(to io.Writer) error {
		if err := r.write(to); err != nil {
			return err
		}
		return r.verify(path + partialSuffix)
	})
}

// prune removes the oldest of all backups beyond r.keep, but never the given one.
func (r rotation) prune(all []string, made string) error {
	var errs []error
	for _, name := range all[:max(0, len(all)-r.keep)] {
		if name == made {
			continue
		}
		if err := r.place.remove(name); err != nil {
			errs = append(errs, err)
		} else {
			fmt.Fprintf(r.messages, "Removed %s.\n", r.place.path(name))
		}
	}
	return errors.Join(errs...)
}

// rotate makes a backup of the server's store in a folder, prints its path, and keeps the newest
// ones. With a key the backup is encrypted.
func (t *client) rotate(cmd *cobra.Command, name string, keep int, key []byte) error {
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		return cmp.Or(err, fmt.Errorf("%s is no folder, as --keep wants", name))
	}
	messages := cmd.ErrOrStderr()
	path, err := folderRotation{
		rotation: rotation{place: folder(name), keep: keep, messages: messages, commit: commitIn},
		folder:   folder(name), now: time.Now,
		write: func(to io.Writer) error {
			_, _, err := t.backupTo(messages, to, key)
			return err
		},
		verify: func(name string) error {
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			defer file.Close()
			return verifyNew(cmd.Context(), messages, file, key)
		},
	}.run()
	if path == "" {
		return err
	}
	_, failed := fmt.Fprintln(cmd.OutOrStdout(), path)
	return cmp.Or(err, failed)
}

// verifyNew fails unless a new backup is whole.
func verifyNew(ctx context.Context, messages io.Writer, file io.ReaderAt, key []byte) error {
	switch v := verifyBackup(ctx, messages, file, key); {
	case v.Error != "" && len(key) == 0 && v.Backup != nil && v.Backup.Encrypted:
		return errors.New("the backup is encrypted, so it needs --encryption-key-file to be verified; nothing was removed")
	case v.Error != "":
		return fmt.Errorf("the new backup is not kept, and nothing was removed: %s", v.Error)
	case v.Damaged:
		return fmt.Errorf("the new backup is not kept, and nothing was removed: %w", v.Err())
	default:
		_, err := fmt.Fprintf(messages, "Verified it: nothing is damaged in %d records.\n", v.Records)
		return err
	}
}

// commitIn returns the number of the last commit in a backup, from its first lines.
func commitIn(at place, name string) (uint64, error) {
	file, err := at.open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	info, err := dump.ReadInfo(file)
	return info.Commit, err
}
