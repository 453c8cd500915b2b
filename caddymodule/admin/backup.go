package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/keyfile"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/transfer"
)

// getBackup answers with a backup: a full one or, with the second line of an earlier
// one as since, one that continues it.
func getBackup(r request) error {
	store, ok := r.Store.(engine.Backuper)
	if !ok {
		return badRequest(errors.New("the engine of this store has other ways to back it up"))
	}
	// What it is restored to would look like a store, and lack what had not come.
	switch unfinished, err := transfer.Unfinished(r.Context(), r.Store); {
	case err != nil:
		return withStatus(err)
	case unfinished:
		return badRequest(transfer.ErrUnfinished)
	}
	err := r.download("application/octet-stream", "a backup", func(ctx context.Context, w io.Writer) error {
		return store.Backup(ctx, w, r.URL.Query().Get("since"))
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrBaseRefused):
		return badRequest(err)
	default:
		return withStatus(err)
	}
}

func backupCommand() *cobra.Command {
	var target client
	var since string
	backup := &cobra.Command{
		Use:   "backup [--since <earlier backup>] <file>|-",
		Short: "Makes a backup of a running server's store",
		Long: `
Writes a backup of all that is stored, as it is at one moment, to a new file or,
for -, to standard output. The server goes on serving meanwhile. With --since the
backup is an incremental one, which continues an earlier backup of the same store:
what has not changed since is not in it. It is restored with that one, and those
that that one continues.

The backup of an encrypted store is encrypted with the store's key, without which
it cannot be restored. Any other holds all prompts in plain text.

A file appears under its name once it is complete and on the disk; until then it is
named <file>.partial.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := interruptible(cmd)
			defer stop()
			path := Path + "backup"
			if since != "" {
				base, err := readBase(since)
				if err != nil {
					return err
				}
				path += "?since=" + url.QueryEscape(base)
			}
			if args[0] != "-" {
				return newFile(args[0], func(file io.Writer) error { return target.backupTo(ctx, cmd.ErrOrStderr(), path, file) })
			}
			if isTerminal(cmd.OutOrStdout()) {
				return errors.New("standard output is a terminal, and a backup is not for reading")
			}
			return target.backupTo(ctx, cmd.ErrOrStderr(), path, cmd.OutOrStdout())
		},
	}
	target.flags(backup)
	backup.Flags().StringVar(&since, "since", "", "Make an incremental backup, which continues the one in this file")
	return backup
}

// readBase returns what a backup says of itself, as JSON.
func readBase(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := badger.ReadBackupInfo(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	text, err := json.Marshal(info)
	return string(text), err
}

// backupTo copies a backup from the server, checks it meanwhile and says what it is.
func (t *client) backupTo(ctx context.Context, notes io.Writer, path string, to io.Writer) error {
	var info badger.BackupInfo
	var end badger.BackupEnd
	p, err := t.fetch(ctx, notes, path, func(r io.Reader) (err error) {
		info, end, err = badger.CheckBackup(io.TeeReader(r, to))
		return err
	})
	switch {
	case errors.Is(err, badger.ErrNotRestorable):
		return fmt.Errorf("what the server sent is no whole backup, its log tells why: %w", err)
	case err != nil:
		return err
	}
	since := ""
	if info.Base != nil {
		since = fmt.Sprintf(" since commit %d", info.Base.Commit)
	}
	encrypted := "not encrypted"
	if info.Encrypted() {
		encrypted = "encrypted"
	}
	_, err = fmt.Fprintf(notes, "Made %s backup of commit %d%s, %s: %s in %v, of %d records, digest %s\n",
		article(info.Kind), info.State.Commit, since, encrypted, humanize.IBytes(uint64(p.read())), p.elapsed(), end.Records, end.Digest)
	return err
}

func article(kind badger.BackupKind) string {
	if kind == badger.IncrementalBackup {
		return "an incremental"
	}
	return "a full"
}

func restoreCommand() *cobra.Command {
	var folder, keyFile, backupKeyFile string
	restore := &cobra.Command{
		Use:   "restore --folder <folder> [--encryption-key-file <file>] [--backup-key-file <file>] <full backup>|- [<incremental backup>...]",
		Short: "Makes a store of backups, in a new folder",
		Long: `
Makes a store of a full backup, and of the incremental ones that continue it, in
their order, in a folder that is missing or empty. No server is needed, and none may
use the folder yet. - is standard input.

What was stored is read back and compared with the digest in the last backup. When
anything is wrong the folder is left as it was.

The store is encrypted if --encryption-key-file names a key, which need not be the
one of the backups. That one is --backup-key-file, or else the same; if it is named,
backups that are not encrypted are refused.`,
		Args: cobra.MinimumNArgs(1),
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
			backups, size, closeAll, err := openBackups(cmd.InOrStdin(), args)
			defer closeAll()
			if err != nil {
				return err
			}
			p := newProgress(cmd.ErrOrStderr(), size)
			for i := range backups {
				backups[i].Content = p.watch(backups[i].Content)
			}
			info, end, err := badger.Restore(ctx, folder, o, backupKey, backups[0], backups[1:]...)
			p.done()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Restored commit %d, of %s, into %s in %v: %d records, digest %s\n",
				info.State.Commit, info.CreatedAt.Format(time.RFC3339), folder, p.elapsed(), end.Records, end.Digest)
			return err
		},
	}
	flags := restore.Flags()
	flags.StringVar(&folder, "folder", "", "The folder to make the store in, missing or empty")
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the key to encrypt the store with; default: it is not encrypted")
	flags.StringVar(&backupKeyFile, "backup-key-file", "", "The file of the key that the backups are encrypted with; default: that of --encryption-key-file")
	_ = restore.MarkFlagRequired("folder") // fails for an unknown flag only
	return restore
}

// openBackups opens files, the first of which may be standard input. size is that of
// all of them, 0 if it is not known.
func openBackups(stdin io.Reader, names []string) (backups []badger.BackupFile, size int64, closeAll func(), err error) {
	var opened []*os.File
	closeAll = func() {
		for _, file := range opened {
			file.Close()
		}
	}
	known := true
	for i, name := range names {
		if name == "-" {
			if i > 0 {
				return nil, 0, closeAll, errors.New("only the first backup can come from standard input")
			}
			known = false
			backups = append(backups, badger.BackupFile{Name: "standard input", Content: stdin})
			continue
		}
		file, err := os.Open(name)
		if err != nil {
			return nil, 0, closeAll, err
		}
		opened = append(opened, file)
		info, err := file.Stat()
		if err != nil {
			return nil, 0, closeAll, err
		}
		size += info.Size()
		backups = append(backups, badger.BackupFile{Name: name, Content: file})
	}
	if !known {
		size = 0
	}
	return backups, size, closeAll, nil
}
