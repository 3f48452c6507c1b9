package config

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/internal/files"
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
	if err := files.Check(name, int64(limit)); err != nil {
		if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
			err = pathErr.Err
		}
		if d.secret { // the name may be the secret itself
			d.errorf(p, "cannot read the file (a relative name counts from %s): %v", d.dir, err)
			return
		}
		d.errorf(p, "cannot read %s: %v", name, err)
	}
}

// Files returns the names of the files that a client with these settings reads
// for its requests: of secrets and certificates.
func (h *HTTPClient) Files() []string {
	return namesOfFiles(reflect.ValueOf(h.HTTPClientConfig), "")
}

// namesOfFiles returns those in a value that is held by a field of the given name.
func namesOfFiles(v reflect.Value, field string) []string {
	var names []string
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			names = namesOfFiles(v.Elem(), field)
		}
	case reflect.Struct:
		if headers, ok := v.Interface().(promconfig.Headers); ok {
			for _, h := range headers.Headers {
				names = append(names, h.Files...)
			}
			return names
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				names = append(names, namesOfFiles(v.Field(i), f.Name)...)
			}
		}
	case reflect.String:
		if strings.HasSuffix(field, "File") && v.String() != "" {
			names = append(names, v.String())
		}
	}
	return names
}
