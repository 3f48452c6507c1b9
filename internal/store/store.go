// Package store keeps on disk what survives a restart of the exporter. It knows files, not what is in them: who owns a
// state gives it as records and takes the records back.
//
// The state is one file of sections, each a part of the state: a header and a line of JSON for each record, compressed
// by zstd with its checksum. A save appends a section for each part that has changed, which takes the place of the ones
// before; once they are half of the file, it is rewritten beside the old one, and put in its place. An embedded
// database would write less where little changes, but nearly all of the state changes with every round of probes,
// nothing is looked up in it, and losing what is newer than the latest save is harmless. A section is whole or it does
// not count, and there is nothing to repair. zstdcat shows the file.
//
// The state is worth less than the exporter: nothing here stops it from starting,
// and no probe and no scrape waits for a file.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/tsdb/fileutil"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// patience is how long a directory that hangs is waited for at the start.
	patience = 3 * time.Second
	// maxShare is how many times as long as the work of saving a part is the time to
	// the next one, at least: each takes at most a hundredth of a processor.
	maxShare = 100
)

// Part is a part of the state.
type Part struct {
	// Name identifies the part in the file.
	Name string
	// Every is how often it is saved, at most.
	Every time.Duration
	// Revision returns a number that differs when there is something new to save.
	Revision func() uint64
	// Save gives all records to put and returns its first error. It runs beside everything else.
	Save func(put func(record any) error) error
	// Load takes a record, which it must not keep; an error rejects it.
	Load func(record []byte) error
}

// Options are those of a Store.
type Options struct {
	// Dir is the directory, which is made where it does not exist.
	Dir    string
	Parts  []Part
	Logger *slog.Logger
}

// Store keeps the state in one directory, which no other process may use meanwhile.
type Store struct {
	Options
	create func(name string) (file, error) // a new file
	extend func(name string) (file, error) // one that is there, to be written at its end
	lock   fileutil.Releaser
	loaded time.Time // when what was loaded had been saved
	parts  []*part
	saving chan struct{} // holds a value while the file is written
	file   extent        // under saving
	failed bool          // the latest save, under saving

	mu    sync.Mutex
	stats Stats
}

// part is a part of a store, used under Store.saving.
type part struct {
	Part
	revision uint64    // that was saved
	saved    bool      // ever, by this process
	next     time.Time // when it is due
	at       time.Time // when it was last known to be up to date
}

func (p *part) changed() bool { return !p.saved || p.Revision() != p.revision }

// Stats are about the saves of a Store.
type Stats struct {
	// At is when all parts were last known to be up to date; the zero time while one never was.
	At time.Time
	// Bytes is the size of the file.
	Bytes int64
	// Failures counts the saves that failed.
	Failures uint64
}

// Open takes a directory and loads what is there. What is wrong with either is logged: without a directory it returns
// nil, and a file that cannot be used is moved aside and replaced.
func Open(o Options) *Store {
	o.Logger = o.Logger.With("dir", o.Dir)
	s := &Store{Options: o, create: create, extend: extend, saving: make(chan struct{}, 1)}
	s.parts = stats.Map(o.Parts, func(p Part) *part { return &part{Part: p} })
	data, err := s.open()
	if err == nil || s.lock != nil {
		err = s.load(data, err)
	}
	if err != nil {
		s.Logger.Warn("no state is kept over restarts", "err", err)
		if s.lock != nil {
			s.Release()
		}
		return nil
	}
	return s
}

// open locks the directory and reads the file, within patience.
func (s *Store) open() ([]byte, error) {
	var locked fileutil.Releaser
	var data []byte
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		if locked, err = lock(s.Dir); err == nil {
			data, err = foreign.ReadFile(s.path(), maxFileBytes)
		}
	}()
	select {
	case <-done:
		s.lock = locked
		return data, err
	case <-time.After(patience):
		return nil, fmt.Errorf("the directory did not answer within %s", patience)
	}
}

// lock makes the directory and takes it for this process.
func lock(dir string) (fileutil.Releaser, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, "lock")
	if info, err := os.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name) // a link would be followed
	}
	l, _, err := fileutil.Flock(name)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.New("another process uses the directory")
	}
	return l, err
}

