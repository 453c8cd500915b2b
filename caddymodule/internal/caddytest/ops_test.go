package caddytest

import (
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const root = "../../.."

var update = flag.Bool("update", false, "write the rules for the operator of Prometheus")

// TestAlerts checks what each alert has to have. The test of all links checks that its
// runbook exists.
func TestAlerts(t *testing.T) {
	all := alerts(t, root)
	want := []string{"PresetsDown", "PresetsStoreUnavailable", "PresetsDiskNearlyFull", "PresetsStoreDamaged", "PresetsBackupMissing", "PresetsClusterStale", "PresetsServerErrors", "PresetsBundleWaiting", "PresetsKeysGuessed", "PresetsBudgetNearlyUsed", "PresetsBudgetUsed"}
	var names []string
	runbook := regexp.MustCompile(`^https://github\.com/caddy-presets/caddy-presets/blob/main/docs/[a-z]+\.md#[a-z0-9-]+$`)
	for _, a := range all {
		names = append(names, a.Alert)
		if !regexp.MustCompile(`^\d+[sm]$`).MatchString(a.For) {
			t.Errorf("%s: got for %q, want a time", a.Alert, a.For)
		}
		if !slices.Contains([]string{"critical", "warning"}, a.Labels["severity"]) {
			t.Errorf("%s: got severity %q, want critical or warning", a.Alert, a.Labels["severity"])
		}
		if a.Annotations["summary"] == "" || a.Annotations["description"] == "" {
			t.Errorf("%s: want a summary and a description", a.Alert)
		}
		if url := a.Annotations["runbook_url"]; !runbook.MatchString(url) {
			t.Errorf("%s: got runbook %q, want a heading in docs", a.Alert, url)
		}
	}
	if !slices.Equal(names, want) {
		t.Errorf("got alerts %q, want %q", names, want)
	}

	// promtool runs the tests of the alerts in the second tier. Each alert has both outcomes.
	var file struct {
		Tests []struct {
			Rules []struct {
				Alert string `yaml:"alertname"`
				Fires []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal(read(t, root, "ops/prometheus/alerts_test.yml"), &file); err != nil {
		t.Fatal(err)
	}
	tested := make(map[string]bool)
	for _, test := range file.Tests {
		for _, rule := range test.Rules {
			tested[fmt.Sprint(rule.Alert, len(rule.Fires) > 0)] = true
		}
	}
	for _, name := range names {
		if !tested[name+"true"] || !tested[name+"false"] {
			t.Errorf("%s: want a test in which it fires, and one in which it does not", name)
		}
	}
}

// TestPrometheusRule checks that the rules for the operator of Prometheus are those of the files for
// Prometheus.
func TestPrometheusRule(t *testing.T) {
	const file, begin = "ops/kubernetes/monitoring.yaml", "\nspec:\n  groups:\n"
	before, _, ok := strings.Cut(string(read(t, root, file)), begin)
	if !ok || strings.Contains(before, begin) {
		t.Fatalf("%s has no groups of rules at its end", file)
	}
	text := before + begin
	for _, rules := range []string{"alerts.yml", "absent.yml"} {
		_, groups, ok := strings.Cut(string(read(t, root, "ops/prometheus/"+rules)), "\ngroups:\n")
		if !ok {
			t.Fatalf("%s has no groups", rules)
		}
		for line := range strings.Lines(groups) {
			if line != "\n" {
				line = "  " + line
			}
			text += line
		}
	}
	Golden(t, filepath.Join(root, filepath.FromSlash(file)), text, *update)
}

// TestDashboard checks that Grafana can import the dashboard, for any data source.
func TestDashboard(t *testing.T) {
	d := readDashboard(t, root)
	if d.UID != "caddy-presets" || d.Title == "" || d.SchemaVersion < 36 { // the first with uids of data sources
		t.Errorf("got uid %q, title %q and schemaVersion %d, want caddy-presets, any and at least 36", d.UID, d.Title, d.SchemaVersion)
	}
	variables := []string{"$__rate_interval"}
	for i, v := range d.Templating.List {
		if isSource := v.Name == "datasource" && v.Type == "datasource" && string(v.Query) == `"prometheus"`; isSource != (i == 0) {
			t.Errorf("variable %d is %s of type %s for %s, want the data source first, once", i, v.Name, v.Type, v.Query)
		}
		variables = append(variables, "$"+v.Name)
	}

	var whole any
	if err := json.Unmarshal(read(t, root, dashboardFile), &whole); err != nil {
		t.Fatal(err)
	}
	checkSources(t, "", whole)

	ids, taken, titles := make(map[int]string), make(map[[2]int]string), make(map[string]bool)
	place := func(p panel) {
		if p.ID <= 0 || ids[p.ID] != "" {
			t.Errorf("%s: the id %d is not positive, or is also that of %q", p.Title, p.ID, ids[p.ID])
		}
		ids[p.ID] = p.Title
		g := p.GridPos
		if g.W <= 0 || g.H <= 0 || g.X < 0 || g.Y < 0 || g.X+g.W > 24 {
			t.Errorf("%s: %+v is outside the grid", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	for _, p := range d.Panels {
		if p.Type == "row" {
			place(p)
		}
	}
	for row, p := range d.rows {
		place(p)
		if row == "" || !slices.Contains([]string{"stat", "timeseries"}, p.Type) || p.Title == "" || titles[p.Title] {
			t.Errorf("%q of type %q in row %q: want a title of its own, stat or timeseries, in a row", p.Title, p.Type, row)
		}
		titles[p.Title] = true
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if target.RefID == "" || refs[target.RefID] || target.Expr == "" {
				t.Errorf("%s: the target %q has no query, or an id that is not its own", p.Title, target.RefID)
			}
			refs[target.RefID] = true
			for _, name := range regexp.MustCompile(`\$\{?\w+`).FindAllString(target.Expr, -1) {
				if !slices.Contains(variables, name) {
					t.Errorf("%s: there is no variable %s", p.Title, name)
				}
			}
		}
		if len(refs) == 0 {
			t.Errorf("%s: there is no target", p.Title)
		}
	}
}

// checkSources checks that no part of the dashboard names a data source of one Grafana.
func checkSources(t *testing.T, path string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, member := range value {
			at := path + "/" + name
			if name == "datasource" && fmt.Sprint(member) != "map[type:prometheus uid:${datasource}]" {
				t.Errorf("%s: got %v, want the variable datasource", at, member)
			}
			if _, has := value["datasource"]; name == "targets" && !has {
				t.Errorf("%s: want the variable datasource, not Grafana's default", path)
			}
			if strings.HasPrefix(name, "__") {
				t.Errorf("%s: a dashboard that is imported asks for nothing but its variables", at)
			}
			checkSources(t, at, member)
		}
	case []any:
		for i, member := range value {
			checkSources(t, fmt.Sprint(path, "/", i), member)
		}
	}
}
