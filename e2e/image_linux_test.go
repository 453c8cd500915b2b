package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// container is a container that buildah made, with storage of its own.
type container struct {
	t        *testing.T
	buildah  []string // the tool and its flags
	name     string
	data     string   // the folder at /data
	readOnly bool     // of /data
	volumes  []string // more volumes
	env      []string
}

// tool returns a command of buildah.
func (c *container) tool(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(wait.Command(c.t), c.buildah[0], append(slices.Clone(c.buildah[1:]), args...)...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs a command of buildah and returns its standard output.
func (c *container) run(args ...string) string {
	c.t.Helper()
	return run(c.t, c.t.TempDir(), nil, c.buildah[0], append(slices.Clone(c.buildah[1:]), args...)...)
}

// inside returns the arguments that run a command in the container.
func (c *container) inside(command ...string) []string {
	args := []string{"run", "--isolation", "chroot", "--volume", c.data + ":/data"}
	if c.readOnly {
		args[len(args)-1] += ":ro"
	}
	for _, volume := range c.volumes {
		args = append(args, "--volume", volume)
	}
	for _, variable := range c.env {
		args = append(args, "--env", variable)
	}
	return append(append(args, c.name, "--"), command...)
}

// jobSpec is the part of a job in ops/kubernetes that says what its containers run.
type jobSpec struct {
	Template struct {
		Spec struct {
			InitContainers []struct{ Args []string } `yaml:"initContainers"`
			Containers     []struct{ Args []string }
		}
	}
}

// jobArguments returns the arguments of a job's containers, in the order in which they run. The
// job is in a file of ops/kubernetes.
func jobArguments(t *testing.T, file string) (all [][]string) {
	t.Helper()
	documents := yaml.NewDecoder(strings.NewReader(read(t, filepath.Join(root, "ops", "kubernetes", file))))
	for {
		var job struct {
			Kind string
			Spec struct {
				jobSpec     `yaml:",inline"`
				JobTemplate struct{ Spec jobSpec } `yaml:"jobTemplate"`
			}
		}
		if err := documents.Decode(&job); err != nil {
			t.Fatalf("%s has no job: %v", file, err)
		}
		spec := job.Spec.jobSpec
		switch job.Kind {
		case "CronJob":
			spec = job.Spec.JobTemplate.Spec
		case "Job":
		default:
			continue
		}
		for _, container := range slices.Concat(spec.Template.Spec.InitContainers, spec.Template.Spec.Containers) {
			all = append(all, container.Args)
		}
		return all
	}
}

// dockerfile returns the commands of the first stage of ops/docker/Dockerfile, and the text
// of the second one.
func dockerfile(t *testing.T) (commands []string, final string) {
	t.Helper()
	text := strings.ReplaceAll(read(t, filepath.Join(root, "ops", "docker", "Dockerfile")), "\\\n", "")
	first, final, ok := strings.Cut(text, "\nFROM scratch\n")
	if !ok || strings.Contains(final, "\nFROM ") {
		t.Fatal("the Dockerfile has other stages than a base image and scratch")
	}
	for line := range strings.Lines(first) {
		if command, ok := strings.CutPrefix(line, "RUN "); ok {
			commands = append(commands, command)
		}
	}
	if len(commands) != 2 {
		t.Fatalf("the first stage runs %q, want the build and the files", commands)
	}
	return commands, "FROM scratch\n" + final
}

// imageVersion is the build argument VERSION.
const imageVersion = "v0.0.1-image"

// buildImage builds the image without a registry. The commands of the first stage run here,
// in the place of its base image. The second stage is built unchanged.
func buildImage(t *testing.T) *container {
	t.Helper()
	tool := servertest.Tool(t, "buildah", "buildah")
	servertest.AsRoot(t, "run buildah here")
	commands, final := dockerfile(t)
	home := t.TempDir()
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	here := strings.NewReplacer("/out", filepath.Join(home, "out"), "/empty", filepath.Join(home, "empty"))
	for _, command := range commands {
		run(t, checkout, []string{"VERSION=" + imageVersion}, "sh", "-c", here.Replace(command))
	}
	if err := os.WriteFile(filepath.Join(home, "Dockerfile"), []byte("FROM scratch AS build\nCOPY out /out\nCOPY empty /empty\n\n"+final), 0o600); err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	c := &container{t: t, data: filepath.Join(home, "data"), buildah: []string{
		tool, "--root", filepath.Join(store, "root"), "--runroot", filepath.Join(store, "run"), "--storage-driver", "vfs",
	}}
	c.run("build", "--isolation", "chroot", "--format", "docker", "--tag", "caddy-presets", home)
	c.name = strings.TrimSpace(c.run("from", "--pull-never", "localhost/caddy-presets"))
	t.Cleanup(func() { c.run("rm", c.name) })
	return c
}

// TestImage builds the image and runs it as its user. It can write to one volume, and to
// nothing else.
func TestImage(t *testing.T) {
	t.Parallel()
	c := buildImage(t)
	var description struct {
		Docker struct {
			Config struct {
				User        string
				Env         []string
				Entrypoint  []string
				Cmd         []string
				Volumes     map[string]any
				Healthcheck struct{ Test []string }
			} `json:"config"`
		}
	}
	if err := json.Unmarshal([]byte(c.run("inspect", c.name)), &description); err != nil {
		t.Fatal(err)
	}
	config := description.Docker.Config
	check := config.Healthcheck.Test
	if config.User != "65532:65532" || !slices.Equal(slices.Sorted(maps.Keys(config.Volumes)), []string{"/data"}) || len(check) < 2 || check[0] != "CMD" {
		t.Fatalf("got user %q, volumes %v and health check %q", config.User, config.Volumes, check)
	}

	// buildah mounts a folder of its own at a volume of an image, in the place of ours.
	c.run("config", "--volume", "/data-", c.name)

	// /data of the image belongs to the user, as a new volume then does.
	mounted := strings.TrimSpace(c.run("mount", c.name))
	run(t, mounted, nil, "sh", "-c", `[ "$(stat -c %u:%g data)" = 65532:65532 ] && [ -z "$(find . -mindepth 1 ! -name data ! -user 0)" ]`)
	// volume makes a folder for the user.
	volume := func(name string) string {
		folder := filepath.Join(filepath.Dir(c.data), name)
		if err := errors.Join(os.Mkdir(folder, 0o700), os.Chown(folder, 65532, 65532)); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	c.data = volume("data")
	// The kernel lets the user pass the folders of the test.
	for folder := filepath.Dir(c.data); strings.HasPrefix(folder, os.TempDir()+"/"); folder = filepath.Dir(folder) {
		if err := os.Chmod(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := filesBelow(t, mounted)

	gateway := newUpstream(t)
	site, metrics := freeAddress(t), freeAddress(t)
	c.env = []string{
		"PRESETS_UPSTREAM=" + gateway.address(),
		"PRESETS_SITE=http://" + site, "PRESETS_METRICS=http://" + metrics, "PRESETS_GRACE_PERIOD=1s",
	}
	s := &server{site: "http://" + site}
	healthy := func() bool {
		return c.tool(c.inside(check[1:]...)...).Run() == nil
	}
	if healthy() {
		t.Fatal("the container is healthy before it runs")
	}
	begin := func() {
		t.Helper()
		servertest.Serve(t, c.tool(c.inside(append(slices.Clone(config.Entrypoint), config.Cmd...)...)...), site)
		wait.Until(t, "the container is healthy", healthy)
	}
	begin()
	key := strings.TrimSpace(c.run(c.inside("caddy", "presets", "key", "create", "--kind", "management")...))
	inference := strings.TrimSpace(c.run(c.inside("caddy", "presets", "key", "create", "--kind", "inference")...))
	if status, answer := s.post(t, "/v1/presets/p/chat/completions", key, `{"model":"acme/small"}`); status != http.StatusOK {
		t.Fatalf("got %d %s", status, answer)
	}
	if got := strings.TrimSpace(c.run(c.inside("caddy", "presets", "version")...)); got != imageVersion {
		t.Errorf("caddy presets version prints %q, want %q", got, imageVersion)
	}
	caddy := strings.TrimSpace(run(t, root, nil, "go", "list", "-m", "-f", "{{.Version}}", "github.com/caddyserver/caddy/v2"))
	if got := c.run(c.inside("caddy", "version")...); !strings.HasPrefix(got, caddy+" ") {
		t.Errorf("caddy version prints %q, want %s", got, caddy)
	}
	if _, exported := (&server{site: "http://" + metrics}).send(t, http.MethodGet, "/metrics", "", ""); !strings.Contains(exported, `,version="`+imageVersion+`"} 1`) {
		t.Errorf("the metrics have no version %s:\n%s", imageVersion, exported)
	}
	// The job of ops/kubernetes makes a backup through the socket on the server's volume, which
	// it cannot write to.
	backups := volume("backups")
	job := &container{t: t, buildah: c.buildah, name: c.name, data: c.data, readOnly: true, volumes: []string{backups + ":/backups"}}
	arguments := jobArguments(t, "badger.yaml")[0]
	made := strings.TrimSpace(job.run(job.inside(append(slices.Clone(config.Entrypoint), arguments...)...)...))
	if entries, err := os.ReadDir(backups); err != nil || len(entries) != 1 || "/backups/"+entries[0].Name() != made {
		t.Errorf("the backup %s: the volume has %v, %v", made, entries, err)
	}

	end := func() {
		c.run(c.inside("caddy", "stop")...)
		wait.Until(t, "the container has stopped", func() bool { return !healthy() })
	}
	end()

	begin()
	if status, answer := s.post(t, "/v1/chat/completions", inference, `{"model":"@preset/p","messages":[]}`); status != http.StatusOK {
		t.Errorf("after a restart the preset is gone: %d %s", status, answer)
	}
	if got := gateway.received(); !slices.Equal(got, []string{"POST /v1/chat/completions"}) {
		t.Errorf("the gateway received %q", got)
	}
	end()

	// The job of ops/kubernetes restores the backup into another folder, which the next server
	// uses.
	job.readOnly = false
	folder := ""
	for _, arguments := range jobArguments(t, "restore.yaml") {
		arguments[len(arguments)-1] = made
		if n := slices.Index(arguments, "--folder"); n >= 0 {
			folder = arguments[n+1]
		}
		job.run(job.inside(append(slices.Clone(config.Entrypoint), arguments...)...)...)
	}
	c.env = append(c.env, "PRESETS_FOLDER="+folder)
	begin()
	if status, answer := s.post(t, "/v1/chat/completions", inference, `{"model":"@preset/p","messages":[]}`); status != http.StatusOK {
		t.Errorf("after a restore the preset is gone: %d %s", status, answer)
	}
	if entries, err := os.ReadDir(filepath.Join(c.data, strings.TrimPrefix(folder, "/data"))); err != nil || len(entries) == 0 {
		t.Errorf("the restored folder %q has %v, %v", folder, entries, err)
	}
	end()

	// A salvage, as docs/packages.md has it, makes one more folder.
	var salvage []string
	for _, c := range documentedCommands(t, "docs/packages.md") {
		if _, arguments, ok := strings.Cut(c.command, " caddy-presets presets salvage "); ok {
			salvage = append([]string{"presets", "salvage"}, strings.Fields(arguments)...)
		}
	}
	if len(salvage) != 4 {
		t.Fatalf("docs/packages.md salvages with %q", salvage)
	}
	job.run(job.inside(append(slices.Clone(config.Entrypoint), salvage...)...)...)
	c.env[len(c.env)-1] = "PRESETS_FOLDER=" + salvage[3]
	begin()
	if status, _ := s.post(t, "/v1/chat/completions", inference, `{"model":"@preset/p","messages":[]}`); status != http.StatusUnauthorized {
		t.Errorf("after a salvage a key of before gets %d, want 401", status)
	}
	inference = strings.TrimSpace(c.run(c.inside("caddy", "presets", "key", "create", "--kind", "inference")...))
	if status, answer := s.post(t, "/v1/chat/completions", inference, `{"model":"@preset/p","messages":[]}`); status != http.StatusOK {
		t.Errorf("after a salvage the preset is gone: %d %s", status, answer)
	}
	end()
	if after := filesBelow(t, mounted); !maps.Equal(before, after) {
		t.Errorf("the container changed files outside of its volume:\n%v\n%v", before, after)
	}
}

// filesBelow returns the size and the time of each file below a folder. Those of proc, sys
// and dev, which buildah mounts, are left out.
func filesBelow(t *testing.T, folder string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			switch strings.TrimPrefix(path, folder) {
			case "/proc", "/sys", "/dev", "/run":
				return filepath.SkipDir
			}
			return nil
		}
		switch strings.TrimPrefix(path, folder) {
		case "/etc/hostname", "/etc/hosts", "/etc/resolv.conf": // buildah makes them
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files[strings.TrimPrefix(path, folder)] = fmt.Sprintf("%d %v", info.Size(), info.ModTime())
		return nil
	})
	if err != nil || len(files) < 3 {
		t.Fatalf("found files %v, %v", files, err)
	}
	return files
}
