package domain

import "time"

// LimitScans sets how long a scan of presets may take.
func (s *Service) LimitScans(time time.Duration) { s.scans.longest = time }

// LimitReports sets how long a report of usage may take.
func (s *Service) LimitReports(time time.Duration) { s.reports.longest = time }

// CheckLimit returns what is wrong with a limit that b is to have for an interval.
func (b Budgets) CheckLimit(interval Interval, usd float64) []Issue { return b.check(interval, usd) }

// CheckAt returns what is wrong with l.
func (l *PresetLimits) CheckAt(place string) []Issue { return l.check(place) }
