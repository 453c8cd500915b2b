package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// restoreStore restores the backup in the body into the store.
func restoreStore(r request) (any, error) {
	store, ok := r.Store.(engine.Restorer)
	if !ok {
		return nil, badRequest("this storage engine restores no backup into a running server: restore it into a new folder with --folder, and name that in storage")
	}
	body := r.stream(http.NewResponseController(r.w).SetReadDeadline)
	defer body.close()
	from, err := dump.NewReader(body, nil, false)
	if err == nil {
		err = store.Restore(body.ctx, from)
	}
	if err == nil {
		err = r.ensureDefaultWorkspace(body.ctx)
	}
	switch {
	case err == nil:
		return newBackupSummary(from.Info, from.End), nil
	case errors.Is(err, dump.ErrNotNew):
		return nil, failure(http.StatusConflict, "%w", err)
	case errors.Is(err, dump.ErrUnusable):
		return nil, badRequest("%w", err)
	default:
		return nil, err
	}
}

// restoredPatience bounds the time until a node serves the restored store.
const restoredPatience = time.Minute

// ensureDefaultWorkspace waits until the store is served, which its nodes find out by themselves.
// A backup may lack the default workspace.
func (r request) ensureDefaultWorkspace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, restoredPatience)
	defer cancel()
	for {
		err := r.Service.EnsureDefaultWorkspace(ctx)
		if !errors.Is(err, domain.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func restoreCommand() *cobra.Command {
	var target client
	var folder, keyFile, backupKeyFile, at string
	restore := &cobra.Command{
		Use:   "restore [--folder <folder>] [--encryption-key-file <file>] [--backup-key-file <file>] <backup>|-|s3://<bucket>/<prefix> [--at <time>]",
		Short: "Makes a store from a backup of any engine",
		Long: `
With --folder it makes a store of the engine Badger, in a folder that is missing or empty, without
a server. It compares the new store with the digest in the backup. After an error the folder is as
it was. --encryption-key-file names the key that encrypts the new store.

Without --folder it restores into the store of a running server, such as one in etcd. The
store must be new: it may hold only the records of a server's first start. It is unavailable
until a restore has succeeded, also after an error or an interruption.

- is standard input. s3://bucket/prefix is the newest copy there, or with --at the last one that was
made until a time as RFC 3339, and s3://bucket/prefix/name the copy of a name: see backup.

--backup-key-file names the key of an encrypted backup, and refuses one
that is not encrypted. Without it the key of --encryption-key-file is tried.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if folder == "" && keyFile != "" {
				return errors.New("--encryption-key-file wants --folder: the key of the backup is that of --backup-key-file")
			}
			newKey, err := readKey(cmd, "encryption-key-file", keyFile)
			if err != nil {
				return err
			}
			key, err := readKey(cmd, "backup-key-file", backupKeyFile)
			if err != nil {
				return err
			}
			b := &backupFile{ReadCloser: io.NopCloser(cmd.InOrStdin()), messages: cmd.ErrOrStderr()}
			if args[0] != "-" || at != "" {
				if b, err = openBackup(cmd, args[0], at); err != nil {
					return err
				}
			}
			defer b.Close()
			b.key, b.isOptional = key, key == nil
			if key == nil {
				b.key = newKey
			}
			into := folder
			restore := func(from *dump.Reader) error {
				return badger.Restore(cmd.Context(), folder, badger.Options{Logger: caddy.Log().Named("presets"), EncryptionKey: newKey}, from)
			}
			if folder == "" {
				into = "the server's store"
				restore = target.restore
				err = b.check()
			}
			begun := time.Now()
			var info dump.Info
			var end dump.End
			if err == nil {
				info, end, err = b.read(restore)
			}
			if errors.Is(err, dump.ErrUnusable) {
				err = fmt.Errorf("%s: %w", args[0], err)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(b.messages, "Restored commit %d, of %s, into %s in %v: %d records, digest %s\n",
				info.Commit, info.CreatedAt.Format(time.RFC3339), into, terminal.Rounded(time.Since(begun)), end.Records, end.Digest)
			return err
		},
	}
	target.flags(restore)
	flags := restore.Flags()
	flags.StringVar(&folder, "folder", "", "The folder to make the store in, missing or empty; default: the store of a running server")
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the key to encrypt the store with; default: it is not encrypted")
	flags.StringVar(&backupKeyFile, "backup-key-file", "", "The file of the key that the backup is encrypted with; default: that of --encryption-key-file")
	flags.StringVar(&at, "at", "", "Restore the last copy in a bucket that was made until this time; default: the newest")
	return restore
}

type backupFile struct {
	io.ReadCloser
	file       file  // nil for standard input
	size       int64 // 0 for standard input
	key        []byte
	isOptional bool // see dump.NewReader
	messages   io.Writer
}

// file is a file of a backup.
type file interface {
	io.ReadSeekCloser
	io.ReaderAt
	Stat() (os.FileInfo, error)
}

// openBackup opens a backup in a file or a bucket. at chooses one of a bucket, if it is not empty.
func openBackup(cmd *cobra.Command, name, at string) (*backupFile, error) {
	b := &backupFile{messages: cmd.ErrOrStderr()}
	var err error
	switch {
	case isInBucket(name):
		b.file, err = fetchCopy(cmd.Context(), b.messages, name, at)
	case at != "":
		return nil, errors.New("--at is for copies in a bucket")
	default:
		b.file, err = os.Open(name)
		err = fileowner.Explain(err, name)
	}
	if err != nil {
		return nil, err
	}
	b.ReadCloser = b.file
	info, err := b.file.Stat()
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	b.size = info.Size()
	return b, nil
}

// read calls fn with a reader of the backup, and shows the progress of reading it.
func (b *backupFile) read(fn func(*dump.Reader) error) (dump.Info, dump.End, error) {
	p := terminal.NewProgress(b.messages, b, b.size)
	defer p.Done()
	r, err := dump.NewReader(p, b.key, b.isOptional)
	if err == nil {
		err = fn(r)
	}
	if err != nil {
		return dump.Info{}, dump.End{}, err
	}
	return r.Info, r.End, nil
}

// check reads a file to its end, so that one that cannot be used changes nothing on a server.
func (b *backupFile) check() error {
	if b.file == nil {
		return nil
	}
	if _, _, err := b.read(func(from *dump.Reader) error {
		for from.Next() {
		}
		return from.Err
	}); err != nil {
		return err
	}
	_, err := b.file.Seek(0, io.SeekStart)
	return err
}

// restore sends a backup to the server, without encryption.
func (t *client) restore(from *dump.Reader) error {
	body, to := io.Pipe()
	copied := make(chan error, 1)
	go func() {
		err := dump.Copy(to, from, nil, func(int, int) {})
		to.CloseWithError(err)
		copied <- err
	}()
	response, err := t.send(http.MethodPost, Path+"restore", http.Header{"Content-Type": {DumpType}}, body)
	body.CloseWithError(io.ErrClosedPipe) // ends the copy if the server did not read all
	if failed := <-copied; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
		return failed // the reason
	}
	if err != nil {
		return err
	}
	return response.Body.Close()
}
