package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// opsFile returns the absolute name of a file in ops.
func opsFile(t *testing.T, elements ...string) string {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(append([]string{root, "ops"}, elements...)...))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// TestAlertRules runs the tests of the alerts.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	promtool := servertest.Tool(t, "promtool", "prometheus")
	if got := run(t, t.TempDir(), nil, promtool, "check", "rules", opsFile(t, "prometheus", "alerts.yml")); !strings.Contains(got, "11 rules found") {
		t.Errorf("got %s, want 11 rules", got)
	}
	run(t, t.TempDir(), nil, promtool, "test", "rules", opsFile(t, "prometheus", "alerts_test.yml"))
}

// TestKubernetesScrape checks the configuration of Prometheus for Kubernetes, and its alert.
// Debian's Prometheus cannot ask Kubernetes, so fixed targets have the labels of pods.
func TestKubernetesScrape(t *testing.T) {
	t.Parallel()
	promtool, home := servertest.Tool(t, "promtool", "prometheus"), t.TempDir()
	discovery := "    kubernetes_sd_configs:\n      - role: pod\n        namespaces:\n          names: [presets]\n"
	text := read(t, opsFile(t, "prometheus", "kubernetes.yml"))
	if !strings.Contains(text, discovery) {
		t.Fatalf("the configuration does not look for pods:\n%s", text)
	}
	pods := "    static_configs:\n"
	for _, pod := range []struct{ address, name, component, port, phase string }{
		{"10.0.0.1:9180", "presets-0", "server", "metrics", "Running"},
		{"10.0.0.1:8080", "presets-0", "server", "http", "Running"},
		{"10.0.0.2:9180", "presets-1", "server", "metrics", "Pending"},
		{"10.0.0.3:9180", "evicted", "server", "metrics", "Failed"},
		{"10.0.0.4", "presets-backup-1", "backup", "", "Running"},
	} {
		pods += fmt.Sprintf("      - targets: [%q]\n        labels: {__meta_kubernetes_pod_name: %q, __meta_kubernetes_pod_label_app_kubernetes_io_component: %q, __meta_kubernetes_pod_container_port_name: %q, __meta_kubernetes_pod_phase: %q}\n",
			pod.address, pod.name, pod.component, pod.port, pod.phase)
	}
	for file, content := range map[string]string{
		"prometheus.yml": strings.Replace(text, discovery, pods, 1), "absent.yml": read(t, opsFile(t, "prometheus", "absent.yml")), "alerts.yml": read(t, opsFile(t, "prometheus", "alerts.yml")),
	} {
		if err := os.WriteFile(filepath.Join(home, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run(t, home, nil, promtool, "check", "config", "prometheus.yml")
	run(t, home, nil, promtool, "check", "rules", "absent.yml")
	var targets []struct{ Labels map[string]string }
	if err := json.Unmarshal([]byte(run(t, home, nil, promtool, "check", "service-discovery", "--timeout=1s", "prometheus.yml", "caddy")), &targets); err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, target := range targets {
		if len(target.Labels) > 0 {
			kept = append(kept, target.Labels["instance"]+" at "+target.Labels["__address__"])
		}
	}
	slices.Sort(kept)
	if want := []string{"presets-0 at 10.0.0.1:9180", "presets-1 at 10.0.0.2:9180"}; !slices.Equal(kept, want) {
		t.Errorf("Prometheus scrapes %q, want %q", kept, want)
	}
}

// prometheus is a running Prometheus.
type prometheus struct{ address string }

// startPrometheus runs a Prometheus with our alerts, which scrapes a server every second
// until the test ends.
func startPrometheus(t *testing.T, s *server) prometheus {
	t.Helper()
	binary, home, p := servertest.Tool(t, "prometheus", "prometheus"), t.TempDir(), prometheus{freeAddress(t)}
	config := filepath.Join(home, "prometheus.yml")
	text := fmt.Sprintf(`global:
  scrape_interval: 1s
rule_files:
  - %s
scrape_configs:
  - job_name: caddy
    static_configs:
      - targets: [%s]
`, quote(opsFile(t, "prometheus", "alerts.yml")), quote(s.admin))
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(wait.Command(t), binary,
		"--config.file="+config, "--storage.tsdb.path="+filepath.Join(home, "data"), "--web.listen-address="+p.address)
	cmd.Dir = home
	servertest.Serve(t, cmd, p.address)
	return p
}

// get decodes the data of an answer of the API, and returns the error in the answer.
func (p prometheus) get(t *testing.T, path string, query url.Values, data any) error {
	t.Helper()
	response, err := http.Get("http://" + p.address + "/api/v1/" + path + "?" + query.Encode())
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", response.Status, answer.Error)
	}
	return nil
}

// labels returns the labels of the series that answer an expression, over the last minute.
func (p prometheus) labels(t *testing.T, expression string) (all []map[string]string, err error) {
	t.Helper()
	var data struct {
		Result []struct{ Metric map[string]string }
	}
	now := time.Now()
	err = p.get(t, "query_range", url.Values{
		"query": {expression}, "step": {"1"},
		"start": {strconv.FormatInt(now.Add(-time.Minute).Unix(), 10)}, "end": {strconv.FormatInt(now.Unix(), 10)},
	}, &data)
	for _, series := range data.Result {
		all = append(all, series.Metric)
	}
	return all, err
}

// panel is a panel of the dashboard. A collapsed row has panels.
type panel struct {
	Type, Title string
	Targets     []struct{ Expr, LegendFormat string }
	Panels      []panel
}

// load sends requests of all kinds to a server until the test ends. None of them is a guess.
func load(t *testing.T, s *server) {
	t.Helper()
	stop := make(chan struct{})
	var workers sync.WaitGroup
	workers.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, request := range []struct{ method, path, key, body string }{
				{http.MethodPost, "/v1/presets/loaded/chat/completions", managementKey, fmt.Sprintf(`{"model": "acme/m%d"}`, n)},
				{http.MethodGet, "/v1/presets/loaded", managementKey, ""},
				{http.MethodGet, "/v1/presets/missing", managementKey, ""},
				{http.MethodPost, "/v1/chat/completions", inferenceKey, `{"model": "@preset/loaded", "messages": []}`},
				{http.MethodPost, "/v1/chat/completions", inferenceKey, `{"model": "acme/small", "messages": []}`},
				{http.MethodPost, "/v1/chat/completions", inferenceKey, `{"model": "@preset/missing", "messages": []}`},
				{http.MethodPost, "/v1/chat/completions", inferenceKey, `{"model": "@preset/limited", "messages": []}`},
			} {
				sent, err := http.NewRequest(request.method, s.site+request.path, strings.NewReader(request.body))
				if err != nil {
					t.Error(err)
					return
				}
				sent.Header.Set("Authorization", "Bearer "+request.key)
				sent.Header.Set("Content-Type", "application/json")
				answer, err := http.DefaultClient.Do(sent)
				if err != nil {
					t.Errorf("%s %s: %v", request.method, request.path, err)
					return
				}
				answer.Body.Close()
				if answer.StatusCode >= 500 {
					t.Errorf("%s %s: got %d", request.method, request.path, answer.StatusCode)
				}
			}
			time.Sleep(10 * time.Millisecond) // other tests run beside this one
		}
	})
	t.Cleanup(func() {
		close(stop)
		workers.Wait()
	})
}

