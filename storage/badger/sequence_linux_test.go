package badger

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A new sequence file gets its name once it is whole: a power cut before that leaves none.
func TestNewSequence(t *testing.T) {
	folder := t.TempDir()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, folder, unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	file, err := openSequence(folder, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.close(); err != nil {
		t.Error(err)
	}
	var events [4096]byte
	n, err := unix.Read(watch, events[:])
	if err != nil || !bytes.Contains(events[:n], []byte(sequenceName)) {
		t.Errorf("%s was not renamed to from another name (%v)", sequenceName, err)
	}
	if want := encodeSequence(7); !bytes.Equal(readFile(t, filepath.Join(folder, sequenceName)), want[:]) || listFolder(folder) != ". "+sequenceName {
		t.Errorf("the folder holds %s, want %s alone, for commit 7", listFolder(folder), sequenceName)
	}
}

// A full disk keeps the number of a commit from being written, which is safe itself. So it does not
// stop the store, but the next commit fails before it begins.
func TestFullSequence(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	file := sequenceFile{file: full, dirty: make(chan struct{}, 1)}
	if err := file.set(1); err != nil {
		t.Errorf("after a commit: got error %v, want none", err)
	}
	if err := file.write(1); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("before the next one: got error %v, want ENOSPC", err)
	}
}
