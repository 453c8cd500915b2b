package storagetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// EtcdServer returns the etcd server to test with: the one that PRESETS_ETCD names, or one
// that it builds from the module in source and puts into folder. If it cannot be built,
// EtcdServer says so on standard error and returns the empty string.
func EtcdServer(source, folder string) (program string) {
	if program = os.Getenv("PRESETS_ETCD"); program != "" {
		return program
	}
	program = filepath.Join(folder, "etcd")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: all tests that need etcd, as it cannot be built: %v\n%s", err, out)
		return ""
	}
	return program
}
