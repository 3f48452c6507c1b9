package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/safetext"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
)

const (
	// exportTimeout limits one request to the receiver.
	exportTimeout = 5 * time.Second
	// maxReply bounds the receiver's reply, in bytes.
	maxReply = 64 << 10
	// maxReceiverText bounds what is quoted of the receiver, in bytes.
	maxReceiverText = 512
)

// Receiver takes one signal over OTLP/HTTP.
type Receiver struct {
	// Client sends the requests. It is set for tests.
	Client  *http.Client
	target  string
	headers map[string]string
	secrets *safetext.Secrets // in the headers
}

// NewReceiver returns the receiver of a signal: at path, as in /v1/traces, under the base
// URL endpoint, by the rule of the OTLP/HTTP specification. The values of headers may be
// secrets. The error is an endpoint that cannot be used; it does not repeat it.
func NewReceiver(endpoint, path string, headers map[string]string) (*Receiver, error) {
	target, err := signalURL(endpoint, path)
	if err != nil {
		return nil, err
	}
	secrets := safetext.NewSecrets()
	for _, value := range headers {
		secrets = secrets.With(value).With(safetext.InHeader(value)...)
	}
	return &Receiver{
		Client: foreign.NewClient(foreign.Limits{Time: exportTimeout, Bytes: maxReply}),
		target: target, headers: headers, secrets: secrets,
	}, nil
}

// signalURL returns where a signal is posted: under the base URL at path, unless it ends
// in that.
func signalURL(endpoint, path string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.RawQuery != "" {
		return "", errors.New("want a URL like http://host:4318, without user and query")
	}
	if !strings.HasSuffix(strings.TrimRight(u.Path, "/"), path) {
		u = u.JoinPath(path)
	}
	return u.String(), nil
}

// RejectedError is that of a receiver which took a request in part.
type RejectedError struct {
	// Number is how many spans or points it rejected.
	Number  uint64
	message string // of the receiver
}

func (e *RejectedError) Error() string {
	text := fmt.Sprintf("the receiver rejects %d", e.Number)
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

// Send posts the compressed body of one request; see Body. The receiver has taken it
// unless there is an error, which is a *RejectedError where it took a part.
func (r *Receiver) Send(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.target, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the receiver is unusable")
	}
	for name, value := range r.headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := r.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		says, _ := foreign.Start(resp.Body, maxReceiverText)
		return fmt.Errorf("the receiver answers %s %s", resp.Status, says)
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return fmt.Errorf("the receiver answers with content encoding %.32q, which was not asked for", encoding)
	}
	reply, err := foreign.ReadAll(resp.Body, maxReply)
	if err != nil {
		return fmt.Errorf("read the receiver's reply: %w", err)
	}
	return rejection(reply, resp.Header.Get("Content-Type"))
}

// Line returns the text of an error on one line, which may quote the receiver at length
// and with it the headers that it got.
func (r *Receiver) Line(err error) string { return r.secrets.Line(err.Error(), maxReceiverText) }

// Body returns the compressed body of a request with a message.
func Body(m proto.Message) ([]byte, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	if _, err := w.Write(data); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress: %w", err)
	}
	return body.Bytes(), nil
}

// rejection returns what a reply says of a part that was not taken; nil is nothing. Other
// forms than those of OTLP say nothing.
func rejection(reply []byte, contentType string) error {
	e := &RejectedError{}
	var err error
	switch media, _, _ := mime.ParseMediaType(contentType); media {
	case "application/json":
		err = e.readJSON(reply)
	case "application/x-protobuf":
		err = e.readProto(reply)
	default:
		if e.readProto(reply) != nil {
			return nil
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("not an OTLP reply: %w", err)
	case e.Number > 0:
		return e
	}
	return nil
}

// readJSON reads a reply as JSON.
func (e *RejectedError) readJSON(reply []byte) error {
	var r struct {
		PartialSuccess struct {
			RejectedSpans, RejectedDataPoints json.Number
			ErrorMessage                      string
		}
	}
	if len(reply) == 0 {
		return nil
	}
	if err := json.Unmarshal(reply, &r); err != nil {
		return err
	}
	for _, number := range []json.Number{r.PartialSuccess.RejectedSpans, r.PartialSuccess.RejectedDataPoints} {
		if n, err := number.Int64(); err == nil && n > 0 {
			e.Number = uint64(n)
		}
	}
	e.message = r.PartialSuccess.ErrorMessage
	return nil
}

// readProto reads an ExportTraceServiceResponse or an ExportMetricsServiceResponse: its
// field 1 has the number in field 1 and the text in field 2.
func (e *RejectedError) readProto(reply []byte) error {
	return eachField(reply, func(field protowire.Number, partial []byte, _ uint64) error {
		if field != 1 {
			return nil
		}
		return eachField(partial, func(field protowire.Number, text []byte, n uint64) error {
			switch {
			case field == 1 && int64(n) > 0:
				e.Number = n
			case field == 2:
				e.message = string(text)
			}
			return nil
		})
	})
}

// eachField calls f with the bytes or the number of each field of a message.
func eachField(message []byte, f func(field protowire.Number, text []byte, n uint64) error) error {
	for len(message) > 0 {
		field, kind, tag := protowire.ConsumeTag(message)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		value := message[tag:]
		size := protowire.ConsumeFieldValue(field, kind, value)
		if size < 0 {
			return protowire.ParseError(size)
		}
		var text []byte
		var n uint64
		switch kind {
		case protowire.BytesType:
			text, _ = protowire.ConsumeBytes(value)
		case protowire.VarintType:
			n, _ = protowire.ConsumeVarint(value)
		}
		if err := f(field, text, n); err != nil {
			return err
		}
		message = value[size:]
	}
	return nil
}

// upload is the client of otlptrace.Exporter, which makes the spans of OpenTelemetry's SDK
// into messages.
type upload struct{ *Receiver }

// UploadTraces sends spans. TracesData has the form of ExportTraceServiceRequest.
func (u upload) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := Body(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	return u.Send(ctx, body)
}

// Start does nothing.
func (u upload) Start(context.Context) error { return nil }

// Stop does nothing.
func (u upload) Stop(context.Context) error { return nil }
