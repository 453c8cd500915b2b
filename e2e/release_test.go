package e2e

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestRelease makes a release of the present commit for this platform. The script itself
// builds everything twice, and compares the bytes.
func TestRelease(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	for _, tool := range []string{"bash", "git", "sha256sum"} {
		servertest.Tool(t, tool, tool)
	}
	target := runtime.GOOS + "/" + runtime.GOARCH
	if target != "linux/amd64" && target != "linux/arm64" {
		servertest.Lack(t, "linux", "the test runs on Linux, not on %s", target)
	}
	const version = "v0.0.1-e2e"
	dist := filepath.Join(t.TempDir(), "dist")
	out := run(t, root, []string{"DIST=" + dist}, "bash", ".ci/release", version, target)
	plain := "caddy_" + version + "_" + strings.Replace(target, "/", "_", 1)
	both := strings.Replace(plain, "caddy_", "caddy-etcd_", 1)
	for _, name := range []string{plain, both} {
		if !strings.Contains(out, "built again with the same bytes: "+name+"\n") {
			t.Errorf("%s was not built twice:\n%s", name, out)
		}
	}
	checkSums(t, dist, []string{"LICENSES.txt", both, both + ".cdx.json", plain, plain + ".cdx.json"})

	licences := read(t, filepath.Join(dist, "LICENSES.txt"))
	for name, want := range map[string][]string{
		plain: {"admin.api.presets", "http.handlers.presets", "http.handlers.presets.storage.badger"},
		both:  {"admin.api.presets", "http.handlers.presets", "http.handlers.presets.storage.badger", "http.handlers.presets.storage.etcd"},
	} {
		t.Run(name, func(t *testing.T) {
			binary := filepath.Join(dist, name)
			if got := strings.TrimSpace(run(t, t.TempDir(), nil, binary, "presets", "version")); got != version {
				t.Errorf("caddy presets version prints %q, want %q", got, version)
			}
			var modules []string
			for line := range strings.Lines(run(t, t.TempDir(), nil, binary, "list-modules", "--versions", "--skip-standard")) {
				if fields := strings.Fields(line); len(fields) == 2 && fields[1] == version {
					modules = append(modules, fields[0])
				}
			}
			if slices.Sort(modules); !slices.Equal(modules, want) {
				t.Errorf("modules of %s are %q, want %q", version, modules, want)
			}
			text := []byte(read(t, binary))
			for _, variable := range []string{"GOMODCACHE", "GOROOT", "GOCACHE"} {
				place := strings.TrimSpace(run(t, root, nil, "go", "env", variable))
				if bytes.Contains(text, []byte(place)) {
					t.Errorf("the binary names %s, a place of the machine that built it", place)
				}
			}
			info, err := buildinfo.ReadFile(binary)
			if err != nil {
				t.Fatal(err)
			}
			want := make(map[string]string)
			for _, module := range info.Deps {
				if module.Replace != nil {
					t.Errorf("%s is replaced", module.Path)
				}
				want[module.Path] = module.Version
				if !strings.Contains(licences, "======== "+module.Path+" "+module.Version+": ") {
					t.Errorf("LICENSES.txt has nothing of %s", module.Path)
				}
			}
			if want[mainModule] != version || (want[etcdModule] != "") != (name == both) {
				t.Errorf("it has our modules at %q and %q", want[mainModule], want[etcdModule])
			}
			checkBill(t, binary+".cdx.json", version, want)
		})
	}
}

// TestReleaseOfAnotherVersion checks that a release is refused whose modules nobody could
// import together.
func TestReleaseOfAnotherVersion(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"bash", "git"} {
		servertest.Tool(t, tool, tool)
	}
	dist := filepath.Join(t.TempDir(), "dist")
	_, message, err := try(t, root, []string{"DIST=" + dist}, "bash", ".ci/release", "v999.0.0")
	if err == nil || !strings.Contains(message, "caddymodule/etcd/go.mod requires v") || !strings.Contains(message, ", not v999.0.0") {
		t.Errorf("got %v, %s", err, message)
	}
	if _, err := os.Stat(dist); !os.IsNotExist(err) {
		t.Errorf("it made the folder of the files: %v", err)
	}
}

