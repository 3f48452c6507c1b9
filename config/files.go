package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"

	promconfig "github.com/prometheus/common/config"
)

// maxSecretBytes bounds a file with a secret or certificates.
const maxSecretBytes = 1 << 20

// isFileKey tells whether a key names one or several files.
func isFileKey(key string) bool { return key == "files" || strings.HasSuffix(key, "_file") }

// files makes the file names of one key absolute and checks that each file can
// be read, so that a missing secret shows at start and not in the first probe.
func (d *decoder) files(key string, p path, v reflect.Value) {
	limit := maxSecretBytes
	if key == "prompts_file" {
		limit = maxPromptsBytes
	}
	if v.Kind() == reflect.String {
		d.file(p, v, limit)
		return
	}
	for i := range v.Len() {
		d.file(p.index(i), v.Index(i), limit)
	}
}

func (d *decoder) file(p path, v reflect.Value, limit int) {
	if v.String() == "" {
		return
	}
	name := promconfig.JoinDir(d.dir, v.String())
	v.SetString(name)
	if err := tryRead(name, limit); err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		d.errorf(p, "cannot read %s: %v", name, err)
	}
}

// tryRead reads a regular file of at most so many bytes to its end; others could
// block or never end.
func tryRead(name string, limit int) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("not a regular file")
	case info.Size() > int64(limit):
		return fmt.Errorf("larger than %d bytes", limit)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(f, int64(limit)))
	return err
}
