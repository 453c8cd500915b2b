package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	for _, pattern := range []string{"*.service", "*.socket", "*.timer"} {
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
	if len(units) != 4 {
		t.Fatalf("found units %q, want four", units)
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
		// Otherwise a client at the socket starts a broken server again and again, until systemd gives up the ports.
		if !strings.Contains(unit, "\nStartLimitIntervalSec=0\n") || !strings.Contains(unit, "\nExecStopPost=/bin/sh -c '[ \"$SERVICE_RESULT\" = success ] || sleep 2'\n") {
			t.Errorf("%s does not pace failing starts", name)
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
	const enable = "systemctl enable --now caddy-presets.socket caddy-presets.service caddy-presets-backup.timer\n"
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
		"etc/systemd/system/caddy-presets.socket":         {"ops/systemd/caddy-presets.socket", 0o644},
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
	for _, unit := range []string{"multi-user.target.wants/caddy-presets.service", "sockets.target.wants/caddy-presets.socket", "timers.target.wants/caddy-presets-backup.timer"} {
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

// awaitReady waits until a server tells systemd that it is ready.
func awaitReady(t *testing.T, systemd *net.UnixConn) {
	t.Helper()
	if err := systemd.SetReadDeadline(time.Now().Add(wait.Limit)); err != nil {
		t.Fatal(err)
	}
	for message := ""; message != "READY=1"; {
		text := make([]byte, 1024)
		n, err := systemd.Read(text)
		if message = string(text[:n]); err != nil {
			t.Fatalf("systemd does not get READY=1: %v", err)
		}
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
	awaitReady(t, ready)
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

// holdPorts holds two ports as systemd does for caddy-presets.socket. The files are fd/3 and fd/4 of
// a server that inherits them. secure is the address of the second one.
func holdPorts(t *testing.T) (files []*os.File, secure string) {
	t.Helper()
	unit := read(t, filepath.Join(systemdFolder, "caddy-presets.socket"))
	if got := regexp.MustCompile(`(?m)^ListenStream=.*$`).FindAllString(unit, -1); strings.Join(got, " ") != "ListenStream=80 ListenStream=443" {
		t.Fatalf("the unit holds %q", got)
	}
	for range 2 {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		file, err := l.File()
		if err := errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		files, secure = append(files, file), l.Addr().String()
	}
	return files, secure
}

// restarted is a server that the test restarts as systemd does, with the Caddyfile of
// docs/production.md.
type restarted struct {
	home, address string
	ports         []*os.File
	systemd       *net.UnixConn
	env           []string
}

func (s *restarted) start(t *testing.T) *servertest.Process {
	t.Helper()
	cmd := exec.CommandContext(wait.Command(t), "sh", "-c", `LISTEN_PID=$$ exec "$0" run --config Caddyfile`, servertest.Caddy(t))
	cmd.Dir, cmd.Env, cmd.ExtraFiles = s.home, s.env, s.ports
	p := servertest.Start(t, cmd)
	awaitReady(t, s.systemd)
	return p
}

// caddyfile writes the Caddyfile of the page for a gateway.
func (s *restarted) caddyfile(t *testing.T, gateway, grace string) {
	t.Helper()
	_, port, _ := net.SplitHostPort(s.address)
	_, metrics, _ := net.SplitHostPort(freeAddress(t))
	text := productionCaddyfile(t, [][2]string{
		{"presets.example.com {\n", "presets.example.com:" + port + " {\n"},
		{"http://:9180", "http://:" + metrics},
		{"reverse_proxy 127.0.0.1:8000", "reverse_proxy " + gateway},
		{"/var/lib/caddy-presets/presets\n", filepath.Join(s.home, "store") + "\n\t\tinference_key " + inferenceKey + "\n"},
		{"grace_period 20s", "grace_period " + grace},
	})
	write(t, filepath.Join(s.home, "Caddyfile"), text)
}

// transport returns a transport to the site, which trusts the server's authority.
func (s *restarted) transport(t *testing.T) *http.Transport {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(read(t, filepath.Join(s.home, "caddy", "pki", "authorities", "local", "root.crt"))))
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.address)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// ask sends an inference request. The caller closes the body.
func (s *restarted) ask(ctx context.Context, transport *http.Transport, body string) (*http.Response, error) {
	_, port, _ := net.SplitHostPort(s.address)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://presets.example.com:"+port+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+inferenceKey)
	r.Header.Set("Content-Type", "application/json")
	return transport.RoundTrip(r)
}

// TestRestart restarts the server while clients send requests, and while a stream is open. systemd's
// part is the test's: it holds the ports. Nobody is refused, no request that reached the gateway is
// without its answer, and a stream ends with the grace period at the latest.
//
// Go closes a new connection of HTTP/1.1 whose first request it reads behind the signal. Clients with
// a connection for each request send such a one again, as official clients do. Those of HTTP/2 need not.
func TestRestart(t *testing.T) {
	t.Parallel()
	var reached atomic.Int64
	next := make(chan bool) // has true for each event of a stream, and false for its end
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"stream":true`) {
			reached.Add(1)
			fmt.Fprint(w, `{"choices":[]}`)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case more := <-next:
				if !more {
					return
				}
				fmt.Fprint(w, "data: {}\n\n")
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer gateway.Close()

	s := &restarted{home: t.TempDir()}
	s.ports, s.address = holdPorts(t)
	var err error
	if s.systemd, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(s.home, "notify"), Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	defer s.systemd.Close()
	s.env = append(homeOf(s.home), "NOTIFY_SOCKET="+s.systemd.LocalAddr().String(), "LISTEN_FDS=2", "CADDY_ADMIN=unix/"+filepath.Join(s.home, "admin.sock"), "PATH="+os.Getenv("PATH"))
	s.caddyfile(t, gateway.Listener.Addr().String(), wait.Limit.String())
	p := s.start(t)

	kept, fresh := s.transport(t), s.transport(t)
	fresh.DisableKeepAlives, fresh.ForceAttemptHTTP2 = true, false
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var clients sync.WaitGroup
	var answered [4]atomic.Int64
	var again, longest atomic.Int64
	for i := range answered {
		transport := []*http.Transport{kept, fresh}[i%2]
		clients.Go(func() {
			for begun := time.Now(); ctx.Err() == nil; {
				response, err := s.ask(t.Context(), transport, `{"model":"m","messages":[]}`)
				switch {
				case err == nil:
					_, err = io.Copy(io.Discard, response.Body)
					response.Body.Close()
					if err != nil || response.StatusCode != http.StatusOK {
						t.Errorf("client %d got %d, %v", i, response.StatusCode, err)
						return
					}
					answered[i].Add(1)
					longest.Store(max(longest.Load(), int64(time.Since(begun))))
					begun = time.Now()
				case transport == fresh && (errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
					again.Add(1)
				default:
					t.Errorf("client %d got %v", i, err)
					return
				}
			}
		})
	}
	served := func() {
		t.Helper()
		for i := range answered {
			before := answered[i].Load()
			wait.Until(t, "a client is served", func() bool { return t.Failed() || answered[i].Load() > before+1 })
		}
	}
	served()
	const restarts = 5
	for n := range restarts {
		last := n == restarts-1
		stream, err := s.ask(t.Context(), kept, `{"model":"m","messages":[],"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		events := bufio.NewReader(stream.Body)
		event := func() {
			t.Helper()
			next <- true
			if line, err := events.ReadString('\n'); err != nil || line != "data: {}\n" {
				t.Fatalf("restart %d: the stream has %q, %v", n, line, err)
			}
			_, _ = events.ReadString('\n')
		}
		event()
		if err := p.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the server stops", func() bool { return strings.Contains(p.Log(), "grace period initiated") })
		if !last {
			event() // the stream goes on
			next <- false
		}
		_, err = io.Copy(io.Discard, events)
		stream.Body.Close()
		if (err == nil) == last {
			t.Errorf("restart %d: the stream ends with %v", n, err)
		}
		if err := p.Wait(); err != nil {
			t.Error(err)
		}
		if n == restarts-2 {
			s.caddyfile(t, gateway.Listener.Addr().String(), "1s")
		}
		p = s.start(t)
		served()
	}
	stop()
	clients.Wait()
	overHTTP2 := answered[0].Load() + answered[2].Load()
	apart := answered[1].Load() + answered[3].Load()
	if reached.Load() != overHTTP2+apart {
		t.Errorf("%d requests reached the gateway, and %d were answered", reached.Load(), overHTTP2+apart)
	}
	t.Logf("%d restarts with an open stream: %d requests over HTTP/2 and %d with a connection each were answered, %d were sent again, the longest took %s",
		restarts, overHTTP2, apart, again.Load(), time.Duration(longest.Load()).Round(time.Millisecond))
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}
