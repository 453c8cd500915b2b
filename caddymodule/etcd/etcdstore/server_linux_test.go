package etcdstore

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestServerEnds runs these tests with no time left, and checks that their server ends.
func TestServerEnds(t *testing.T) {
	const child = "PRESETS_TEST_CHILD"
	if os.Getenv(child) != "" {
		os.Stdout.WriteString("\n" + shared.address + "\n")
		time.Sleep(time.Minute)
		return
	}
	needed(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerEnds$")
	cmd.Env = append(os.Environ(), child+"=1", "PRESETS_ETCD="+program, "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var address string
	for lines := bufio.NewScanner(out); !strings.HasPrefix(address, "127.") && lines.Scan(); {
		address = lines.Text()
	}
	listens := func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	wait.Until(t, "the server listens", listens)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	wait.Until(t, "the server has ended", func() bool { return !listens() })
}
