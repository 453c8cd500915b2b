package caddytest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Query is an expression of PromQL in the alerts or the dashboard in ops/. The second tier runs it
// with a Prometheus.
type Query struct {
	Where      string // for messages
	Row        string // the row of the dashboard, or empty
	Expression string
	Shown      string // text with labels in it: a legend, or the annotations of an alert
}

var (
	metricNames = regexp.MustCompile(`\b(?:caddy_\w+|up\b)`)
	labelNames  = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"|\{\{\s*(?:\$labels\.)?(\w+)`)
	labelLists  = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
)

// Metrics returns the names of the metrics of a server in q, and up.
func (q Query) Metrics() []string { return metricNames.FindAllString(q.Expression, -1) }

// Labels returns the names of the labels that q selects, groups by or shows.
func (q Query) Labels() (names []string) {
	for _, found := range labelNames.FindAllStringSubmatch(q.Expression+"\n"+q.Shown, -1) {
		names = append(names, found[1]+found[2])
	}
	for _, found := range labelLists.FindAllStringSubmatch(q.Expression, -1) {
		names = append(names, strings.FieldsFunc(found[1], func(r rune) bool { return r == ',' || r == ' ' })...)
	}
	return names
}

// alert is a rule of alerts.yml.
type alert struct {
	Alert, Expr, For string
	Labels           map[string]string
	Annotations      map[string]string
}

// panel is a panel or a row of the dashboard.
type panel struct {
	ID      int
	Type    string
	Title   string
	GridPos struct{ H, W, X, Y int }
	Targets []struct{ RefID, Expr, LegendFormat string }
	Panels  []panel // of a collapsed row
}

// dashboard has the parts of the dashboard that are checked.
type dashboard struct {
	UID, Title    string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		}
	}
}

// read returns a file below the root of the repository.
func read(t testing.TB, root, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// alerts returns the alerts.
func alerts(t testing.TB, root string) (all []alert) {
	t.Helper()
	var file struct {
		Groups []struct{ Rules []alert }
	}
	if err := yaml.Unmarshal(read(t, root, "ops/prometheus/alerts.yml"), &file); err != nil {
		t.Fatal(err)
	}
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

const dashboardFile = "ops/grafana/caddy-presets.json"

// readDashboard returns the dashboard.
func readDashboard(t testing.TB, root string) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal(read(t, root, dashboardFile), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// rows calls yield with each panel and the title of its row.
func (d dashboard) rows(yield func(row string, p panel) bool) {
	row := ""
	for _, p := range d.Panels {
		if p.Type != "row" {
			if !yield(row, p) {
				return
			}
			continue
		}
		row = p.Title
		for _, inner := range p.Panels {
			if !yield(row, inner) {
				return
			}
		}
	}
}

// labelValues matches the query of a variable of the dashboard.
var labelValues = regexp.MustCompile(`^label_values\((\w+), (\w+)\)$`)

// Queries returns the queries of the alerts and of the dashboard, also those of its
// variables. root is the folder of the repository.
func Queries(t testing.TB, root string) (all []Query) {
	t.Helper()
	for _, a := range alerts(t, root) {
		q := Query{Where: "alert " + a.Alert, Expression: a.Expr}
		for _, text := range a.Annotations {
			q.Shown += text + "\n"
		}
		all = append(all, q)
	}
	d := readDashboard(t, root)
	for row, p := range d.rows {
		for _, target := range p.Targets {
			all = append(all, Query{"panel " + p.Title, row, target.Expr, target.LegendFormat})
		}
	}
	for _, v := range d.Templating.List {
		var query struct{ Query string }
		if v.Type != "query" {
			continue
		}
		if err := json.Unmarshal(v.Query, &query); err != nil {
			t.Fatalf("variable %s: %v", v.Name, err)
		}
		found := labelValues.FindStringSubmatch(query.Query)
		if found == nil {
			t.Fatalf("variable %s: got %q, want label_values(metric, label)", v.Name, query.Query)
		}
		all = append(all, Query{Where: "variable " + v.Name, Expression: found[1], Shown: "{{" + found[2] + "}}"})
	}
	if !slices.ContainsFunc(all, func(q Query) bool { return q.Row != "" }) || all[0].Row != "" {
		t.Fatal("the alerts or the dashboard have no queries")
	}
	return all
}
