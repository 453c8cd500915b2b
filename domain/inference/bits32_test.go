//go:build 386

package inference_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs the only test that needs a 32-bit program. The engine in memory would not hold what
// the other tests store. .ci/run long has it.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.run", "^TestLockedPromptIsBounded$")
	os.Exit(m.Run())
}