// answerWithUsage answers like a gateway that reports the usage of all models but one.
func answerWithUsage(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.Contains(string(body), "acme/small") {
		_, _ = io.WriteString(w, chatAnswer)
		return
	}
	_, _ = io.WriteString(w, `{"model": "acme/large", "choices": [{"message": {"content": "Hello."}}], "usage": {
		"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
		"completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 3}, "cost": 0.25}}`)
}

// TestPrometheus runs a Prometheus that scrapes a server under load. It loads the alerts,
// and none fires. It answers each query of the dashboard.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	servertest.Tool(t, "prometheus", "prometheus")
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	upstream := httptest.NewServer(http.HandlerFunc(answerWithUsage))
	t.Cleanup(upstream.Close)
	s := startWith(t, `inference {
			usage
		}
		metrics per_preset
		metrics per_key
		webhook `+receiver.URL+` {
			secret {env.E2E_GATEWAY_KEY}
		}`, "reverse_proxy "+upstream.Listener.Addr().String())
	p := startPrometheus(t, s)
	s.manage(t, http.MethodPut, "/v1/workspaces/default/budgets/daily", `{"limit_usd": 1000000}`)
	s.manage(t, http.MethodPost, "/v1/presets/limited/chat/completions", `{"model": "acme/small"}`)
	s.manage(t, http.MethodPatch, "/v1/presets/limited", `{"limits": {"requests_per_minute": 1}}`)
	load(t, s)
	for _, command := range [][]string{{"verify"}, {"backup", filepath.Join(t.TempDir(), "a.backup")}} { // for the panels of their ages
		run(t, t.TempDir(), s.env, s.binary, append([]string{"presets"}, append(command, "--address", s.admin)...)...)
	}

	wait.Until(t, "up is 1", func() bool {
		all, err := p.labels(t, "up == 1")
		return err == nil && len(all) == 1
	})

	text, err := os.ReadFile(opsFile(t, "grafana", "caddy-presets.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard panel
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*", "$workspace", ".*", "$preset", ".*")
	legend := regexp.MustCompile(`\{\{(\w+)\}\}`)
	row, queries := "", 0
	check := func(panel panel) {
		for _, target := range panel.Targets {
			queries++
			expression := variables.Replace(target.Expr)
			var shown []map[string]string
			var err error
			answered := func() bool {
				shown, err = p.labels(t, expression)
				return err != nil || row == "Cluster" || // the server has none
					slices.ContainsFunc(shown, func(labels map[string]string) bool {
						return len(labels) > 0 || !legend.MatchString(target.LegendFormat)
					})
			}
			wait.Until(t, panel.Title+" has data: "+expression, answered)
			if err != nil {
				t.Errorf("%s: %v\n%s", panel.Title, err, expression)
			}
			for _, labels := range shown {
				if row == "Usage" && len(labels) == 0 {
					continue // requests without a preset
				}
				for _, label := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
					if labels[label[1]] == "" {
						t.Errorf("%s: got labels %v, want %s\n%s", panel.Title, labels, label[1], expression)
					}
				}
			}
		}
	}
	for _, outer := range dashboard.Panels {
		if outer.Type == "row" {
			row = outer.Title
		}
		check(outer)
		for _, inner := range outer.Panels {
			check(inner)
		}
	}
	if queries < 40 {
		t.Errorf("the dashboard has %d queries, want at least 40", queries)
	}

	alerts, err := os.ReadFile(opsFile(t, "prometheus", "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var loaded struct {
		Groups []struct {
			Rules []struct{ Name, State, Health, LastError string }
		}
	}
	wait.Until(t, "all rules were evaluated", func() bool {
		if err := p.get(t, "rules", nil, &loaded); err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, group := range loaded.Groups {
			for _, rule := range group.Rules {
				if rule.Health != "unknown" {
					count++
				}
			}
		}
		return count > 0 && count == strings.Count(string(alerts), "- alert: ")
	})
	for _, rule := range loaded.Groups[0].Rules {
		if rule.Health != "ok" || rule.LastError != "" || rule.State != "inactive" {
			t.Errorf("alert %s: got health %s (%s) and state %s, want ok and inactive", rule.Name, rule.Health, rule.LastError, rule.State)
		}
	}
}
