package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// listedTables returns the tables that the MANIFEST in folder names, by the
// names of their files. All others are gone once Badger has opened the folder.
func listedTables(folder string) (map[string]bool, error) {
	file, err := os.Open(filepath.Join(folder, badgerdb.ManifestFilename))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	manifest, _, err := badgerdb.ReplayManifestFile(file, 0, settings(folder, nil))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", badgerdb.ManifestFilename, err)
	}
	listed := make(map[string]bool, len(manifest.Tables))
	for id := range manifest.Tables {
		listed[table.IDToFilename(id)] = true
	}
	return listed, nil
}

// checkTables makes sure that tables end as tables do. Badger takes that for
// granted when it opens them, on goroutines of its own, where one that was cut
// short panics and takes the whole process with it.
func checkTables(folder string, listed map[string]bool) error {
	for name := range listed {
		path := filepath.Join(folder, name)
		err := checkTable(path)
		if err != nil {
			// Unless another process is just writing it, whose lock on the
			// folder Badger then tells of.
			time.Sleep(100 * time.Millisecond)
			err = checkTable(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // which Badger reports
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	return nil
}

// checkTable checks the lengths at the end of a table: of its index, which
// stands before the first length, and of the checksum of that, which stands
// between the two.
func checkTable(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	end := info.Size()
	for _, part := range []string{"checksum", "index"} {
		var length [4]byte
		end -= int64(len(length))
		if end < 0 {
			return errors.New("it is cut short")
		}
		if _, err := file.ReadAt(length[:], end); err != nil {
			return err
		}
		if end -= int64(binary.BigEndian.Uint32(length[:])); end < 0 {
			return fmt.Errorf("it is cut short: its %s is longer than the file", part)
		}
	}
	return nil
}
