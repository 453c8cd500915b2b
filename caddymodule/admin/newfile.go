package admin

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// writeFile calls write with a new file, or with standard output if the name is "-". The
// context ends when the command is interrupted.
func writeFile(cmd *cobra.Command, name string, write func(ctx context.Context, messages, to io.Writer) error) error {
	ctx, stop := terminal.Interruptible(cmd.Context())
	defer stop()
	if name == "-" {
		return write(ctx, cmd.ErrOrStderr(), cmd.OutOrStdout())
	}
	return newFile(name, func(file io.Writer) error { return write(ctx, cmd.ErrOrStderr(), file) })
}

// newFile creates a file with the output of write. Only its owner can read it: the owner of its
// folder, if root creates it. It gets its name once it is complete and synced to the disk.
func newFile(name string, write func(io.Writer) error) error {
	return newFileBy(name, write, func(partial, name string) error { return publish(partial, name, badger.SyncFolder) })
}

// newFileBy is newFile with another way to rename the complete file.
func newFileBy(name string, write func(io.Writer) error, publish func(partial, name string) error) (err error) {
	partial := name + ".partial"
	file, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nameTakenError(partial + " exists: it is being written, or was cut short; if so, remove it")
	}
	if err != nil {
		return fileowner.Explain(err, partial)
	}
	fileowner.Give(partial)
	defer func() {
		if err != nil {
			if gone := os.Remove(partial); !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	// From here on only this call renames partial. Another one may have done so before.
	if _, err = os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		err = write(file)
	} else {
		err = cmp.Or(err, existsAlready(name))
	}
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return publish(partial, name)
}

// publish renames a complete file durably, unless the name is taken by now. After an
// error no file has that name.
func publish(partial, name string, sync func(folder string) error) error {
	// A rename would replace another file, so an empty file claims the name first.
	claim, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return existsAlready(name)
	}
	if err != nil {
		return err
	}
	err = claim.Close()
	if err == nil {
		err = os.Rename(partial, name)
	}
	if err == nil {
		err = sync(filepath.Dir(name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return nil
}

// nameTakenError is the error of newFile for a name that is taken.
type nameTakenError string

func (e nameTakenError) Error() string { return string(e) }

func existsAlready(name string) error {
	return nameTakenError(name + " exists already, and is not overwritten")
}
