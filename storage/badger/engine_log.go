package badger

import (
	"strings"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
)

// engineLog gets Badger's messages. It drops debug messages: there are several for each
// write, and some show keys. One of them holds compactions.
type engineLog struct {
	to   *zap.SugaredLogger
	hold func()
}

func (l engineLog) Errorf(format string, args ...any) {
	l.to.Errorf(strings.TrimSpace(format), args...)
}

func (l engineLog) Warningf(format string, args ...any) {
	l.to.Warnf(strings.TrimSpace(format), args...)
}

func (l engineLog) Infof(format string, args ...any) {
	l.to.Debugf(strings.TrimSpace(format), args...)
}

func (l engineLog) Debugf(format string, _ ...any) {
	if strings.HasPrefix(format, tableFollows) {
		l.hold()
	}
}

var _ badgerdb.Logger = engineLog{}
