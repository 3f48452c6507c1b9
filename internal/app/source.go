package app

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"github.com/inference-exporter/inference_exporter/config"
)

// source loads the configuration file again and again. A file that is read while it is
// being written can be valid and lack endpoints: one that looks so is refused, once.
type source struct {
	taken   []byte // what was loaded last; nil before that
	refused uint64 // hash of what was refused last
}

// load is config.Load, with a mistake in a file that may be half of one.
func (s *source) load(name string, checks ...config.Check) (*config.Config, error) {
	data, err := config.Read(name)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Parse(data, name, checks...)
	if err != nil {
		return nil, err
	}
	sum := xxhash.Sum64(data)
	if what := s.cut(data); what != "" && sum != s.refused {
		s.refused = sum
		return nil, &config.Error{
			File: name, Line: 1 + bytes.Count(bytes.TrimSpace(data), []byte("\n")),
			Msg: "the file may be half written: " + what + "; if it is meant so, reload it once more",
		}
	}
	s.taken, s.refused = data, 0
	return cfg, nil
}

// cut says why data may be the beginning of a file; "" if nothing speaks for it.
func (s *source) cut(data []byte) string {
	begin := bytes.TrimRight(data, "\n")
	switch rest, ok := bytes.CutPrefix(s.taken, begin); {
	case ok && len(bytes.TrimSpace(rest)) > 0:
		return "it is the beginning of the one that is active, and ends here"
	case bytes.HasSuffix(s.taken, []byte("\n")) && !bytes.HasSuffix(data, []byte("\n")):
		return "its last line has no end, unlike that of the one that is active"
	}
	return ""
}
