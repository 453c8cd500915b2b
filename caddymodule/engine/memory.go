package engine

import "github.com/caddyserver/caddy/v2"

type memoryKey struct{}

// WithMemory returns a context that tells a guest the handler's setting memory, in bytes.
func WithMemory(ctx caddy.Context, memory int64) caddy.Context {
	return ctx.WithValue(memoryKey{}, memory)
}

// Memory returns the memory that WithMemory told, in bytes, and 0 if it did not. An engine with
// caches of its own takes up to half as much for them.
func Memory(ctx caddy.Context) int64 {
	memory, _ := ctx.Value(memoryKey{}).(int64)
	return memory
}
