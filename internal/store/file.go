package store

import (
	"bufio"
	"bytes"
	"cmp"
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

	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// format and version are in the header of a section. The version changes where an
// older program would misread it; unknown fields alone are no reason.
const (
	format  = "inference_exporter state"
	version = 2
)

// Bounds of a file, for who writes it and who reads it.
const (
	maxFileBytes   = 256 << 20 // on disk
	maxBytes       = 2 << 30   // decompressed
	maxSaveBytes   = maxBytes / 4
	maxRecordBytes = 1 << 20
	windowBytes    = 1 << 20 // that compression looks back
	// leastWorn is how many bytes are appended to a small file before it is rewritten.
	leastWorn = 1 << 20
)

// header is the first line of a section and, with End, the last one: in a frame of its own,
// which is read only where the one before has its checksum.
type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Part is the name of the part.
	Part string `json:"part"`
	// Saved is when the section was written.
	Saved time.Time `json:"saved,omitzero"`
	End   bool      `json:"end,omitempty"`
}

// headerPrefix begins a header, and no record.
var headerPrefix = []byte(`{"format":"` + format + `"`)

var errTooLarge = errors.New("too large")

// sections are the latest whole sections of a file, by part.
type sections map[string]section

type section struct {
	header
	index int // among those of the file
}

// scan reads a file to its end, compares the checksums, and gives each record to take, with the index of its section. It
// returns the sections before the first error: nothing of a file may be used before it was read once.
func scan(file []byte, take func(section int, record []byte)) (sections, error) {
	d, err := zstd.NewReader(bytes.NewReader(file),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(windowBytes), zstd.WithDecoderMaxMemory(maxBytes))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	lines := bufio.NewScanner(foreign.Bounded(d, maxBytes))
	lines.Buffer(nil, maxRecordBytes)
	whole := sections{}
	var current section
	open := false // current has not ended
	for next := 0; lines.Scan(); {
		if open && !bytes.HasPrefix(lines.Bytes(), headerPrefix) {
			take(current.index, lines.Bytes())
			continue
		}
		var h header
		switch err := json.Unmarshal(lines.Bytes(), &h); {
		case err != nil || h.Format != format || h.End != open || open && h.Part != current.Part:
			return whole, errors.New("not a file of the exporter's state")
		case h.Version != version:
			return whole, fmt.Errorf("version %d, and this program reads version %d", h.Version, version)
		case h.End:
			whole[current.Part] = current
		default:
			current = section{h, next}
			next++
		}
		open = !h.End
	}
	if err := lines.Err(); err != nil {
		return whole, err
	}
	if open || len(whole) == 0 {
		return whole, io.ErrUnexpectedEOF
	}
	return whole, nil
}

// file is what a file is written to.
type file interface {
	io.WriteCloser
	Sync() error
}

// create makes a new file that only its owner can read. What has its name already, such as the rest of a write that was
// killed, is removed and not followed.
func create(name string) (file, error) {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// extend opens a file to write at its end. A link is not followed.
func extend(name string) (file, error) {
	if info, err := os.Lstat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0o600)
}

// extent is what this process wrote of the file.
type extent struct {
	end      int64 // of the file; 0 while nothing was written that can be extended
	whole    int64 // bytes when the file was last rewritten, not compressed
	appended int64 // bytes since then, not compressed
}

func (w *extent) isWorn() bool { return w.end == 0 || w.appended > max(w.whole, leastWorn) }

// replace writes all parts to a file beside the old one and, once it is on disk, puts it in its place: one is always whole.
func (s *Store) replace(p *pace) error {
	name := s.path()
	temporary := name + ".tmp"
	s.file.end = 0
	f, err := s.create(temporary)
	if err != nil {
		return err
	}
	n, err := s.finish(f, s.parts, p)
	if err == nil {
		err = fileutil.Rename(temporary, name)
	}
	if err != nil {
		_ = os.Remove(temporary)
		return err
	}
	s.file = extent{end: sizeOf(name), whole: n}
	return nil
}

