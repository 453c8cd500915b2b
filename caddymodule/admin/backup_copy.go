package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/bucket"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/terminal"
	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// maxCopyAge bounds what a command says of the age of a copy, in seconds.
	maxCopyAge = 10 * 365 * 24 * 60 * 60
	// firstRetry is the pause after a copy failed. It doubles with each failure, up to --every.
	firstRetry = 10 * time.Second
)

// isInBucket reports whether an argument names a bucket.
func isInBucket(name string) bool { return strings.HasPrefix(name, bucket.Scheme) }

// recordCopy records that a command has copied the store, as it was some seconds ago.
func recordCopy(r request) (any, error) {
	age, err := numberIn(r.URL.Query(), "age", 0, 0, maxCopyAge)
	if err != nil {
		return nil, err
	}
	at := time.Now().Add(-time.Duration(age) * time.Second).UTC()
	r.live.RecordCopy(at)
	return copied{at}, nil
}

// copied is the answer to a copy that was recorded.
type copied struct {
	LastCopy time.Time `json:"last_copy"`
}

// bucketPlace is a place in a bucket.
type bucketPlace struct {
	*bucket.Bucket
	ctx context.Context
}

func (b bucketPlace) names() ([]string, error) { return b.Names(b.ctx) }

func (b bucketPlace) open(name string) (io.ReadCloser, error) {
	content, _, err := b.Get(b.ctx, name)
	return content, err
}

func (b bucketPlace) remove(name string) error { return b.Remove(b.ctx, name) }

func (b bucketPlace) path(name string) string { return terminal.Escape(b.Path(name)) }

// copier copies backups of the server's store to a bucket.
type copier struct {
	*client
	rotation
	at  bucketPlace // the place
	key []byte      // encrypts the copies, unless it is nil
}

