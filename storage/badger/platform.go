package badger

import (
	"errors"
	"strconv"
)

// checkPlatform fails on a 32-bit platform. Badger makes its tables with ristretto's
// z.Allocator, which shifts an int by 32 bits. There it hands out the same memory twice, so
// the tables of a flush are damaged.
func checkPlatform() error {
	if strconv.IntSize < 64 {
		return misuseError{errors.New("the engine badger needs a 64-bit platform; the engine etcd runs on others, too")}
	}
	return nil
}
