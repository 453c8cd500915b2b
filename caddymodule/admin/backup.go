package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/keyfile"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
	"github.com/caddy-presets/caddy-presets/storage/transfer"
)

// getBackup answers with a backup.
func getBackup(r request) error {
	store, ok := r.Store.(engine.Backuper)
	if !ok {
		return badRequest(errors.New("this storage engine has no backup command: use its own tools"))
	}
	// The engine refuses an unfinished import, too. This answer tells how to finish it.
	switch unfinished, err := transfer.Unfinished(r.Context(), r.Store); {
	case err != nil:
		return withStatus(err)
	case unfinished:
		return badRequest(transfer.ErrUnfinished)
	}
	const contentType = "application/octet-stream"
	if r.isHead(contentType) {
		return nil
	}
	to := r.download(contentType)
	defer to.close()
	err := store.Backup(to.ctx, to)
	if err == nil {
		err = to.flush()
	}
	if err != nil {
		return withStatus(to.abort("a backup", err))
	}
	r.live.RecordBackup(time.Now())
	return nil
}

func backupCommand() *cobra.Command {
	var (
		target           client
		keep             int
		keyFile, scratch string
	)
	backup := &cobra.Command{
		Use:   "backup <file>|-  or  backup --keep <count> [--encryption-key-file <file>] <folder>",
		Short: "Makes a backup of a running server's store",
		Long: `
Writes a snapshot of the whole store to a new file, or for - to standard output. The
server goes on serving meanwhile.

The backup of an encrypted store is encrypted with the store's key. Only that key can
restore it. Other backups hold all prompts in plain text.

The file gets its name once it is complete and on the disk. Until then its name is
<file>.partial.

With --keep the backup gets a name of its own in a folder: presets-<time in UTC>.backup.
It is verified as "verify" does it, before it gets its name. Then the oldest backups that
this command made there are removed, beyond so many of the newest. Other files are left
alone. If the new backup fails, none is removed. None is removed either if it ends at an
earlier commit than an older backup: then it is of another store, or of a restored one.
The command says so, and fails. The path is printed on standard output. Give each store a
folder of its own. An encrypted store needs --encryption-key-file.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("keep") {
				return runRotation(cmd, &target, args[0], keep, keyFile, scratch)
			}
			if keyFile != "" || scratch != "" {
				return errors.New("--encryption-key-file and --scratch want --keep")
			}
			if args[0] == "-" && isTerminal(cmd.OutOrStdout()) {
				return errors.New("standard output is a terminal: redirect the backup to a file or a pipe")
			}
			return writeFile(cmd, args[0], target.backupTo)
		},
	}
	target.flags(backup)
	flags := backup.Flags()
	flags.IntVar(&keep, "keep", 0, "Make the backup in a folder, and keep so many of the newest there")
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the store's key, to verify the backup with; - is standard input")
	flags.StringVar(&scratch, "scratch", "", scratchUsage+"that of the backups")
	return backup
}

// runRotation is the command backup with --keep.
func runRotation(cmd *cobra.Command, target *client, folder string, keep int, keyFile, scratch string) error {
	if keep < 1 {
		return errors.New("--keep: must be at least 1")
	}
	key, err := readKey(cmd, keyFile)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(cmd)
	defer stop()
	messages := cmd.ErrOrStderr()
	path, err := target.rotate(ctx, messages, folder, keep, verification{key, scratch, messages})
	if path != "" {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), path); err != nil {
			return err
		}
	}
	return err
}

// backupTo copies a backup from the server, checks it and describes it in messages.
func (t *client) backupTo(ctx context.Context, messages, to io.Writer) error {
	var info badger.BackupInfo
	var end badger.BackupEnd
	p, err := t.fetch(ctx, messages, Path+"backup", func(p *progress) (err error) {
		info, end, err = badger.CheckBackup(io.TeeReader(p, to), p.estimate)
		return err
	})
	switch {
	case errors.Is(err, badger.ErrNotRestorable):
		return fmt.Errorf("the server sent an incomplete backup; its log has the reason: %w", err)
	case err != nil:
		return err
	}
	encrypted := "not encrypted"
	if info.Encrypted() {
		encrypted = "encrypted"
	}
	_, err = fmt.Fprintf(messages, "Made a backup of commit %d, %s: %s in %v, of %d records, digest %s\n",
		info.Commit, encrypted, humanize.IBytes(uint64(p.read())), p.elapsed(), end.Records, end.Digest)
	return err
}

func restoreCommand() *cobra.Command {
	var folder, keyFile, backupKeyFile string
	restore := &cobra.Command{
		Use:   "restore --folder <folder> [--encryption-key-file <file>] [--backup-key-file <file>] <backup>|-",
		Short: "Makes a store from a backup, in a new folder",
		Long: `
Makes a store from a backup, in a folder that is missing or empty. It needs no server,
and no server may use the folder yet. - is standard input.

The command reads the new store and compares it with the digest in the backup. After an
error the folder is as it was.

--encryption-key-file names the key that encrypts the new store. The backup may have
another key: --backup-key-file names that one, and refuses a backup that is not
encrypted.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx, stop := interruptible(cmd)
			defer stop()
			o := badger.Options{Logger: caddy.Log().Named("presets")}
			var backupKey []byte
			for _, k := range []struct {
				file, flag string
				key        *[]byte
			}{{keyFile, "encryption-key-file", &o.EncryptionKey}, {backupKeyFile, "backup-key-file", &backupKey}} {
				if k.file == "" {
					continue
				}
				if *k.key, err = keyfile.Read(k.file, o.Logger); err != nil {
					return fmt.Errorf("--%s: %w", k.flag, err)
				}
			}
			backup, size, err := openBackup(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			defer backup.Close()
			p := newProgress(cmd.ErrOrStderr(), backup, size)
			info, end, err := badger.Restore(ctx, folder, o, backupKey, badger.BackupFile{Name: args[0], Content: p})
			p.done()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Restored commit %d, of %s, into %s in %v: %d records, digest %s\n",
				info.Commit, info.CreatedAt.Format(time.RFC3339), folder, p.elapsed(), end.Records, end.Digest)
			return err
		},
	}
	flags := restore.Flags()
	flags.StringVar(&folder, "folder", "", "The folder to make the store in, missing or empty")
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the key to encrypt the store with; default: it is not encrypted")
	flags.StringVar(&backupKeyFile, "backup-key-file", "", "The file of the key that the backup is encrypted with; default: that of --encryption-key-file")
	_ = restore.MarkFlagRequired("folder") // fails for an unknown flag only
	return restore
}

// openBackup opens a backup, and returns its size. - is standard input, whose size is 0.
func openBackup(stdin io.Reader, name string) (backup io.ReadCloser, size int64, err error) {
	if name == "-" {
		return io.NopCloser(stdin), 0, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, 0, fileowner.Explain(err, name)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, file.Close())
	}
	return file, info.Size(), nil
}
