package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/klauspost/compress/zstd"
)

// log is what was logged; it may be read while others log.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines returns the warnings, or all lines of another level.
func (l *log) lines(level slog.Level) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, "level="+level.String()) {
			found = append(found, line)
		}
	}
	return found
}

// shelf is a state of numbers for a test.
type shelf struct {
	mu       sync.Mutex
	numbers  []int
	revision uint64
	log      *log
}

func (s *shelf) set(numbers ...int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.numbers, s.revision = numbers, s.revision+1
}

// part is the part of the shelf.
func (s *shelf) part() Part {
	return Part{
		Name: "numbers", Every: time.Minute,
		Revision: func() uint64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.revision
		},
		Save: func(put func(any) error) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			for _, n := range s.numbers {
				if err := put(n); err != nil {
					return err
				}
			}
			return nil
		},
		Load: func(record []byte) error {
			var n int
			if err := json.Unmarshal(record, &n); err != nil {
				return err
			}
			s.numbers = append(s.numbers, n)
			return nil
		},
	}
}

// open opens a directory for a new shelf.
func open(dir string) (*Store, *shelf) {
	s := &shelf{log: &log{}}
	return Open(Options{
		Dir: dir, Parts: []Part{s.part()}, Logger: slog.New(slog.NewTextHandler(s.log, nil)),
	}), s
}

// mustOpen is open where it has to work.
func mustOpen(t testing.TB, dir string) (*Store, *shelf) {
	t.Helper()
	st, s := open(dir)
	if st == nil {
		t.Fatalf("not opened: %v", s.log.lines(slog.LevelWarn))
	}
	return st, s
}

// written returns a directory with the file of a process that ended.
func written(t testing.TB, numbers ...int) (dir, name string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "deep", "state")
	st, s := mustOpen(t, dir)
	s.set(numbers...)
	st.Close(context.Background())
	return dir, st.path()
}

func wantNumbers(t *testing.T, s *shelf, want ...int) {
	t.Helper()
	if fmt.Sprint(s.numbers) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", s.numbers, want)
	}
}

func TestStateSurvives(t *testing.T) {
	dir, name := written(t, 1, 2, 3)
	for path, want := range map[string]fs.FileMode{dir: fs.ModeDir | 0o700, name: 0o600} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: mode %v, want %v; %v", path, info.Mode(), want, err)
		}
	}
	before := time.Now().Add(-time.Minute)
	st, s := mustOpen(t, dir)
	wantNumbers(t, s, 1, 2, 3)
	if st.Loaded().Before(before) || st.Loaded().After(time.Now()) {
		t.Errorf("saved at %v", st.Loaded())
	}
	if w := s.log.lines(slog.LevelWarn); len(w) > 0 {
		t.Error(w)
	}
	st.Close(context.Background())
	if s := st.Stats(); s.Bytes == 0 || s.Failures != 0 || s.At.Before(before) {
		t.Errorf("%+v", s)
	}
}