// TestSign signs the checksums of a release with a new pair of keys, whose secret one cannot be made in the
// repository. The signature is of these checksums and this version, and a file that differs from its
// checksum is not signed.
func TestSign(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	for _, tool := range []string{"bash", "sha256sum"} {
		servertest.Tool(t, tool, tool)
	}
	home := t.TempDir()
	file, sums := filepath.Join(home, "caddy_v1.2.3_linux_amd64"), filepath.Join(home, "SHA256SUMS")
	write(t, file, "a binary")
	write(t, sums, hexSHA256([]byte("a binary"))+"  "+filepath.Base(file)+"\n")
	const password = "a password of the test\n"
	sign := func(args ...string) (string, error) {
		cmd := exec.CommandContext(wait.Command(t), "bash", append([]string{filepath.Join(root, ".ci", "sign")}, args...)...)
		cmd.Stdin = strings.NewReader(password)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	public, secret := filepath.Join(home, "key.pub"), filepath.Join(home, "key")
	inside := filepath.Join(root, "e2e", "testdata", "secret.key")
	if out, err := sign("--new", public, inside); err == nil || !strings.Contains(out, "in the repository") {
		t.Errorf("a secret key in the repository: got %v, %s", err, out)
	}
	for _, file := range []string{public, inside} {
		if _, err := os.Stat(file); !os.IsNotExist(err) {
			t.Errorf("it made a key that it refuses: %s, %v", file, err)
		}
	}
	if out, err := sign("--new", public, secret); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := sign(home, secret); err != nil || !strings.Contains(out, "RESULT sign: version=v1.2.3 ") {
		t.Fatalf("got %v, %s", err, out)
	}
	verify := func() (string, error) {
		out, message, err := try(t, home, []string{"GOFLAGS="}, "go", "run", "aead.dev/minisign/cmd/minisign@v0.3.0", "-V", "-p", public, "-m", sums)
		return out + message, err
	}
	if out, err := verify(); err != nil || !strings.Contains(out, "caddy-presets v1.2.3") {
		t.Errorf("the signature: got %v, %s, want the version", err, out)
	}
	write(t, sums, hexSHA256([]byte("another"))+"  "+filepath.Base(file)+"\n")
	if out, err := verify(); err == nil {
		t.Errorf("the signature is also of other checksums: %s", out)
	}
	if out, err := sign(home, secret); err == nil {
		t.Errorf("wrong checksums are signed: %s", out)
	}
}

// checkSums checks that a folder has files with these names, and that SHA256SUMS has
// the sum of each.
func checkSums(t *testing.T, folder string, want []string) {
	t.Helper()
	sums := make(map[string]string)
	for line := range strings.Lines(read(t, filepath.Join(folder, "SHA256SUMS"))) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			t.Fatalf("SHA256SUMS has the line %q", line)
		}
		sums[fields[1]] = fields[0]
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != "SHA256SUMS" {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(sums)); !slices.Equal(names, want) || !slices.Equal(got, want) {
		t.Errorf("the files are %q, those in SHA256SUMS %q, want %q", names, got, want)
	}
	for _, name := range names {
		if got := hexSHA256([]byte(read(t, filepath.Join(folder, name)))); sums[name] != got {
			t.Errorf("%s has the sum %s, and in SHA256SUMS %s", name, got, sums[name])
		}
	}
}

// checkBill checks that a software bill of materials lists these modules with their
// versions, and the standard library.
func checkBill(t *testing.T, file, version string, want map[string]string) {
	t.Helper()
	type component struct {
		Name, Version, PURL, Type string
		Evidence                  struct {
			Licenses []struct{ License struct{ ID string } }
		}
	}
	var bill struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Timestamp string
			Component component
		}
		Components []component
	}
	if err := json.Unmarshal([]byte(read(t, file)), &bill); err != nil {
		t.Fatal(err)
	}
	if bill.BOMFormat != "CycloneDX" || bill.SpecVersion == "" || bill.Metadata.Component.Version != version {
		t.Errorf("got %s %s of %+v", bill.BOMFormat, bill.SpecVersion, bill.Metadata.Component)
	}
	if bill.SerialNumber != "" || bill.Metadata.Timestamp != "" {
		t.Errorf("the bill differs between builds: serial number %q, time %q", bill.SerialNumber, bill.Metadata.Timestamp)
	}
	got := make(map[string]string)
	for _, c := range bill.Components {
		if c.Name == "std" {
			continue
		}
		got[c.Name] = c.Version
		if len(c.Evidence.Licenses) == 0 {
			t.Errorf("the bill has no licence of %s", c.Name)
		}
		if !strings.HasPrefix(c.PURL, "pkg:golang/") {
			t.Errorf("%s has the package URL %q", c.Name, c.PURL)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the bill has %d modules, the binary has %d:\n%v\n%v", len(got), len(want), got, want)
	}
}