// load hands over the records of the file, or of its whole beginning; an error is that it can neither be used nor moved.
func (s *Store) load(data []byte, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var known sections
	if err == nil {
		known, err = scan(data, func(int, []byte) {})
	}
	name := s.path()
	switch {
	case err != nil && len(known) == 0:
		if moved := os.Rename(name, name+".bad"); moved != nil {
			return fmt.Errorf("the file cannot be read (%w) nor moved aside: %w", err, moved)
		}
		s.Logger.Warn("state file is corrupt; moved aside", "file", name+".bad", "err", err)
		return nil
	case err != nil:
		s.Logger.Warn("the latest save is not whole; the one before is used", "err", err)
	}
	var accepted, rejected int
	parts := map[int]*part{} // by the index of their sections
	for _, p := range s.parts {
		latest, ok := known[p.Name]
		if !ok {
			continue
		}
		parts[latest.index] = p
		if latest.Saved.After(s.loaded) {
			s.loaded = latest.Saved
		}
	}
	_, _ = scan(data, func(section int, record []byte) { // whose error is the same
		switch p := parts[section]; {
		case p == nil:
		case p.Load(record) != nil:
			rejected++
		default:
			accepted++
		}
	})
	s.Logger.Info("state restored", "saved", s.loaded.UTC().Format(time.RFC3339), "records", accepted, "rejected", rejected)
	s.stats.Bytes = int64(len(data))
	return nil
}

// Loaded returns when the state that was loaded had been saved; the zero time for none.
func (s *Store) Loaded() time.Time { return s.loaded }

// Stats returns how the saves went. It is safe for concurrent use.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Run saves the parts again and again until ctx ends. It does not wait for a save that hangs.
func (s *Store) Run(ctx context.Context) error {
	go s.keep(ctx)
	<-ctx.Done()
	return nil
}

func (s *Store) keep(ctx context.Context) {
	s.saving <- struct{}{}
	for _, p := range s.parts {
		p.next = time.Now().Add(p.Every)
	}
	for {
		next := slices.MinFunc(s.parts, func(a, b *part) int { return a.next.Compare(b.next) }).next
		<-s.saving
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return
		}
		s.saving <- struct{}{}
		if ctx.Err() != nil { // Close may have given the directory back
			<-s.saving
			return
		}
		now := time.Now()
		due := slices.DeleteFunc(slices.Clone(s.parts), func(p *part) bool { return p.next.After(now) })
		s.save(due, newPace(ctx, false))
	}
}

// Close saves every part a last time, and gives the directory back. It is called
// after Run, and returns when ctx ends though the file hangs: the save before stays.
func (s *Store) Close(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.Release()
		select {
		case s.saving <- struct{}{}:
			s.save(s.parts, newPace(ctx, true))
			<-s.saving
		case <-ctx.Done():
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.Logger.Warn("the state was not saved in time; what the latest save has is kept")
	}
}

// Release gives the directory back and saves nothing; a nil Store has none.
func (s *Store) Release() {
	if s != nil {
		_ = s.lock.Release()
	}
}

// save saves the parts that have changed, or all where the file is to be rewritten, and counts how it went.
func (s *Store) save(due []*part, p *pace) {
	for _, d := range due {
		d.next = time.Now().Add(d.Every)
	}
	changed := slices.DeleteFunc(slices.Clone(due), func(d *part) bool { return !d.changed() })
	var err error
	switch {
	case len(changed) == 0:
	case s.file.isWorn():
		changed = s.parts
		err = s.replace(p)
	default:
		err = s.append(changed, p)
	}
	if errors.Is(err, context.Canceled) {
		return // Close saves it
	}
	s.report(err)
	s.count(append(slices.Clone(due), changed...), err)
}

// report logs where saves begin to fail, and where they no longer do.
func (s *Store) report(err error) {
	switch failed := err != nil; {
	case failed && !s.failed:
		s.Logger.Warn("the state cannot be saved; it is tried again", "err", err)
	case !failed && s.failed:
		s.Logger.Info("the state is saved again")
	}
	s.failed = err != nil
}

// count notes that the parts are up to date, or that a save failed.
func (s *Store) count(of []*part, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.stats.Failures++
		return
	}
	now := time.Now()
	for _, p := range of {
		p.at = now
	}
	s.stats.Bytes = sizeOf(s.path())
	s.stats.At = slices.MinFunc(s.parts, func(a, b *part) int { return a.at.Compare(b.at) }).at
}

// sizeOf returns the size of a file; 0 where that cannot be known.
func sizeOf(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}