// compressed returns lines as the content of a file.
func compressed(t testing.TB, lines ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	if err == nil {
		_, err = io.WriteString(w, strings.Join(lines, "\n"))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	goodHeader = `{"format":"inference_exporter state","version":2,"part":"numbers","saved":"2026-01-02T03:04:05Z"}`
	goodEnd    = `{"format":"inference_exporter state","version":2,"part":"numbers","end":true}`
)

// Whatever is in the place of the file, the exporter starts with nothing of it,
// logs one line, keeps the file aside, and saves a new one.
func TestUnusableFiles(t *testing.T) {
	_, name := written(t, 1, 2, 3)
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(good)
	flipped[len(flipped)-1] ^= 1 // of the checksum
	for what, content := range map[string][]byte{
		"empty":                  {},
		"text":                   []byte("hello\n"),
		"cut":                    good[:len(good)-5],
		"cut in the beginning":   good[:5],
		"wrong checksum":         flipped,
		"bit in the middle":      append(append(bytes.Clone(good[:len(good)/2]), good[len(good)/2]^4), good[len(good)/2+1:]...),
		"no header":              compressed(t, `5`, `6`),
		"of another format":      compressed(t, `{"format":"x","version":1}`, `5`),
		"of a newer version":     compressed(t, strings.Replace(goodHeader, `"version":2`, `"version":3`, 1), `5`),
		"a record without end":   compressed(t, goodHeader, strings.Repeat("1", maxRecordBytes+1)),
		"a bomb that is cut":     compressed(t, goodHeader, strings.Repeat("\n", 1<<20))[:40],
		"a window of gigabytes":  {0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xf8, 0x01, 0x00, 0x00},
		"without an end":         compressed(t, goodHeader, `5`),
		"the end of another":     compressed(t, goodHeader, `5`, strings.Replace(goodEnd, "numbers", "x", 1)),
		"a time that is none":    compressed(t, strings.Replace(goodHeader, "2026", "x", 1), `5`),
		"header without records": nil,
	} {
		t.Run(what, func(t *testing.T) {
			dir, name := written(t, 9)
			if content == nil {
				content = compressed(t, "")
			}
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
			st, s := mustOpen(t, dir)
			wantNumbers(t, s)
			if w := s.log.lines(slog.LevelWarn); len(w) != 1 || !strings.Contains(w[0], "moved aside") {
				t.Errorf("logged %q", w)
			}
			if bad, err := os.ReadFile(name + ".bad"); err != nil || !bytes.Equal(bad, content) {
				t.Errorf("aside: %d bytes, %v", len(bad), err)
			}
			s.set(7)
			st.Close(context.Background())
			st, s = mustOpen(t, dir)
			defer st.Release()
			wantNumbers(t, s, 7)
		})
	}
}

// A record that its owner does not know does no harm to the others.
func TestUnknownRecords(t *testing.T) {
	dir, name := written(t)
	if err := os.WriteFile(name, compressed(t, goodHeader, `1`, `{"later":true}`, `not JSON`, ``, `2`, goodEnd), 0o600); err != nil {
		t.Fatal(err)
	}
	st, s := mustOpen(t, dir)
	defer st.Release()
	wantNumbers(t, s, 1, 2)
	if info := s.log.lines(slog.LevelInfo); len(info) != 1 || !strings.Contains(info[0], "records=2 rejected=3") {
		t.Errorf("logged %q", info)
	}
}

func TestOneProcessForADirectory(t *testing.T) {
	dir, _ := written(t, 1)
	first, _ := mustOpen(t, dir)
	second, s := open(dir)
	if second != nil {
		t.Fatal("opened twice")
	}
	if w := s.log.lines(slog.LevelWarn); len(w) != 1 || !strings.Contains(w[0], "another process uses the directory") {
		t.Errorf("logged %q", w)
	}
	first.Release()
	third, s := mustOpen(t, dir)
	defer third.Release()
	wantNumbers(t, s, 1)
}

func TestUnusableDirectories(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	occupied, name := written(t, 1)
	if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o700), os.MkdirAll(name+".bad/x", 0o700)); err != nil {
		t.Fatal(err)
	}
	for what, dir := range map[string]string{
		"is a file":                            file,
		"is in a file":                         filepath.Join(file, "state"),
		"does not let files be made":           "/proc/self/fdinfo",
		"has a file that cannot be moved away": occupied,
	} {
		st, s := open(dir)
		if st != nil {
			t.Errorf("%s: opened", what)
			continue
		}
		if w := s.log.lines(slog.LevelWarn); len(w) != 1 || !strings.Contains(w[0], "no state is kept") {
			t.Errorf("%s: logged %q", what, w)
		}
	}
}

// broken is a file on a disk that becomes full, or that fails to keep what it was given.
type broken struct {
	file
	room    int
	sync    error
	written *int
}

var errFull = errors.New("no space left on device")

func (b *broken) Write(p []byte) (int, error) {
	*b.written += len(p)
	if *b.written > b.room {
		return 0, errFull
	}
	return b.file.Write(p)
}

func (b *broken) Sync() error { return b.sync }

// On a full disk the file before stays, is whole, and what was begun is removed.
// One line of the log says when it begins and one when it ends.
func TestFullDisk(t *testing.T) {
	dir, name := written(t, 1)
	st, s := mustOpen(t, dir)
	s.set(2, 3)
	f := st.parts[0]
	save := func() { st.save([]*part{f}, newPace(t.Context(), true)) }
	for _, disk := range []broken{{room: 0}, {room: 10}, {room: 1 << 20, sync: errFull}} {
		st.create = func(name string) (file, error) {
			made, err := create(name)
			return &broken{made, disk.room, disk.sync, new(int)}, err
		}
		save()
		if _, err := os.Stat(name + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("room for %d: what was begun is still there: %v", disk.room, err)
		}
		if data, err := os.ReadFile(name); err != nil {
			t.Error(err)
		} else if _, err := scan(data, func(int, []byte) {}); err != nil {
			t.Errorf("room for %d: the file is not whole: %v", disk.room, err)
		}
	}
	st.create = func(string) (file, error) { return nil, fs.ErrPermission }
	save()
	if stats := st.Stats(); stats.Failures != 4 || !stats.At.IsZero() {
		t.Errorf("%+v", stats)
	}
	if w := s.log.lines(slog.LevelWarn); len(w) != 1 || !strings.Contains(w[0], errFull.Error()) {
		t.Errorf("logged %q", w)
	}
	st.create = create
	save()
	if stats := st.Stats(); stats.Failures != 4 || stats.At.IsZero() {
		t.Errorf("%+v", stats)
	}
	if info := s.log.lines(slog.LevelInfo); len(info) != 2 || !strings.Contains(info[1], "saved again") {
		t.Errorf("logged %q", info)
	}
	st.Release()
	st, s = mustOpen(t, dir)
	defer st.Release()
	wantNumbers(t, s, 2, 3)
}

