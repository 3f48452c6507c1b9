// Package store keeps on disk what survives a restart of the exporter. It knows
// files, not what is in them: who owns a state gives it as records and takes the
// records back.
//
// A file is a snapshot: a line of JSON for each record, compressed by zstd with its
// checksum, written beside the file before and put in its place. An embedded
// database would write less where little changes, but nearly all of the state
// changes with every round of probes, nothing is looked up in it, and losing what is newer than
// the latest snapshot is harmless. A snapshot has no log to replay, no compaction
// and no page to repair: it is whole or it is not there. zstdcat shows it.
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
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/tsdb/fileutil"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

const (
	// patience is how long a directory that hangs is waited for at the start.
	patience = 3 * time.Second
	// maxShare is how many times as long as the work of a save is the time to the
	// next one, at least: saves take at most a hundredth of a processor.
	maxShare = 100
)

// File is a part of the state with a file of its own.
type File struct {
	// Name is that of the file, without its suffix.
	Name string
	// Every is how often it is saved, at most.
	Every time.Duration
	// Revision returns a number that differs when there is something new to save.
	Revision func() uint64
	// Save gives all records to put and returns its first error. It runs beside
	// everything else.
	Save func(put func(record any) error) error
	// Load takes a record, which it must not keep; an error rejects it.
	Load func(record []byte) error
}

