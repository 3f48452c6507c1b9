package api

import (
	"bytes"
	"slices"

	"github.com/valyala/fastjson"
)

// maxStreamed bounds how many items are remembered as streamed: those in progress
// and a few before them.
const maxStreamed = 16

// responseItems reads the items of a reply of Responses that come whole: some
// servers stream no deltas of a call of a tool, and OpenAI of some tools neither.
type responseItems struct {
	parts    parts // what the channels of Delta point to
	streamed []int // the places of items of which deltas came
	any      bool  // material came
}

// stream notes that a delta of an item came.
func (r *responseItems) stream(event *fastjson.Value) {
	r.any = true
	place := event.GetInt("output_index")
	if slices.Contains(r.streamed, place) {
		return
	}
	if len(r.streamed) == maxStreamed {
		r.streamed = slices.Delete(r.streamed, 0, 1)
	}
	r.streamed = append(r.streamed, place)
}

// begin reads the item of response.output_item.added. It is empty yet, but for
// the name of the tool that is called.
func (r *responseItems) begin(item *fastjson.Value, d *Delta) {
	if isCall(item) {
		d.Tool = item.GetStringBytes("name")
		r.any = r.any || len(d.Tool) > 0
	}
}

// end reads the item of response.output_item.done, of which there may have been
// deltas.
func (r *responseItems) end(event *fastjson.Value, d *Delta) {
	if item := event.Get("item"); item != nil && !slices.Contains(r.streamed, event.GetInt("output_index")) {
		r.readAll([]*fastjson.Value{item}, d)
	}
}

// readAll reads whole items.
func (r *responseItems) readAll(items []*fastjson.Value, d *Delta) {
	r.parts.reset()
	for _, item := range items {
		switch string(item.GetStringBytes("type")) {
		case "message":
			r.parts.add(item.Get("content"))
		case "reasoning":
			d.Summary = len(item.GetArray("summary")) > 0
			inner := parts{text: r.parts.reasoning}
			inner.add(item.Get("content"))
			inner.add(item.Get("summary"))
			r.parts.reasoning = append(inner.text, inner.reasoning...)
		default:
			if isCall(item) {
				r.parts.addWholeCall(item)
			}
		}
	}
	d.Text, d.Reasoning, d.Tool = r.parts.text, r.parts.reasoning, r.parts.tool
	r.any = r.any || d.HasToken()
}

// isCall reports whether an item is what the model wrote to call a tool, and not
// a message, reasoning, a list of tools or what a tool returned.
func isCall(item *fastjson.Value) bool {
	kind := item.GetStringBytes("type")
	return bytes.HasSuffix(kind, []byte("_call")) || string(kind) == "mcp_approval_request" || string(kind) == "program"
}

// addWholeCall adds what the model wrote for a tool, and the image that it made:
// which members have it depends on the tool.
func (p *parts) addWholeCall(item *fastjson.Value) {
	for _, name := range [...]string{"name", "arguments", "input", "code", "action", "operation", "queries", "result"} {
		switch v := item.Get(name); {
		case v == nil || v.Type() == fastjson.TypeNull:
		case v.Type() == fastjson.TypeString:
			p.tool = append(p.tool, v.GetStringBytes()...)
		default:
			p.tool = v.MarshalTo(p.tool)
		}
	}
}