// append writes parts at the end of the file. After an error, what was begun is cut off; where that fails, or the file
// is no longer the one that was written, it is rewritten the next time.
func (s *Store) append(parts []*part, p *pace) error {
	name := s.path()
	end := s.file.end
	s.file.end = 0
	if sizeOf(name) != end {
		return s.replace(p)
	}
	f, err := s.extend(name)
	if err != nil {
		return err
	}
	n, err := s.finish(f, parts, p)
	if err != nil {
		if os.Truncate(name, end) == nil {
			s.file.end = end
		}
		return err
	}
	s.file.end, s.file.appended = sizeOf(name), s.file.appended+n
	return nil
}

// finish writes parts to a file, syncs and closes it; only then are they saved. n is how many bytes that is uncompressed.
func (s *Store) finish(f file, parts []*part, p *pace) (n int64, err error) {
	revisions := make([]uint64, len(parts))
	for i, of := range parts {
		revisions[i] = of.Revision()
		before := p.work()
		if err = s.write(f, of, &n, p); err != nil {
			break
		}
		of.next = time.Now().Add(max(of.Every, maxShare*(p.work()-before)))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = cmp.Or(err, f.Close()); err == nil {
		for i, of := range parts {
			of.saved, of.revision = true, revisions[i]
		}
	}
	return n, err
}

// write writes a part as a section, compressed and with a checksum, and adds its bytes to n.
func (s *Store) write(f io.Writer, of *part, n *int64, p *pace) error {
	compressed, err := zstd.NewWriter(f,
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(windowBytes), zstd.WithLowerEncoderMem(true))
	if err != nil {
		return err
	}
	var line bytes.Buffer
	lines := json.NewEncoder(&line)
	lines.SetEscapeHTML(false)
	put := func(record any) error {
		if err := lines.Encode(record); err != nil {
			return err
		}
		if *n += int64(line.Len()); line.Len() > maxRecordBytes || *n > maxSaveBytes {
			return errTooLarge
		}
		if _, err := line.WriteTo(compressed); err != nil {
			return err
		}
		return p.rest(*n)
	}
	if err = put(header{Format: format, Version: version, Part: of.Name, Saved: time.Now()}); err == nil {
		err = of.Save(put)
	}
	if err = cmp.Or(err, compressed.Close()); err == nil {
		compressed.Reset(f)
		err = errors.Join(put(header{Format: format, Version: version, Part: of.Name, End: true}), compressed.Close())
	}
	return err
}

const (
	// stretch is how many bytes are encoded without a rest: less than a millisecond of work.
	stretch = 64 << 10
	// restShare is how many times as long as the work each rest is, and maxRest what it is at most.
	restShare = 9
	maxRest   = 100 * time.Millisecond
)

// pace makes a save rest after each stretch, so that it takes a tenth of one
// processor for a longer time, and never much of it at once: probes run beside it.
type pace struct {
	ctx   context.Context // whose end gives up the save
	hurry bool            // without rests
	began time.Time       // of the stretch
	next  int64           // bytes at which it ends
	busy  time.Duration   // all stretches that have ended
}

func newPace(ctx context.Context, hurry bool) *pace {
	return &pace{ctx: ctx, hurry: hurry, began: time.Now(), next: stretch}
}

// rest is called after each record, with the bytes that were encoded so far.
func (p *pace) rest(written int64) error {
	if written < p.next {
		return nil
	}
	p.next = written + stretch
	worked := time.Since(p.began)
	p.busy += worked
	if !p.hurry {
		select {
		case <-time.After(min(restShare*worked, maxRest)):
		case <-p.ctx.Done():
		}
	}
	p.began = time.Now()
	return p.ctx.Err()
}

func (p *pace) work() time.Duration { return p.busy + time.Since(p.began) }

func (s *Store) path() string { return filepath.Join(s.Dir, "state.jsonl.zst") }
