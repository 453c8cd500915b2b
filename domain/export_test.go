package domain

import "time"

// LimitScans sets how long a scan of presets may take.
func (s *Service) LimitScans(time time.Duration) { s.scans.longest = time }

// LimitKeyLists sets how long a list of keys may take.
func (s *Service) LimitKeyLists(time time.Duration) { s.lists.longest = time }

// LimitReports sets how long a report of usage may take.
func (s *Service) LimitReports(time time.Duration) { s.reports.longest = time }
