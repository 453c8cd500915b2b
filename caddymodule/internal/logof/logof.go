// Package logof has a logger for work that outlives the configuration in which it began.
package logof

import (
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a logger that logs to whatever logger current returns at that moment. It is
// safe for concurrent use if current is.
func New(current func() *zap.Logger) *zap.Logger { return zap.New(core(current)) }

type core func() *zap.Logger

// Enabled implements zapcore.LevelEnabler.
func (c core) Enabled(level zapcore.Level) bool { return c().Core().Enabled(level) }

// With implements zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core(func() *zap.Logger { return c().With(fields...) })
}

// Check implements zapcore.Core.
func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	l := c()
	name := l.Name()
	if name != "" && entry.LoggerName != "" {
		name += "."
	}
	entry.LoggerName = name + entry.LoggerName
	return l.Core().Check(entry, checked)
}

// Write implements zapcore.Core. It is never called: Check adds other cores.
func (core) Write(zapcore.Entry, []zapcore.Field) error { return nil }

// Sync implements zapcore.Core.
func (c core) Sync() error { return c().Sync() }
