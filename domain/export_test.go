package domain

import "time"

// LimitScans sets how long a scan of presets may take, and how many it sorts at a time.
func (s *Service) LimitScans(time time.Duration, sorted int) {
	s.scans.longest, s.sorted = time, sorted
}

// LimitReports sets how long a report of usage may take.
func (s *Service) LimitReports(time time.Duration) { s.reports.longest = time }
