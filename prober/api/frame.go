package api

import (
	"bytes"
	"fmt"

	"github.com/valyala/fastjson"
)

// openFrame begins to decode a frame of JSON into d, which it overwrites, and
// returns the frame's object: nil where there is none, as the frame is empty,
// the end marker [DONE], or an event named error. An error that the object
// reports is in d.
func openFrame(p *fastjson.Parser, event string, data []byte, d *Delta) (*fastjson.Value, error) {
	*d = Delta{Tokens: Unknown}
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, nil
	}
	if string(data) == "[DONE]" {
		d.Done = true
		return nil, nil
	}
	if event == "error" {
		d.Err = describeError(data)
		return nil, nil
	}
	v, err := parseJSON(p, data)
	if err != nil {
		return nil, err
	}
	if v.Type() != fastjson.TypeObject {
		if d.Err = errorIn(v); d.Err != nil {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: no JSON object: %s", ErrProtocol, bounded(data))
	}
	d.Err = errorIn(v)
	return v, nil
}

// eventType returns what kind of event a frame is: its member type, else the
// name that the framing gives it. Some gateways leave out one of the two.
func eventType(v *fastjson.Value, event string) []byte {
	if t := v.GetStringBytes("type"); len(t) > 0 {
		return t
	}
	return []byte(event)
}
