// Package xid knows what XIDs, the errors of NVIDIA's driver, mean.
package xid

import (
	_ "embed"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/asset"
)

// Class is how bad an XID is.
type Class string

// The classes, as the head of xids.yml describes them.
const (
	Fatal     Class = "fatal"
	Depends   Class = "depends"
	Contained Class = "contained"
	Program   Class = "program"
)

// Classes returns the closed set of classes.
func Classes() []Class { return []Class{Fatal, Depends, Contained, Program} }

// XID is a row of xids.yml, which describes it.
type XID struct {
	Number  uint64 `yaml:"xid"`
	Class   Class  `yaml:"class"`
	Name    string `yaml:"name"`    // the driver's
	Action  string `yaml:"action"`  // the immediate one, in the words of NVIDIA's catalogue
	Meaning string `yaml:"meaning"` // a phrase for the reader who is on call
}

//go:embed xids.yml
var file []byte

var all = asset.Once[[]XID]("xids.yml", file)

// All returns the XIDs that are known, by number. They are not to be changed.
func All() []XID { return all() }

// Meaning returns what an XID means, "" for one that is not known.
func Meaning(number uint64) string {
	for _, x := range all() {
		if x.Number == number {
			return x.Meaning
		}
	}
	return ""
}

// Pattern returns a regular expression for the numbers of a class.
func Pattern(class Class) string {
	var numbers []string
	for _, x := range all() {
		if x.Class == class {
			numbers = append(numbers, strconv.FormatUint(x.Number, 10))
		}
	}
	return strings.Join(numbers, "|")
}