// Options are those of a Store.
type Options struct {
	// Dir is the directory, which is made where it does not exist.
	Dir    string
	Files  []File
	Logger *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Store keeps the files of one directory, which no other process may use meanwhile.
type Store struct {
	dir    string
	logger *slog.Logger
	now    func() time.Time
	create func(name string) (file, error)
	lock   fileutil.Releaser
	loaded time.Time // when what was loaded had been saved
	files  []*kept

	mu    sync.Mutex
	stats Stats
}

// kept is a file of a store.
type kept struct {
	File
	saving   chan struct{} // holds a value while the file is being saved
	revision uint64        // that was saved
	saved    bool          // ever, by this process
	failing  bool          // the latest save failed

	size int64     // under the lock of the store, as is
	at   time.Time // when it was last known to be up to date
}

// Stats are about the saves of a Store.
type Stats struct {
	// At is when all files were last known to be up to date; the zero time while one
	// of them never was.
	At time.Time
	// Bytes is the size of all files.
	Bytes int64
	// Failures counts the saves that failed.
	Failures uint64
}

// Open takes a directory and loads what is there. What is wrong with either is
// logged: without a directory it returns nil, and a file that cannot be used is
// moved aside and replaced.
func Open(o Options) *Store {
	s := &Store{dir: o.Dir, logger: o.Logger.With("dir", o.Dir), now: o.Now, create: create}
	for _, f := range o.Files {
		s.files = append(s.files, &kept{File: f, saving: make(chan struct{}, 1)})
	}
	contents, err := s.open()
	if err != nil {
		s.logger.Warn("no state is kept over restarts", "err", err)
		return nil
	}
	for i, f := range s.files {
		if err := s.load(f, contents[i]); err != nil {
			s.logger.Warn("no state is kept over restarts", "err", err)
			s.Release()
			return nil
		}
	}
	return s
}

// content is what was read of a file.
type content struct {
	data []byte
	err  error
}

// open locks the directory and reads the files, within patience.
func (s *Store) open() ([]content, error) {
	type opened struct {
		lock     fileutil.Releaser
		contents []content
		err      error
	}
	done := make(chan opened, 1)
	go func() {
		var o opened
		if o.lock, o.err = lock(s.dir); o.err == nil {
			for _, f := range s.files {
				data, err := foreign.ReadFile(s.path(f.Name), maxFileBytes)
				o.contents = append(o.contents, content{data, err})
			}
		}
		done <- o
	}()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case o := <-done:
		s.lock = o.lock
		return o.contents, o.err
	case <-late.C:
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

// load hands over the records of a file. It returns an error where the file can
// neither be used nor moved aside.
func (s *Store) load(f *kept, c content) error {
	if errors.Is(c.err, os.ErrNotExist) {
		return nil
	}
	name := s.path(f.Name)
	h, err := header{}, c.err
	if err == nil {
		h, err = check(c.data)
	}
	if err != nil {
		if moved := os.Rename(name, name+".bad"); moved != nil {
			return fmt.Errorf("a file cannot be read (%w) nor moved aside: %w", err, moved)
		}
		s.logger.Warn("a file of the state cannot be used, and is not: it was moved aside", "file", name+".bad", "err", err)
		return nil
	}
	accepted, rejected, err := records(c.data, f.Load)
	if err != nil {
		return fmt.Errorf("read %s again: %w", name, err)
	}
	if h.Saved.After(s.loaded) {
		s.loaded = h.Saved
	}
	f.size = int64(len(c.data))
	s.logger.Info("state restored", "file", f.Name, "saved", h.Saved.UTC().Format(time.RFC3339), "records", accepted, "rejected", rejected)
	return nil
}

// Loaded returns when the state that was loaded had been saved; the zero time where
// there was none.
func (s *Store) Loaded() time.Time { return s.loaded }

// Stats returns how the saves went. It is safe for concurrent use.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Run saves each file again and again until ctx ends. It does not wait for a save that hangs.
func (s *Store) Run(ctx context.Context) error {
	for _, f := range s.files {
		go s.keep(ctx, f)
	}
	<-ctx.Done()
	return nil
}

func (s *Store) keep(ctx context.Context, f *kept) {
	wait := f.Every
	for {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		f.saving <- struct{}{}
		p := newPace(ctx, false, s.now)
		if ctx.Err() == nil { // else Close may have given the directory back
			s.save(f, p)
		}
		<-f.saving
		wait = max(f.Every, maxShare*p.work())
	}
}

// Close saves every file a last time, and gives the directory back. It is called
// after Run, and returns when ctx ends though a file hangs: the save before stays.
func (s *Store) Close(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer s.Release()
		for _, f := range s.files {
			select {
			case f.saving <- struct{}{}:
				s.save(f, newPace(ctx, true, s.now))
				<-f.saving
			case <-ctx.Done():
				return
			}
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.logger.Warn("the state was not saved in time; what the latest save has is kept")
	}
}

// Release gives the directory back and saves nothing.
func (s *Store) Release() { _ = s.lock.Release() }

// save saves a file where there is something new, and counts how it went.
func (s *Store) save(f *kept, p *pace) {
	revision := f.Revision()
	if f.saved && revision == f.revision {
		s.count(f, sizeOf(s.path(f.Name)), nil)
		return
	}
	err := s.replace(s.path(f.Name), p, f.Save)
	if errors.Is(err, context.Canceled) {
		return // Close saves it
	}
	if err == nil {
		f.saved, f.revision = true, revision
	}
	s.report(f, err)
	s.count(f, sizeOf(s.path(f.Name)), err)
}

// report logs where saves begin to fail, and where they no longer do.
func (s *Store) report(f *kept, err error) {
	switch failed := err != nil; {
	case failed && !f.failing:
		s.logger.Warn("the state cannot be saved; it is tried again", "file", f.Name, "err", err)
	case !failed && f.failing:
		s.logger.Info("the state is saved again", "file", f.Name)
	}
	f.failing = err != nil
}

func (s *Store) count(f *kept, size int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.stats.Failures++
		return
	}
	f.at, f.size = s.now(), size
	s.stats.At, s.stats.Bytes = f.at, 0
	for _, other := range s.files {
		if other.at.Before(s.stats.At) {
			s.stats.At = other.at
		}
		s.stats.Bytes += other.size
	}
}

// sizeOf returns the size of a file; 0 where that cannot be known.
func sizeOf(name string) int64 {
	info, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}
