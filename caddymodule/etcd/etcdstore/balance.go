package etcdstore

import (
	"sync"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/roundrobin"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func init() { balancer.Register(balancing{}) }

// serviceConfig makes a client use balancing.
const serviceConfig = `{"loadBalancingConfig":[{"` + balancingName + `":{}}]}`

const balancingName = "presets_etcd"

// balancing asks one member after another, but for a while none that has let the time for
// a request pass. A member that was stopped or cut off keeps its connections for seconds,
// and of the many requests that a change may take each third one would wait for it.
type balancing struct{}

// Name implements balancer.Builder.
func (balancing) Name() string { return balancingName }

// Build implements balancer.Builder.
func (balancing) Build(conn balancer.ClientConn, o balancer.BuildOptions) balancer.Balancer {
	return balancer.Get(roundrobin.Name).Build(&balanced{ClientConn: conn, silent: make(map[balancer.SubConn]time.Time)}, o)
}

const (
	// avoidance is for how long a member is not asked that did not answer.
	avoidance = 5 * time.Second
	// maxPicks is how many members are looked at for one that answers.
	maxPicks = 16
)

// givenUp is how requests end whose answer nobody waits for any more.
var givenUp = map[codes.Code]bool{codes.DeadlineExceeded: true, codes.Canceled: true}

// balanced is the connections of a client.
type balanced struct {
	balancer.ClientConn

	mu     sync.Mutex
	silent map[balancer.SubConn]time.Time // until when they are avoided
}

// UpdateState implements balancer.ClientConn.
func (b *balanced) UpdateState(s balancer.State) {
	s.Picker = &picker{b, s.Picker}
	b.ClientConn.UpdateState(s)
}

// avoids reports whether a connection is avoided.
func (b *balanced) avoids(conn balancer.SubConn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now().Before(b.silent[conn])
}

// note takes note of how a request ended that was made at a moment.
func (b *balanced) note(conn balancer.SubConn, made time.Time, how balancer.DoneInfo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case how.Err == nil:
		delete(b.silent, conn)
	case !how.BytesReceived && time.Since(made) >= nextAttempt && givenUp[status.Code(how.Err)]:
		now := time.Now()
		for other, until := range b.silent {
			if now.After(until) {
				delete(b.silent, other) // it may be no more
			}
		}
		b.silent[conn] = now.Add(avoidance)
	}
}

// picker picks a connection for a request.
type picker struct {
	*balanced
	all balancer.Picker
}

// Pick implements balancer.Picker. When all are avoided, none is.
func (p *picker) Pick(info balancer.PickInfo) (picked balancer.PickResult, err error) {
	for range maxPicks {
		if picked, err = p.all.Pick(info); err != nil || !p.avoids(picked.SubConn) {
			break
		}
	}
	if err != nil {
		return picked, err
	}
	conn, done, made := picked.SubConn, picked.Done, time.Now()
	picked.Done = func(how balancer.DoneInfo) {
		p.note(conn, made, how)
		if done != nil {
			done(how)
		}
	}
	return picked, nil
}
