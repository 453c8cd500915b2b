package admin

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/storage/dump"
)

// DumpType is the media type of a backup.
const DumpType = "application/octet-stream"

func getBackup(r request) (any, error) {
	store, ok := r.Store.(engine.Backuper)
	if !ok {
		return nil, badRequest("this storage engine makes no backups: use its own tools")
	}
	r.w.Header().Set("Content-Type", DumpType)
	if r.Method == http.MethodHead { // nothing is read for it, and no backup counts as made
		return nil, nil
	}
	to := r.stream(http.NewResponseController(r.w).SetWriteDeadline)
	defer to.close()
	err := store.Backup(to.ctx, to)
	if err == nil {
		err = http.NewResponseController(r.w).Flush() // until then an error of the connection may not show
	}
	if err != nil && to.isBegun {
		caddy.Log().Named("admin.api.presets").Error("a backup ended early", zap.Error(err))
		panic(http.ErrAbortHandler) // a part of a backup must not look like the whole
	}
	if err == nil {
		r.live.RecordBackup(time.Now())
	}
	return nil, err
}

func backupCommand() *cobra.Command {
	var (
		target  client
		keep    int
		every   time.Duration
		keyFile string
	)
	backup := &cobra.Command{
		Use: "backup [--encryption-key-file <file>] <file>|-  or  backup --keep <count> [--encryption-key-file <file>] <folder>" +
			"  or  backup [--keep <count>] [--every <duration>] [--encryption-key-file <file>] s3://<bucket>/<prefix>",
		Short: "Makes a backup of a running server's store",
		Long: `
Writes a snapshot of the whole store to a new file, or for - to standard output, while the server
goes on serving. Any engine can restore it. The file is <file>.partial until it is on the disk.

The backup of an encrypted store is encrypted with the store's key. Other backups hold all
prompts in plain text, unless --encryption-key-file names a key to encrypt them with.

With --keep the backup is presets-<time in UTC>.backup in a folder, and is verified first, which
takes the key of an encrypted store. Then the oldest backups that this command made there are
removed, beyond so many of the newest. None is removed if the new one fails, or if it ends at an
earlier commit than an older one: then it is of another store, or of a restored one, and the
command fails. Give each store a folder of its own. The path is printed on standard output.

With s3://bucket/prefix the backup is verified here, in an unnamed file in $TMPDIR, and then copied to a
bucket of S3 or of a server with its API, under the same names. If the newest copy there has the same
digest, none is made. Without --keep all copies stay. --every goes on, and tries again after a failure.
The server's metric and state tell the age of the last copy. AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY are the credentials, or AWS_SHARED_CREDENTIALS_FILE and AWS_PROFILE name them.
AWS_ENDPOINT_URL, AWS_REGION and AWS_CA_BUNDLE tell where the server is.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			isRotation := cmd.Flags().Changed("keep")
			switch {
			case isRotation && keep < 1:
				return errors.New("--keep: must be at least 1")
			case every < 0 || every > 0 && !isInBucket(args[0]):
				return errors.New("--every: must be a positive duration, for a copy to s3://bucket/prefix")
			case !isRotation && args[0] == "-" && terminal.Is(cmd.OutOrStdout()):
				return errors.New("standard output is a terminal: redirect the backup to a file or a pipe")
			}
			key, err := readKey(cmd, "encryption-key-file", keyFile)
			if err != nil {
				return err
			}
			write := func(to io.Writer) error {
				_, _, err := target.backupTo(cmd.ErrOrStderr(), to, key)
				return err
			}
			switch {
			case isInBucket(args[0]):
				return target.copyBackups(cmd, args[0], keep, every, key)
			case isRotation:
				return target.rotate(cmd, args[0], keep, key)
			case args[0] == "-":
				return write(cmd.OutOrStdout())
			default:
				return newFile(args[0], write)
			}
		},
	}
	target.flags(backup)
	flags := backup.Flags()
	flags.IntVar(&keep, "keep", 0, "Make the backup in a folder or a bucket, and keep so many of the newest there")
	flags.DurationVar(&every, "every", 0, "Copy to the bucket that often, until the command is stopped")
	flags.StringVar(&keyFile, "encryption-key-file", "", "The file of the key to encrypt the backup with, that of an encrypted store; - is standard input")
	return backup
}

// backupTo copies a backup from the server, checks it and describes it in messages. With a key
// the copy is encrypted.
func (t *client) backupTo(messages, to io.Writer, key []byte) (dump.Info, dump.End, error) {
	response, err := t.send(http.MethodGet, Path+"backup", nil, nil)
	if err != nil {
		return dump.Info{}, dump.End{}, err
	}
	defer response.Body.Close()
	p := terminal.NewProgress(messages, response.Body, 0)
	info, end, err := copyBackup(to, p, key)
	p.Done()
	switch {
	case errors.Is(err, dump.ErrUnusable):
		return info, end, fmt.Errorf("the server sent an incomplete backup; its log has the reason: %w", err)
	case err != nil:
		return info, end, err
	}
	encrypted := "not encrypted"
	if key != nil || info.Encrypted() {
		encrypted = "encrypted"
	}
	_, err = fmt.Fprintf(messages, "Made a backup of commit %d, %s: %s in %v, of %d records, digest %s\n",
		info.Commit, encrypted, humanize.IBytes(uint64(p.Bytes())), p.Elapsed(), end.Records, end.Digest)
	return info, end, err
}

func copyBackup(to io.Writer, p *terminal.Progress, key []byte) (dump.Info, dump.End, error) {
	if key == nil {
		return dump.Follow(io.TeeReader(p, to), p.Estimate)
	}
	from, err := dump.NewReader(p, key, true)
	if err != nil {
		return dump.Info{}, dump.End{}, err
	}
	err = dump.Copy(to, from, key, p.Estimate)
	return from.Info, from.End, err
}