// copyBackups copies the store to a bucket, and with every again and again until the command is
// stopped. It prints the address of each new copy.
func (t *client) copyBackups(cmd *cobra.Command, address string, keep int, every time.Duration, key []byte) error {
	ctx, stop := terminal.Interruptible(cmd.Context())
	defer stop()
	b, err := bucket.Open(address, bucket.Patience)
	if err != nil {
		return err
	}
	at := bucketPlace{b, ctx}
	c := copier{client: t, rotation: rotation{at, keep, cmd.ErrOrStderr(), remembered(commitIn)}, at: at, key: key}
	last, retry := "never", firstRetry
	for {
		begun := time.Now()
		name, err := c.run()
		if err == nil && name != "" {
			_, err = fmt.Fprintln(cmd.OutOrStdout(), at.path(name))
		}
		if every == 0 {
			return err
		}
		pause := max(0, every-time.Since(begun))
		if err == nil {
			last, retry = begun.UTC().Format(time.RFC3339), firstRetry
		} else if ctx.Err() == nil {
			pause, retry = min(retry, every), 2*retry
			fmt.Fprintf(c.messages, "Failed: %v\nThe last good copy: %s. Trying again in %v.\n", err, last, pause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// remembered returns a function that asks for the commit of a copy once, because copies do not change.
func remembered(commit func(place, string) (uint64, error)) func(place, string) (uint64, error) {
	commits := map[string]uint64{}
	return func(of place, name string) (uint64, error) {
		if known, ok := commits[name]; ok {
			return known, nil
		}
		found, err := commit(of, name)
		if err == nil {
			commits[name] = found
		}
		return found, err
	}
}

// run copies the store, unless the newest copy has the same digest, and tells the server. It
// returns the name of the new copy. An object is either whole or missing, so a run that is cut off
// leaves none, and the next one removes its parts.
func (c copier) run() (name string, err error) {
	all, _, err := c.list()
	if err != nil {
		return "", err
	}
	removed, err := c.at.RemoveParts(c.at.ctx, func(name string) bool {
		at, isPartial := timeIn(name)
		return !at.IsZero() && !isPartial
	})
	for _, name := range removed {
		fmt.Fprintf(c.messages, "Removed parts of %s, which a run left that was cut off.\n", c.at.path(name))
	}
	if err != nil { // such as one who may only add objects
		fmt.Fprintf(c.messages, "Parts of copies that were cut off may be left: %v\n", err)
	}
	file, err := newTempFile()
	if err != nil {
		return "", err
	}
	defer file.Close()
	begun := time.Now()
	info, end, err := c.backupTo(c.messages, file, c.key)
	if err != nil {
		return "", err
	}
	if err := verifyNew(c.at.ctx, c.messages, file, c.key); err != nil {
		return "", err
	}
	if len(all) > 0 {
		newest := all[len(all)-1]
		digest, err := c.at.Digest(c.at.ctx, newest)
		if err != nil {
			return "", err
		}
		if digest == end.Digest {
			fmt.Fprintf(c.messages, "Nothing has changed since %s.\n", c.at.path(newest))
			return "", errors.Join(c.tell(begun), c.finish(newest))
		}
	}
	stat, err := file.Stat()
	if err != nil {
		return "", err
	}
	name = nextName(info.CreatedAt, all)
	sending := time.Now()
	if err := c.at.Put(c.at.ctx, name, file, stat.Size(), end.Digest); err != nil {
		return "", err
	}
	fmt.Fprintf(c.messages, "Copied it to %s: %s in %v.\n", c.at.path(name), humanize.IBytes(uint64(stat.Size())), terminal.Rounded(time.Since(sending)))
	return name, errors.Join(c.tell(begun), c.finish(name))
}

// tell tells the server that there is a copy of the store as it was at a time.
func (c copier) tell(at time.Time) error {
	_, err := call[copied](c.client, http.MethodPost, fmt.Sprintf("%sbackup/copied?age=%d", Path, int(time.Since(at).Seconds())), nil)
	return err
}

// fetchCopy gets a copy from a bucket: the one of a name, or the last one of a prefix until a time.
func fetchCopy(ctx context.Context, messages io.Writer, address, until string) (f file, err error) {
	name := path.Base(address)
	if at, _ := timeIn(name); at.IsZero() {
		name = ""
	} else if until != "" {
		return nil, errors.New("--at is for a prefix of copies, and not for the name of one")
	}
	b, err := bucket.Open(strings.TrimSuffix(address, name), bucket.Patience)
	if err != nil {
		return nil, err
	}
	place := bucketPlace{b, ctx}
	if name == "" {
		if name, err = (rotation{place: place}).lastUntil(until); err != nil {
			return nil, err
		}
	}
	content, size, err := b.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	to, err := newTempFile()
	if err != nil {
		return nil, err
	}
	p := terminal.NewProgress(messages, content, size)
	_, err = io.Copy(to, p)
	if p.Done(); err == nil {
		_, err = to.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", place.path(name), err), to.Close())
	}
	_, err = fmt.Fprintf(messages, "Got %s: %s in %v.\n", place.path(name), humanize.IBytes(uint64(size)), p.Elapsed())
	return to, err
}

// lastUntil returns the name of the last backup that was made until a time, as RFC 3339 or empty.
func (r rotation) lastUntil(until string) (name string, err error) {
	at := time.Unix(1<<40, 0)
	if until != "" {
		if at, err = time.Parse(time.RFC3339, until); err != nil {
			return "", domain.InvalidAt("--at", "must be a time as RFC 3339, such as 2026-11-29T20:00:00Z")
		}
	}
	all, _, err := r.list()
	if err != nil {
		return "", err
	}
	for _, each := range all {
		if made, _ := timeIn(each); !made.After(at) {
			name = each
		}
	}
	switch {
	case len(all) == 0:
		return "", fmt.Errorf("%s has no copies", r.place.path(""))
	case name == "":
		return "", fmt.Errorf("%s has no copy that was made until then, of %d", r.place.path(""), len(all))
	}
	return name, nil
}

// tempFile is a file that Close removes. It has no name, where the system has such files.
type tempFile struct {
	*os.File
	name string // empty once it is removed
}

func newTempFile() (tempFile, error) {
	f, err := os.CreateTemp("", "presets-*.backup")
	if err != nil {
		return tempFile{}, err
	}
	t := tempFile{f, f.Name()}
	if os.Remove(t.name) == nil { // Windows removes no open file
		t.name = ""
	}
	return t, nil
}

// Close implements io.Closer.
func (t tempFile) Close() error {
	err := t.File.Close()
	if t.name != "" {
		err = errors.Join(err, os.Remove(t.name))
	}
	return err
}
