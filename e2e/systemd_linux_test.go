package e2e

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// systemdFolder has the units and what belongs to them.
var systemdFolder = filepath.Join(root, "ops", "systemd")

// installUnits copies the units to a folder, with a binary in the place of the installed one.
func installUnits(t *testing.T, binary string) (folder string, units []string) {
	t.Helper()
	folder = t.TempDir()
	for _, pattern := range []string{"*.service", "*.timer"} {
		found, err := filepath.Glob(filepath.Join(systemdFolder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range found {
			text := strings.ReplaceAll(read(t, file), "/usr/local/bin/caddy", binary)
			unit := filepath.Join(folder, filepath.Base(file))
			if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			units = append(units, unit)
		}
	}
	if len(units) != 3 {
		t.Fatalf("found units %q, want three", units)
	}
	return folder, units
}

// TestSystemdUnits checks the units by systemd's own tools. They need no running systemd.
func TestSystemdUnits(t *testing.T) {
	t.Parallel()
	analyze := servertest.Tool(t, "systemd-analyze", "systemd")
	_, units := installUnits(t, servertest.Caddy(t))
	_, said, err := try(t, t.TempDir(), nil, analyze, append([]string{"verify", "--man=no"}, units...)...)
	if err != nil || strings.TrimSpace(said) != "" {
		t.Errorf("systemd-analyze verify: %v\n%s", err, said)
	}
	for _, unit := range units {
		text := read(t, unit)
		switch filepath.Ext(unit) {
		case ".service":
			checkRules(t, filepath.Base(unit), text)
			// The threshold is in tenths.
			out, said, err := try(t, t.TempDir(), nil, analyze, "security", "--offline=true", "--no-pager", "--threshold=20", unit)
			if err != nil {
				t.Errorf("%s is exposed by more than 2.0: %v\n%s%s", filepath.Base(unit), err, out, said)
			}
		case ".timer":
			found := regexp.MustCompile(`(?m)^OnCalendar=(.+)$`).FindStringSubmatch(text)
			if found == nil {
				t.Fatalf("%s has no OnCalendar", unit)
			}
			run(t, t.TempDir(), nil, analyze, "calendar", found[1])
		}
	}
	// A mistake is found.
	broken := filepath.Join(t.TempDir(), "caddy-presets.service")
	if err := os.WriteFile(broken, []byte(strings.Replace(read(t, units[0]), "ExecStart=", "ExecStart=/absent", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := try(t, t.TempDir(), nil, analyze, "verify", "--man=no", broken); err == nil {
		t.Error("systemd-analyze verify takes a unit whose command does not exist")
	}
}

// checkRules checks what systemd's tools do not know.
func checkRules(t *testing.T, name, unit string) {
	t.Helper()
	switch name {
	case "caddy-presets-backup.service":
		// Otherwise a night without the server is no failure, and the disk may not be mounted.
		if !strings.Contains(unit, "\nRequiresMountsFor=/var/backups/caddy-presets\n") || regexp.MustCompile(`(?m)^(Requisite|Requires|BindsTo|Condition\w+)=`).MatchString(unit) {
			t.Errorf("%s needs a unit that may be missing, or not the disk of the backups", name)
		}
	case "caddy-presets.service":
		if !strings.Contains(unit, "\nTimeoutStartSec=") {
			t.Errorf("%s has the default time to start in, which is too short to read a large store", name)
		}
	}
}

// offline lets the commands of docs/production.md work below another root, as $ROOT names it. No
// systemd runs there.
var offline = map[string]string{
	"systemd-sysusers": `exec "$REAL" --root="$ROOT" "$@"`,
	"systemd-tmpfiles": `exec "$REAL" --root="$ROOT" "$@"`,
	"systemctl": `case "$*" in
daemon-reload) exit 0 ;;
'enable --now '*) shift 2 && exec "$REAL" --root="$ROOT" enable "$@" ;;
esac
echo "systemctl $*: not known here"
exit 1`,
}

// TestSystemdInstall runs the commands of docs/production.md that install the units, and the one
// that enables them. The files, the user and the folders are then below another root.
func TestSystemdInstall(t *testing.T) {
	t.Parallel()
	servertest.AsRoot(t, "make a folder of another user")
	home, clone, tools := t.TempDir(), t.TempDir(), t.TempDir()
	for name, script := range offline {
		text := "#!/bin/sh\nREAL=" + servertest.Tool(t, name, "systemd") + "\n" + script + "\n"
		if err := os.WriteFile(filepath.Join(tools, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range []string{"etc/systemd/system", "usr/local/bin", "var/backups"} { // as on a machine
		if err := os.MkdirAll(filepath.Join(home, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	checkout, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	binary := "caddy_v1.0.0_linux_amd64"
	if err := errors.Join(os.Symlink(filepath.Join(checkout, "ops"), filepath.Join(clone, "ops")), os.Symlink(servertest.Caddy(t), filepath.Join(clone, binary))); err != nil {
		t.Fatal(err)
	}

	below := strings.NewReplacer(" /etc/", " "+home+"/etc/", ">/etc/", ">"+home+"/etc/", " /usr/local/", " "+home+"/usr/local/")
	script := ""
	install, _ := productionCommands(t)
	for _, c := range install {
		script += below.Replace(c.command)
	}
	const enable = "systemctl enable --now caddy-presets.service caddy-presets-backup.timer\n"
	if strings.Count(script, "\n") != 9 || !strings.Contains(read(t, filepath.Join(root, filepath.FromSlash(productionPage))), enable) {
		t.Fatalf("%s installs with\n%s", productionPage, script)
	}
	script += enable
	for _, path := range regexp.MustCompile(`(?m)(?:^|[^\w.*])(/\S+)`).FindAllStringSubmatch(script, -1) {
		if path[1] != "/dev/null" && !strings.HasPrefix(path[1], home+"/") {
			t.Fatalf("%s is a place of this machine:\n%s", path[1], script)
		}
	}
	run(t, clone, nil, "sh", "-c", "sha256sum "+binary+" >SHA256SUMS")
	env := []string{"ROOT=" + home, "PATH=" + tools + string(os.PathListSeparator) + os.Getenv("PATH")}
	run(t, clone, env, "bash", "-euc", "umask 022\n"+script)

	for file, want := range map[string]struct {
		from string // of the clone
		mode os.FileMode
	}{
		"usr/local/bin/caddy":                             {binary, 0o755},
		"etc/sysusers.d/caddy-presets.conf":               {"ops/systemd/sysusers.conf", 0o644},
		"etc/tmpfiles.d/caddy-presets.conf":               {"ops/systemd/tmpfiles.conf", 0o644},
		"etc/caddy-presets/Caddyfile":                     {"ops/systemd/Caddyfile", 0o644},
		"etc/systemd/system/caddy-presets.service":        {"ops/systemd/caddy-presets.service", 0o644},
		"etc/systemd/system/caddy-presets-backup.service": {"ops/systemd/caddy-presets-backup.service", 0o644},
		"etc/systemd/system/caddy-presets-backup.timer":   {"ops/systemd/caddy-presets-backup.timer", 0o644},
		"etc/caddy-presets/environment":                   {"", 0o600},
	} {
		info, err := os.Stat(filepath.Join(home, file))
		if err != nil {
			t.Error(err)
			continue
		}
		content := ""
		if want.from != "" {
			content = read(t, filepath.Join(clone, want.from))
		}
		if info.Mode().Perm() != want.mode || read(t, filepath.Join(home, file)) != content {
			t.Errorf("/%s has mode %v, want %v, or is not the file that is meant", file, info.Mode(), want.mode)
		}
	}
	// The units name what was installed, and start with the machine.
	for _, unit := range []string{"multi-user.target.wants/caddy-presets.service", "timers.target.wants/caddy-presets-backup.timer"} {
		if _, err := os.Lstat(filepath.Join(home, "etc/systemd/system", unit)); err != nil {
			t.Errorf("a unit is not enabled: %v", err)
		}
	}
	installed := 0
	for _, unit := range []string{"caddy-presets.service", "caddy-presets-backup.service"} {
		for _, path := range regexp.MustCompile(`(?m)^(?:ExecStart|EnvironmentFile)=.*$`).FindAllString(read(t, filepath.Join(home, "etc/systemd/system", unit)), -1) {
			for _, file := range regexp.MustCompile(`/(?:etc|usr)/\S+`).FindAllString(path, -1) {
				installed++
				if _, err := os.Stat(filepath.Join(home, file)); err != nil {
					t.Errorf("%s: %v", unit, err)
				}
			}
		}
	}
	if installed != 4 {
		t.Errorf("the units name %d files, want 4", installed)
	}

	user := regexp.MustCompile(`(?m)^caddy-presets:x:(\d+):(\d+):Caddy with presets:/var/lib/caddy-presets:/\S*nologin$`).FindStringSubmatch(read(t, filepath.Join(home, "etc/passwd")))
	if user == nil {
		t.Fatalf("got the users\n%s", read(t, filepath.Join(home, "etc/passwd")))
	}
	info, err := os.Stat(filepath.Join(home, "var/backups/caddy-presets"))
	if err != nil || info.Mode().Perm() != 0o700 || !info.IsDir() {
		t.Fatalf("the folder of backups: %v, %v", info, err)
	}
	if owner := strconv.FormatUint(uint64(info.Sys().(*syscall.Stat_t).Uid), 10); owner != user[1] {
		t.Errorf("the folder of backups belongs to user %s, want %s", owner, user[1])
	}
}

// TestSystemdServer runs the command of the unit with its variables, and waits until the
// server tells systemd that it is ready. Folders below home replace the unit's.
func TestSystemdServer(t *testing.T) {
	t.Parallel()
	home, site := t.TempDir(), freeAddress(t)
	folders := strings.NewReplacer(
		"/usr/local/bin/caddy", servertest.Caddy(t), "/etc/caddy-presets", home, "/var/lib/caddy-presets", filepath.Join(home, "state"),
		"/run/caddy-presets", home,
		"http://:8080", "http://"+site, "http://:9180", "http://"+freeAddress(t),
	)
	caddyfile := filepath.Join(home, "Caddyfile")
	if err := os.WriteFile(caddyfile, []byte(folders.Replace(read(t, filepath.Join(systemdFolder, "Caddyfile")))), 0o600); err != nil {
		t.Fatal(err)
	}
	// Keys are in plain text on these sites.
	sites := regexp.MustCompile(`(?m)^http://:\d+ \{\n(.*)`).FindAllStringSubmatch(read(t, filepath.Join(systemdFolder, "Caddyfile")), -1)
	if len(sites) != 2 || sites[0][1] != "\tbind 127.0.0.1" || sites[1][1] != sites[0][1] {
		t.Errorf("the sites of the Caddyfile begin with %q, want two that bind to the loopback", sites)
	}
	unit := folders.Replace(read(t, filepath.Join(systemdFolder, "caddy-presets.service")))
	value := func(name string) []string {
		var all []string
		for _, found := range regexp.MustCompile(`(?m)^`+name+`=(.+)$`).FindAllStringSubmatch(unit, -1) {
			all = append(all, strings.Fields(found[1])...)
		}
		return all
	}
	ready, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(home, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	command, environment := value("ExecStart"), value("Environment")
	if len(command) == 0 || len(environment) != 4 {
		t.Fatalf("the unit has the command %q and the variables %q", command, environment)
	}
	cmd := exec.CommandContext(wait.Command(t), command[0], command[1:]...)
	cmd.Env = append(environment, "NOTIFY_SOCKET="+filepath.Join(home, "notify"), "PATH="+os.Getenv("PATH"))
	cmd.Dir = "/"
	servertest.Serve(t, cmd, site)
	if err := ready.SetReadDeadline(time.Now().Add(wait.Limit)); err != nil {
		t.Fatal(err)
	}
	for message := ""; message != "READY=1"; {
		text := make([]byte, 1024)
		n, err := ready.Read(text)
		if message = string(text[:n]); err != nil {
			t.Fatalf("systemd does not get READY=1: %v", err)
		}
	}
	out := run(t, "/", environment, command[0], "presets", "health")
	if want := filepath.Join(home, "state", "presets") + ": available\n"; !strings.HasSuffix(out, want) {
		t.Errorf("the health is %q, want %q", out, want)
	}
	if status, answer := (&server{site: "http://" + site}).send(t, "GET", "/healthz", "", ""); status != 200 || answer != "ok" {
		t.Errorf("/healthz: got %d %s", status, answer)
	}
	backups := filepath.Join(home, "backups")
	if err := os.Mkdir(backups, 0o700); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ExecStart=(.+)$`).FindStringSubmatch(read(t, filepath.Join(systemdFolder, "caddy-presets-backup.service")))
	if found == nil {
		t.Fatal("the unit of backups has no command")
	}
	backup := strings.Fields(strings.NewReplacer("/usr/local/bin/caddy", command[0], "/var/backups/caddy-presets", backups).Replace(found[1]))
	made := strings.TrimSpace(run(t, "/", environment, backup[0], backup[1:]...))
	if entries, err := os.ReadDir(backups); err != nil || len(entries) != 1 || filepath.Join(backups, entries[0].Name()) != made {
		t.Errorf("the backup %s: the folder has %v, %v", made, entries, err)
	}
	// Only the server's user and root can use the socket of the admin endpoint.
	if info, err := os.Stat(filepath.Join(home, "admin.sock")); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the socket of the admin endpoint: %v, %v", info, err)
	}
}
