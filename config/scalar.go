package config

import (
	"math"
	"reflect"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

// got describes what stands where something else is wanted. It does not repeat
// it: a URL with a password may stand anywhere.
func got(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	default:
		return "a plain value"
	}
}

// gotValue is got for values that are shown, since they are no secrets.
func (d *decoder) gotValue(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || d.secret {
		return got(n)
	}
	return quote(n.Value)
}

// text returns the text of a plain value as it is written, of whatever type:
// a label value 1.10 stays "1.10".
func (d *decoder) text(n *yaml.Node, p path) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		d.errorf(p, "want a text, got %s", got(n))
		return "", false
	}
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		return n.Value, true
	}
	d.errorf(p, "want a text without a YAML tag")
	return "", false
}

// duration decodes a time span. None of the file's may be 0.
func (d *decoder) duration(n *yaml.Node, p path, out *model.Duration) {
	if n.Kind != yaml.ScalarNode {
		d.errorf(p, "want a duration like 30s, got %s", d.gotValue(n))
		return
	}
	v, err := model.ParseDuration(n.Value)
	switch {
	case err != nil:
		d.errorf(p, "want a duration like 30s, got %s", d.gotValue(n))
	case v <= 0:
		d.errorf(p, "want a duration above 0")
	default:
		*out = v
	}
}

func (d *decoder) number(n *yaml.Node, p path, v reflect.Value) {
	var i int
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || n.Decode(&i) != nil {
		d.errorf(p, "want a whole number, got %s", d.gotValue(n))
		return
	}
	v.SetInt(int64(i))
}

// decimal decodes a number with or without a fraction.
func (d *decoder) decimal(n *yaml.Node, p path, v reflect.Value) {
	var f float64
	isNumber := n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float")
	if !isNumber || n.Decode(&f) != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		d.errorf(p, "want a finite number, got %s", d.gotValue(n))
		return
	}
	v.SetFloat(f)
}

func (d *decoder) boolean(n *yaml.Node, p path, v reflect.Value) {
	var b bool
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" || n.Decode(&b) != nil {
		d.errorf(p, "want true or false, got %s", d.gotValue(n))
		return
	}
	v.SetBool(b)
}

// free decodes what has no fixed type into what JSON can hold.
func (d *decoder) free(n *yaml.Node, p path, v reflect.Value) {
	var out reflect.Value
	switch n.Kind {
	case yaml.MappingNode:
		out = reflect.New(reflect.TypeFor[map[string]any]()).Elem()
		d.mapping(n, p, out)
	case yaml.SequenceNode:
		out = reflect.New(reflect.TypeFor[[]any]()).Elem()
		d.list(n, p, out)
	default:
		var x any
		if err := n.Decode(&x); err != nil || !isJSON(x) {
			d.errorf(p, "want a text, a finite number or a boolean; put a date in quotes")
			return
		}
		out = reflect.ValueOf(whole(x))
	}
	v.Set(out)
}

// whole turns a float without a fraction into an integer: JSON has one kind of
// number, and YAML prints 1.0 as 1. Large ones are printed with an exponent.
func whole(x any) any {
	f, ok := x.(float64)
	if !ok || f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		return x
	}
	return int(f)
}

// isJSON tells whether a plain value has a form in JSON.
func isJSON(x any) bool {
	switch x := x.(type) {
	case string, int, int64, uint64, bool:
		return true
	case float64:
		return !math.IsNaN(x) && !math.IsInf(x, 0)
	}
	return false
}
