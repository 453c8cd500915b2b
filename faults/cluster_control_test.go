//go:build faults && unix

package faults

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestClusterControl adds each kind of fault to a history of clients. The checks must
// detect each fault, and accept the history without it.
func TestClusterControl(t *testing.T) {
	begun := time.Now()
	at := func(seconds float64) time.Time { return begun.Add(time.Duration(seconds * float64(time.Second))) }
	name := presetName{slug: "p"}

	// An acknowledged write that is missing.
	write := func(client int, token string, call int64, out opOutput) porcupine.Operation {
		op := porcupine.Operation{ClientId: client, Input: opInput{operation: create, token: token}, Call: call, Return: call + 5, Output: out}
		if out.ok {
			out.token = token
			op.Output = out
		}
		if out.unknown {
			op.Return = math.MaxInt64
		}
		return op
	}
	readOf := func(token string, number int, call int64) porcupine.Operation {
		return porcupine.Operation{ClientId: 9, Input: opInput{operation: read}, Call: call, Return: call + 5, Output: opOutput{ok: true, number: number, token: token}}
	}
	first := write(1, "t00000001", 0, opOutput{ok: true, number: 1})
	for what, c := range map[string]struct {
		second opOutput
		want   porcupine.CheckResult
	}{
		"acknowledged": {opOutput{ok: true, number: 2}, porcupine.Illegal},
		"unknown":      {opOutput{unknown: true}, porcupine.Ok},
	} {
		history := []porcupine.Operation{first, write(2, "t00000002", 10, c.second), readOf("t00000001", 1, 20)}
		if got := porcupine.CheckOperationsTimeout(presets, history, wait.Limit); got != c.want {
			t.Errorf("a missing write, which was %s: the history is %s, want %s", what, got, c.want)
		}
	}
	late := []porcupine.Operation{first, write(2, "t00000002", 10, opOutput{unknown: true}), readOf("t00000001", 1, 20), readOf("t00000002", 2, 30)}
	if got := porcupine.CheckOperationsTimeout(presets, late, wait.Limit); got != porcupine.Ok {
		t.Errorf("a write with unknown outcome that takes effect later: the history is %s", got)
	}
	twice := []porcupine.Operation{first, write(2, "t00000002", 10, opOutput{unknown: true}), readOf("t00000002", 2, 20), readOf("t00000002", 3, 30)}
	if got := porcupine.CheckOperationsTimeout(presets, twice, wait.Limit); got != porcupine.Illegal {
		t.Errorf("a write with unknown outcome that takes effect twice: the history is %s", got)
	}

	// A refused version that exists.
	for _, refused := range []bool{false, true} {
		r := newRecorder(t)
		r.report = t.Logf
		r.shared = true
		p := r.preset(name)
		p.open["x"] = true
		status := http.StatusInternalServerError
		if refused {
			status = http.StatusServiceUnavailable
		}
		if _, refused, _ := r.outcome(begun, answer{status: status}, nil); refused {
			delete(p.open, "x")
		}
		r.verifyVersion(name, p, 1, []byte(`{"version":1,"system_prompt":"`+promptOf("x")+`","config":{"model":"x"}}`))
		if found := r.found.duplicate > 0; found != refused {
			t.Errorf("an existing version, refused %t: found %t", refused, found)
		}
	}

	// An old version, an old key, a node without writes, and one that lags behind.
	l := &clusterLoad{
		versions: []ackedVersion{{name, 1, at(0)}, {name, 2, at(1)}, {name, 3, at(2)}},
		acks:     [][]time.Time{{at(0), at(1), at(9)}},
	}
	seen := func(number int, from float64) observation {
		return observation{name: name, begun: at(from), ended: at(from + 0.1), status: http.StatusOK, number: number}
	}
	if got := l.staleness(seen(2, 5)); got != 3*time.Second {
		t.Errorf("the age for a version replaced three seconds before is %v", got)
	}
	if got := l.staleness(seen(2, 1.5)) + l.staleness(seen(3, 5)); got != 0 {
		t.Errorf("current data are %v old", got)
	}
	key := seen(3, 5)
	key.key = &churnedKey{revoked: at(1)}
	if got := l.staleness(key); got != 4*time.Second {
		t.Errorf("the age for a key revoked four seconds before is %v", got)
	}
	key.status = http.StatusUnauthorized
	if got := l.staleness(key); got != 0 {
		t.Errorf("a key that is refused is %v old", got)
	}
	if got := l.longestGap(0, at(0), at(10)); got != 8*time.Second {
		t.Errorf("eight seconds without a write are %v", got)
	}
	l.seen = []observation{seen(3, 3.5), seen(2, 4)}
	if got := l.timeToCatchUp(0, at(3)).Round(time.Millisecond); got != 1100*time.Millisecond {
		t.Errorf("a node that served an old version until 1.1 s after it was healed did so for %v", got)
	}
	result(t, "cluster-control", begun, "found", "all")
}
