package badger

import (
	"bytes"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A new mark gets its name once it is whole: a power cut before that leaves none.
func TestNewMark(t *testing.T) {
	folder := t.TempDir()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, folder, unix.IN_MOVED_TO); err != nil {
		t.Fatal(err)
	}
	mark, err := openMark(folder, 7)
	if err != nil {
		t.Fatal(err)
	}
	if err := mark.close(); err != nil {
		t.Error(err)
	}
	var events [4096]byte
	n, err := unix.Read(watch, events[:])
	if err != nil || !bytes.Contains(events[:n], []byte(markName)) {
		t.Errorf("%s was not renamed to from another name (%v)", markName, err)
	}
	if want := encodeMark(7); !bytes.Equal(readFile(t, filepath.Join(folder, markName)), want[:]) || listFolder(folder) != ". "+markName {
		t.Errorf("the folder holds %s, want %s alone, for commit 7", listFolder(folder), markName)
	}
}