// A save that fails in the middle of an append is cut off, and the file goes on from there.
func TestFullDiskAtTheEnd(t *testing.T) {
	dir, name := written(t, 1)
	st, s := mustOpen(t, dir)
	save := func() int64 {
		st.save(st.parts, newPace(t.Context(), true))
		return sizeOf(name)
	}
	s.set(2)
	before := save()
	for _, disk := range []broken{{room: 0}, {room: 10}, {room: 1 << 20, sync: errFull}} {
		st.extend = func(name string) (file, error) {
			made, err := extend(name)
			return &broken{made, disk.room, disk.sync, new(int)}, err
		}
		s.set(3)
		if after := save(); after != before {
			t.Errorf("room for %d: %d bytes, want the %d before", disk.room, after, before)
		}
	}
	st.extend = extend
	s.set(4, 5)
	if after := save(); after <= before || st.Stats().Failures != 3 {
		t.Errorf("%d bytes after %d, %+v", after, before, st.Stats())
	}
	st.Release()
	st, s = mustOpen(t, dir)
	defer st.Release()
	wantNumbers(t, s, 4, 5)
}

// Wherever the end of the file is lost, what is restored is a whole save: the latest that is
// still there.
func TestLostEnd(t *testing.T) {
	dir, name := written(t)
	st, s := mustOpen(t, dir)
	var ends []int64 // of the saves
	for n := range 3 {
		s.set(n, n, n)
		st.save(st.parts, newPace(t.Context(), true))
		ends = append(ends, sizeOf(name))
	}
	st.Release()
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := ends[0]; cut < ends[2]; cut++ {
		if err := os.WriteFile(name, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		st, s := mustOpen(t, dir)
		st.Release()
		n := 0
		if cut >= ends[1] {
			n = 1
		}
		wantNumbers(t, s, n, n, n)
		whole := cut == ends[0] || cut == ends[1]
		if w := s.log.lines(slog.LevelWarn); (len(w) == 0) != whole {
			t.Errorf("cut to %d of %v: logged %q", cut, ends, w)
		}
	}
}

// Each part has its own interval, and the file does not grow with the number of saves.
func TestParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		often, seldom := &shelf{log: &log{}}, &shelf{log: &log{}}
		parts := func() []Part {
			first, second := often.part(), seldom.part()
			first.Name, first.Every, second.Name, second.Every = "often", time.Second, "seldom", time.Hour
			return []Part{first, second}
		}
		st := Open(Options{Dir: dir, Parts: parts(), Logger: slog.New(slog.DiscardHandler)})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- st.Run(ctx) }()
		seldom.set(7)
		for n := range 5000 { // some 20 bytes each before compression
			often.set(n, n+1, n+2)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if size := st.Stats().Bytes; size > 1<<20 {
			t.Errorf("%d bytes after 5,000 saves of 3 records", size)
		}
		cancel()
		<-done
		st.Release() // as a process that is killed
		often, seldom = &shelf{log: &log{}}, &shelf{log: &log{}}
		st = Open(Options{Dir: dir, Parts: parts(), Logger: slog.New(slog.DiscardHandler)})
		defer st.Release()
		wantNumbers(t, seldom, 7)
		if len(often.numbers) != 3 || often.numbers[0] < 4997 {
			t.Errorf("got %v, want those of the last two seconds", often.numbers)
		}
	})
}

// A state is never larger than what is read again.
func TestTooLarge(t *testing.T) {
	dir, name := written(t, 1)
	st, _ := mustOpen(t, dir)
	defer st.Release()
	f := st.parts[0]
	f.Save = func(put func(any) error) error { return put(strings.Repeat("x", maxRecordBytes)) }
	f.Revision = func() uint64 { return 5 }
	st.save([]*part{f}, newPace(t.Context(), true))
	if st.Stats().Failures != 1 {
		t.Error("a record was saved that is too large")
	}
	if data, err := os.ReadFile(name); err != nil || len(data) > 1000 {
		t.Errorf("%d bytes, %v", len(data), err)
	}
}

