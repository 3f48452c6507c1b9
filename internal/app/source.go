package app

import (
	"bytes"
	"fmt"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// settled is for how long a file that looks half written must be the same.
const settled = time.Second

// source loads the configuration file again and again. A file that is read while it is
// being written can be valid and lack endpoints: one that looks so is read again until
// it no longer changes.
type source struct {
	taken []byte // what was loaded last; nil before that
}

// load is config.Load for a file that may be changing.
func (s *source) load(name string, checks ...config.Check) (*config.Config, error) {
	data, err := s.read(name)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Parse(data, name, checks...)
	if err != nil {
		return nil, err
	}
	s.taken = data
	return cfg, nil
}

// read returns the contents of a file: of one that looks half written those that have
// been the same for as long as settled.
func (s *source) read(name string) ([]byte, error) {
	data, err := config.Read(name)
	for range 5 {
		if err != nil || !s.cut(data) {
			return data, err
		}
		time.Sleep(settled)
		before := data
		if data, err = config.Read(name); err == nil && bytes.Equal(data, before) {
			return data, nil
		}
	}
	return nil, fmt.Errorf("%s is being written: it has changed for %v", name, 5*settled)
}

// cut reports whether data may be the beginning of a file: of the one that was taken, or
// of one whose last line has no end, unlike that.
func (s *source) cut(data []byte) bool {
	rest, ok := bytes.CutPrefix(s.taken, bytes.TrimRight(data, "\n"))
	return ok && len(bytes.TrimSpace(rest)) > 0 || bytes.HasSuffix(s.taken, []byte("\n")) && !bytes.HasSuffix(data, []byte("\n"))
}
