package otlp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	promconfig "github.com/prometheus/common/config"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

const (
	// exportTimeout limits one request to the receiver.
	exportTimeout = 5 * time.Second
	// maxReply bounds the receiver's reply, in bytes.
	maxReply = 64 << 10
	// maxReceiverText bounds what is quoted of the receiver, in bytes.
	maxReceiverText = 512
)

// receiver takes one signal over OTLP/HTTP.
type receiver struct {
	client  *http.Client
	target  string
	headers map[string]promconfig.Secret
	secrets *safetext.Secrets // in the headers
	failing bool              // it did not take the last request; used by log only
}

// newReceiver returns the receiver of a signal: at path, as in /v1/traces, under the base
// URL, by the rule of the OTLP/HTTP specification, unless the URL ends in it. It is nil without a URL.
func newReceiver(endpoint config.URL, path string, headers map[string]promconfig.Secret) *receiver {
	target := endpoint.URL
	if target == nil {
		return nil
	}
	if !strings.HasSuffix(strings.TrimRight(target.Path, "/"), path) {
		target = target.JoinPath(path)
	}
	secrets := safetext.NewSecrets()
	for _, value := range headers {
		secrets = secrets.With(string(value)).With(safetext.InHeader(string(value))...)
	}
	return &receiver{
		client: foreign.NewClient(foreign.Limits{Time: exportTimeout, Bytes: maxReply}),
		target: target.String(), headers: headers, secrets: secrets,
	}
}

// rejectedError is that of a receiver which took a request in part.
type rejectedError struct {
	number  uint64 // of spans or points that it rejected
	message string // of the receiver
}

func (e *rejectedError) Error() string {
	text := fmt.Sprintf("the receiver rejects %d", e.number)
	if e.message != "" {
		text += ": " + e.message
	}
	return text
}

// send posts the compressed body of one request; see bodyOf. The receiver has taken it
// unless there is an error, which is a *rejectedError where it took a part.
func (r *receiver) send(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.target, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL of the receiver is unusable")
	}
	for name, value := range r.headers {
		req.Header.Set(name, string(value))
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")
	resp, err := r.client.Do(req)
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

// log logs that the receiver fails or is back, once for each, with a count. Errors may quote the receiver
// at length, and with it the headers that it got.
func (r *receiver) log(logger *slog.Logger, what string, err error, counted string, n uint64) {
	switch {
	case err != nil && !r.failing:
		logger.Warn(what+" failing", "err", r.secrets.Line(err.Error(), maxReceiverText))
	case err == nil && r.failing:
		logger.Info(what+" recovered", counted, n)
	}
	r.failing = err != nil
}

func bodyOf(m proto.Message) ([]byte, error) {
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
	e := &rejectedError{}
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
	case e.number > 0:
		return e
	}
	return nil
}

func (e *rejectedError) readJSON(reply []byte) error {
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
			e.number = uint64(n)
		}
	}
	e.message = r.PartialSuccess.ErrorMessage
	return nil
}

// readProto reads an ExportTraceServiceResponse or an ExportMetricsServiceResponse: its
// field 1 has the number in field 1 and the text in field 2. The package of their types needs gRPC.
func (e *rejectedError) readProto(reply []byte) error {
	return eachField(reply, func(number protowire.Number, _, value []byte) error {
		if number != 1 {
			return nil
		}
		partial, _ := protowire.ConsumeBytes(value)
		return eachField(partial, func(number protowire.Number, _, value []byte) error {
			switch n, size := protowire.ConsumeVarint(value); {
			case number == 1 && size > 0 && int64(n) > 0:
				e.number = n
			case number == 2:
				text, _ := protowire.ConsumeBytes(value)
				e.message = string(text)
			}
			return nil
		})
	})
}

// eachField calls use for each field of a message: with all of it, and with its value.
func eachField(message []byte, use func(number protowire.Number, field, value []byte) error) error {
	for len(message) > 0 {
		number, _, size := protowire.ConsumeField(message)
		if size < 0 {
			return protowire.ParseError(size)
		}
		_, _, tag := protowire.ConsumeTag(message)
		if err := use(number, message[:size], message[tag:size]); err != nil {
			return err
		}
		message = message[size:]
	}
	return nil
}
