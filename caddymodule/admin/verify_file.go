package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
	"github.com/caddy-presets/caddy-presets/storage/transfer"
)

// verification is how files are verified.
type verification struct {
	key      []byte // of a backup, nil for none
	scratch  string // the folder for a temporary file, empty for the system's
	messages io.Writer
}

// backupSummary describes a backup that was verified. Entries and Digest are empty if its end
// was not read.
type backupSummary struct {
	Commit    uint64    `json:"commit"`
	CreatedAt time.Time `json:"created_at"`
	Encrypted bool      `json:"encrypted"`
	Entries   int       `json:"entries"`
	Digest    string    `json:"digest"`
}

// file verifies a backup or an export. The error is about reading the file. The verdict has
// the file's defects.
func (by verification) file(ctx context.Context, name string) (v verdict, err error) {
	file, err := os.Open(name)
	if err != nil {
		return v, fileowner.Explain(err, name)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return v, err
	}
	begin := make([]byte, len(badger.BackupMagic))
	n, err := io.ReadFull(file, begin)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return v, err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return v, err
	}
	switch begin = begin[:n]; {
	case string(begin) == badger.BackupMagic:
		v = by.backup(ctx, file, info.Size())
	case bytes.HasPrefix(begin, []byte(transfer.Magic)):
		if by.key != nil {
			return v, errors.New("an export is not encrypted: --encryption-key-file is for a backup")
		}
		v = by.export(ctx, file, info.Size())
	default:
		return v, fmt.Errorf("%s does not begin as a backup or an export does", name)
	}
	if ctx.Err() != nil {
		return v, errInterrupted
	}
	return v, nil
}

func (by verification) backup(ctx context.Context, file io.ReadSeeker, size int64) verdict {
	m := newMeter(by.messages)
	defer m.done()
	info, end, report, err := badger.VerifyBackup(ctx, file, size, badger.BackupVerification{
		Key: by.key, Folder: by.scratch,
		Spill: func(folder string, size int64) error {
			m.clear()
			_, err := fmt.Fprintf(by.messages, "Comparing the records takes %s of disk space in %s for a while.\n", humanize.IBytes(uint64(size)), folder)
			return err
		},
		Progress: func(unit badger.ProgressUnit, done, all int64) {
			m.show(func() string {
				if unit == badger.ProgressBytes {
					return fmt.Sprintf("read %s of %s", humanize.IBytes(uint64(done)), humanize.IBytes(uint64(all)))
				}
				return fmt.Sprintf("compared %d of %d records", done, all)
			})
		},
	})
	v := newVerdict(report, err)
	if !info.CreatedAt.IsZero() {
		v.Backup = &backupSummary{info.Commit, info.CreatedAt, info.Encrypted(), end.Entries, end.Digest}
	}
	return v
}

func (by verification) export(ctx context.Context, file io.Reader, size int64) verdict {
	p := newProgress(by.messages, file, size)
	defer p.done()
	summary, err := transfer.Verify(ctx, p)
	var report storage.Report
	if err == nil {
		report.Records = summary.Total()
	}
	v := newVerdict(report, err)
	v.Damaged = errors.Is(err, transfer.ErrFile) && !errors.Is(err, transfer.ErrVersion)
	if err == nil {
		v.Export = &summary
	}
	return v
}

// describe returns a line about the file of the verdict, empty for a folder or a server.
func (v verdict) describe() string {
	switch {
	case v.Backup != nil:
		encrypted := "not encrypted"
		if v.Backup.Encrypted {
			encrypted = "encrypted"
		}
		line := fmt.Sprintf("A backup of commit %d, made at %s, %s", v.Backup.Commit, v.Backup.CreatedAt.Format(time.RFC3339), encrypted)
		if v.Backup.Digest != "" {
			line += ", digest " + v.Backup.Digest
		}
		return line + "."
	case v.Export != nil:
		return fmt.Sprintf("An export made at %s of %s, digest %s.", v.Export.CreatedAt.Format(time.RFC3339), describeCounts(v.Export.Counts), v.Export.Digest)
	default:
		return ""
	}
}