// What was planted in the place of the temporary file is not followed.
func TestTemporaryFileIsNotFollowed(t *testing.T) {
	dir, name := written(t, 1)
	victim := filepath.Join(t.TempDir(), "victim")
	if err := errors.Join(os.WriteFile(victim, []byte("mine"), 0o600), os.Symlink(victim, name+".tmp")); err != nil {
		t.Fatal(err)
	}
	st, _ := mustOpen(t, dir)
	st.Close(context.Background())
	if data, err := os.ReadFile(victim); err != nil || string(data) != "mine" {
		t.Errorf("%q, %v", data, err)
	}
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
}

// A lock that is a link is not followed: what it names is not made.
func TestLockIsNotFollowed(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	if err := os.Symlink(victim, filepath.Join(dir, "lock")); err != nil {
		t.Fatal(err)
	}
	l, err := lock(dir)
	if err == nil {
		_ = l.Release()
		t.Error("the link was taken for the lock")
	}
	if _, err := os.Lstat(victim); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was made through the link: %v", err)
	}
}

// fast is a store on the clock of a synctest bubble, with nothing on disk.
func fast(t *testing.T, every time.Duration, save func(put func(any) error) error) (*Store, *atomic.Uint64) {
	revision := new(atomic.Uint64)
	s := &Store{
		Options: Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}, create: create, extend: extend,
		parts:  []*part{{Part: Part{Name: "f", Every: every, Revision: revision.Load, Save: save}}},
		saving: make(chan struct{}, 1),
	}
	s.lock, _ = lock(s.Dir)
	return s, revision
}

// Saves come at their interval, only where something has changed, and less often
// where they take long: a hundredth of the time at most.
func TestIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var saves []time.Duration
		var takes atomic.Int64 // how long a save works
		began := time.Now()
		s, revision := fast(t, time.Minute, func(func(any) error) error {
			saves = append(saves, time.Since(began).Round(time.Second))
			time.Sleep(time.Duration(takes.Load()))
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(150 * time.Second) // at 60 s; at 120 s there is nothing new
		revision.Add(1)
		takes.Store(int64(3 * time.Second))
		time.Sleep(60 * time.Second) // at 180 s
		revision.Add(1)
		time.Sleep(400 * time.Second) // at 483 s: 300 s after the end of the one before
		revision.Add(1)
		takes.Store(0)
		cancel()
		<-done
		synctest.Wait()
		s.Close(t.Context())
		if got := fmt.Sprint(saves); got != "[1m0s 3m0s 8m3s 10m10s]" {
			t.Errorf("saved after %s", got)
		}
	})
}

// A large save rests nine tenths of the time, gives up when the program ends, and is
// then made at once.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		chunk, work, saves := strings.Repeat("x", stretch), time.Millisecond, 0
		s, _ := fast(t, time.Minute, func(put func(any) error) error {
			saves++
			for range 1000 {
				time.Sleep(work)
				if err := put(chunk); err != nil {
					return err
				}
			}
			return nil
		})
		p := newPace(t.Context(), false)
		began := time.Now()
		s.save(s.parts, p)
		if d := time.Since(began); d != 10*time.Second || p.work() != time.Second {
			t.Errorf("took %s, of which %s work", d, p.work())
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(2*time.Second, cancel)
		began, s.parts[0].saved = time.Now(), false
		s.save(s.parts, newPace(ctx, false))
		if d := time.Since(began); d > 2100*time.Millisecond || s.Stats().Failures != 0 {
			t.Errorf("gave up after %s: %+v", d, s.Stats())
		}
		began, work = time.Now(), work/2
		s.Close(t.Context())
		if d := time.Since(began); d != 500*time.Millisecond || saves != 3 || !s.parts[0].saved {
			t.Errorf("closed after %s and %d saves: %v", d, saves, s.parts[0].saved)
		}
	})
}

// A disk that hangs holds up neither the end of Run nor Close for long.
func TestHangingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s, _ := fast(t, time.Minute, func(func(any) error) error {
			<-release
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.Run(ctx); err != nil || time.Since(began) != 90*time.Second {
			t.Errorf("ended after %s: %v", time.Since(began), err)
		}
		last, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Close(last)
		if d := time.Since(began); d != 91*time.Second {
			t.Errorf("closed after %s", d)
		}
		close(release)
		synctest.Wait()
	})
}
