package store

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// format and version are in the first line of a file. The version changes where an
// older program would misread a file; unknown fields alone are no reason.
const (
	format  = "inference_exporter state"
	version = 1
)

// Bounds of a file, for who writes it and who reads it.
const (
	maxFileBytes   = 256 << 20 // on disk
	maxBytes       = 1 << 30   // decompressed
	maxRecordBytes = 1 << 20
	windowBytes    = 1 << 20 // that compression looks back
)

// header is the first line of a file.
type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Saved is when the file was written.
	Saved time.Time `json:"saved"`
}

// errTooLarge is of a file that would be, or is, larger than maxBytes.
var errTooLarge = fmt.Errorf("more than %d bytes", maxBytes)

// check reads a file to its end, which compares the checksum, and returns its
// header. Nothing of a file may be used before.
func check(file []byte) (header, error) {
	var h header
	lines, done, err := newLines(file)
	if err != nil {
		return h, err
	}
	defer done()
	if !lines.Scan() {
		return h, cause(lines, io.ErrUnexpectedEOF)
	}
	if err := json.Unmarshal(lines.Bytes(), &h); err != nil || h.Format != format {
		return h, errors.New("not a file of the exporter's state")
	}
	if h.Version != version {
		return h, fmt.Errorf("version %d, and this program reads version %d", h.Version, version)
	}
	for lines.Scan() {
	}
	return h, cause(lines, nil)
}

// records hands each record of a checked file to load, and returns how many load
// accepted and rejected.
func records(file []byte, load func(record []byte) error) (accepted, rejected int, err error) {
	lines, done, err := newLines(file)
	if err != nil {
		return 0, 0, err
	}
	defer done()
	lines.Scan() // the header
	for lines.Scan() {
		if load(lines.Bytes()) != nil {
			rejected++
			continue
		}
		accepted++
	}
	return accepted, rejected, cause(lines, nil)
}

// newLines returns the lines of a compressed file; done is to be called in the end.
func newLines(file []byte) (lines *bufio.Scanner, done func(), err error) {
	d, err := zstd.NewReader(bytes.NewReader(file),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowBytes), zstd.WithDecoderMaxMemory(maxBytes))
	if err != nil {
		return nil, nil, err
	}
	lines = bufio.NewScanner(&limited{d, maxBytes})
	lines.Buffer(nil, maxRecordBytes)
	return lines, d.Close, nil
}

// cause returns the error that ended the lines, or otherwise where there is none.
func cause(lines *bufio.Scanner, otherwise error) error {
	if err := lines.Err(); err != nil {
		return err
	}
	return otherwise
}

// limited is a reader that fails after so many bytes.
type limited struct {
	io.Reader
	left int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// file is what a file is written to.
type file interface {
	io.WriteCloser
	Sync() error
}

// create makes a new file that only its owner can read. What has its name already,
// such as the rest of a write that was killed, is removed and not followed.
func create(name string) (file, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// replace writes a file beside the one of that name and puts it in its place once it
// is on disk, so that there is a whole file at any moment.
func (s *Store) replace(name string, p *pace, save func(put func(record any) error) error) error {
	temporary := name + ".tmp"
	f, err := s.create(temporary)
	if err != nil {
		return err
	}
	err = s.write(f, p, save)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = fileutil.Rename(temporary, name)
	}
	if err != nil {
		_ = os.Remove(temporary)
	}
	return err
}

// write writes the header and the records, compressed and with a checksum.
func (s *Store) write(f io.Writer, p *pace, save func(put func(record any) error) error) error {
	compressed, err := zstd.NewWriter(f,
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(windowBytes), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return err
	}
	counted := &counter{Writer: compressed}
	lines := json.NewEncoder(counted)
	lines.SetEscapeHTML(false)
	put := func(record any) error {
		before := counted.n
		if err := lines.Encode(record); err != nil {
			return err
		}
		if counted.n-before > maxRecordBytes || counted.n > maxBytes {
			return errTooLarge
		}
		return p.rest(counted.n)
	}
	if err = put(header{format, version, s.now()}); err == nil {
		err = save(put)
	}
	if closed := compressed.Close(); err == nil {
		err = closed
	}
	return err
}

// counter counts what is written.
type counter struct {
	io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n += int64(n)
	return n, err
}

const (
	// stretch is how many bytes are encoded without a rest: less than a millisecond
	// of work.
	stretch = 64 << 10
	// restShare is how many times as long as the work each rest is, and maxRest what
	// it is at most.
	restShare = 9
	maxRest   = 100 * time.Millisecond
)

// pace makes a save rest after each stretch, so that it takes a tenth of one
// processor for a longer time, and never much of it at once: probes run beside it.
type pace struct {
	ctx   context.Context // whose end gives up the save
	hurry bool            // without rests
	now   func() time.Time
	began time.Time     // of the stretch
	next  int64         // bytes at which it ends
	busy  time.Duration // all stretches that have ended
}

func newPace(ctx context.Context, hurry bool, now func() time.Time) *pace {
	return &pace{ctx: ctx, hurry: hurry, now: now, began: now(), next: stretch}
}

// rest is called after each record, with the bytes that were encoded so far.
func (p *pace) rest(written int64) error {
	if written < p.next {
		return nil
	}
	p.next = written + stretch
	worked := max(0, p.now().Sub(p.began))
	p.busy += worked
	if !p.hurry {
		pause := time.NewTimer(min(restShare*worked, maxRest))
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-p.ctx.Done():
		}
	}
	p.began = p.now()
	return p.ctx.Err()
}

// work returns how long the save was busy.
func (p *pace) work() time.Duration { return p.busy + max(0, p.now().Sub(p.began)) }

// path returns the name of a file in the directory.
func (s *Store) path(name string) string { return filepath.Join(s.dir, name+".jsonl.zst") }
