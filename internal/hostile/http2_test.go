package hostile

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math"
	"math/big"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// frames is the server's side of a connection with HTTP/2, and the stream of the
// request that is attacked.
type frames struct {
	*http2.Framer
	conn   *conn
	stream uint32
	block  bytes.Buffer
	hpack  *hpack.Encoder
}

// certificate is that of all servers here; no client verifies it.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// onTLS does something once TLS is set up with HTTP/2.
func onTLS(name string, serve func(*frames)) Behaviour {
	return Behaviour{Name: "HTTP/2: " + name, Scheme: "https", HTTP2: true, serve: func(c *conn) {
		secure := tls.Server(c.Conn, &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{http2.NextProtoTLS}})
		if secure.Handshake() != nil {
			return
		}
		f := &frames{Framer: http2.NewFramer(secure, secure), conn: newConn(secure)}
		f.hpack = hpack.NewEncoder(&f.block)
		f.AllowIllegalWrites = true
		f.SetMaxReadFrameSize(1 << 20)
		serve(f)
	}}
}

// onStart does something once the client began, in place of the server's settings.
func onStart(name string, serve func(*frames)) Behaviour {
	return onTLS(name, func(f *frames) {
		if f.preface() {
			serve(f)
		}
	})
}

// onStream does something once a request was read. What the client sends further
// is read and dropped.
func onStream(name string, serve func(*frames)) Behaviour {
	return onStart(name, func(f *frames) {
		if f.WriteSettings() == nil && f.await() {
			go f.drain()
			serve(f)
		}
	})
}

// floods repeats some frames for ever, behind a beginning.
func floods(name string, begin, again func(*frames) error) Behaviour {
	return onStream(name, func(f *frames) {
		if begin != nil && begin(f) != nil {
			return
		}
		f.repeat(again)
	})
}

// once writes some frames, and then waits until the client leaves.
func once(name string, write func(*frames) error) Behaviour {
	return onStream(name, func(f *frames) {
		if write(f) == nil {
			<-f.conn.left
		}
	})
}

func (f *frames) preface() bool {
	_, err := io.ReadFull(f.conn.Conn, make([]byte, len(http2.ClientPreface)))
	return err == nil
}

// await reads until a request is complete.
func (f *frames) await() bool {
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return false
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() && f.WriteSettingsAck() != nil {
				return false
			}
		case *http2.HeadersFrame:
			f.stream = frame.StreamID
			if frame.StreamEnded() {
				return true
			}
		case *http2.DataFrame:
			_ = f.WriteWindowUpdate(0, uint32(max(1, frame.Length)))
			if frame.StreamEnded() {
				return true
			}
		}
	}
}

// drain reads until the client leaves.
func (f *frames) drain() {
	defer close(f.conn.left)
	_, _ = io.Copy(io.Discard, f.conn.Conn)
}

// repeat writes frames again and again until the client leaves.
func (f *frames) repeat(write func(*frames) error) {
	for {
		for range 100 {
			if write(f) != nil {
				return
			}
		}
		time.Sleep(pause)
	}
}

// fields returns a block of headers.
func (f *frames) fields(pairs ...string) []byte {
	f.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = f.hpack.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return bytes.Clone(f.block.Bytes())
}

func (f *frames) headers(last bool, pairs ...string) error {
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: f.fields(pairs...), EndHeaders: true, EndStream: last})
}

// begin begins a good reply.
func (f *frames) begin() error {
	return f.headers(false, ":status", "200", "content-type", "text/event-stream")
}

func (f *frames) data(text string) error { return f.WriteData(f.stream, false, []byte(text)) }

// halfway is a reply that has begun to bring tokens.
func (f *frames) halfway() error {
	if err := f.begin(); err != nil {
		return err
	}
	return f.data(role + token)
}

func (f *frames) raw(kind http2.FrameType, flags http2.Flags, stream uint32, payload []byte) error {
	return f.WriteRawFrame(kind, flags, stream, payload)
}

// http2Behaviours lists what a server of HTTP/2 can do.
func http2Behaviours() []Behaviour {
	var all []Behaviour
	for _, list := range [][]Behaviour{handshakes(), frameFloods(), headerBlocks(), flowControl(), streamStates()} {
		all = append(all, list...)
	}
	return all
}

func handshakes() []Behaviour {
	settings := func(name string, s ...http2.Setting) Behaviour {
		return onStart(name, func(f *frames) {
			if f.WriteSettings(s...) == nil {
				f.drain()
			}
		})
	}
	return []Behaviour{
		onTLS("closes after the handshake", func(*frames) {}),
		onTLS("never reads", func(f *frames) { time.Sleep(10 * time.Second) }),
		onStart("no settings", (*frames).drain),
		onStart("HTTP/1.1 on it", func(f *frames) { f.conn.say(answer() + end); f.drain() }),
		onStart("noise", func(f *frames) { f.conn.flood(strings.Repeat("\xff", 1<<10)) }),
		settings("window of 0 for ever", http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}),
		settings("window past its limit", http2.Setting{ID: http2.SettingInitialWindowSize, Val: math.MaxUint32}),
		settings("no streams", http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0}),
		settings("frames of one byte", http2.Setting{ID: http2.SettingMaxFrameSize, Val: 1}),
		settings("huge table", http2.Setting{ID: http2.SettingHeaderTableSize, Val: math.MaxUint32}),
		settings("headers of one byte", http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: 1}),
	}
}

func frameFloods() []Behaviour {
	settings := func(f *frames) error {
		return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	}
	ping := func(f *frames) error { return f.WritePing(false, [8]byte{1}) }
	return []Behaviour{
		floods("flood of SETTINGS", nil, settings),
		floods("flood of acknowledged SETTINGS", nil, func(f *frames) error { return f.WriteSettingsAck() }),
		floods("flood of PING", nil, ping),
		floods("flood of PING in a reply", (*frames).halfway, ping),
		floods("flood of acknowledged PING", nil, func(f *frames) error { return f.WritePing(true, [8]byte{1}) }),
		onStart("flood of PING that reads nothing", func(f *frames) {
			_ = f.WriteSettings()
			f.repeat(ping)
		}),
		onStart("flood of SETTINGS that reads nothing", func(f *frames) { f.repeat(settings) }),
		floods("flood of PRIORITY", nil, func(f *frames) error {
			return f.WritePriority(f.stream, http2.PriorityParam{StreamDep: 1, Weight: 3})
		}),
		floods("flood of WINDOW_UPDATE", nil, func(f *frames) error { return f.WriteWindowUpdate(0, 1) }),
		floods("flood of unknown frames", nil, func(f *frames) error { return f.raw(0xee, 0xff, f.stream, make([]byte, 64)) }),
		floods("flood of GOAWAY", nil, func(f *frames) error { return f.WriteGoAway(math.MaxInt32, http2.ErrCodeNo, []byte("soon")) }),
		floods("flood of RST_STREAM", nil, func(f *frames) error { return f.WriteRSTStream(f.stream, http2.ErrCodeCancel) }),
		floods("flood of PUSH_PROMISE", nil, func(f *frames) error {
			return f.WritePushPromise(http2.PushPromiseParam{StreamID: f.stream, PromiseID: 2, EndHeaders: true, BlockFragment: f.fields(":method", "GET", ":path", "/", ":scheme", "https", ":authority", "h")})
		}),
		floods("flood of empty DATA", (*frames).begin, func(f *frames) error { return f.data("") }),
		floods("flood of empty DATA before the headers", nil, func(f *frames) error { return f.data("") }),
		floods("flood of padding", (*frames).begin, func(f *frames) error {
			return f.WriteDataPadded(f.stream, false, nil, make([]byte, 255))
		}),
		floods("flood of 103", nil, func(f *frames) error { return f.headers(false, ":status", "103", "link", "</a>") }),
		floods("flood of 100", nil, func(f *frames) error { return f.headers(false, ":status", "100") }),
		floods("flood of trailers", (*frames).halfway, func(f *frames) error { return f.headers(false, "x-a", "b") }),
		floods("comments for ever", (*frames).begin, func(f *frames) error { return f.data(": ping\n\n") }),
	}
}

func headerBlocks() []Behaviour {
	bad := func(name string, pairs ...string) Behaviour {
		return once(name, func(f *frames) error { return f.headers(false, pairs...) })
	}
	unfinished := func(f *frames) error {
		return f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: f.fields(":status", "200")})
	}
	return []Behaviour{
		floods("flood of CONTINUATION", unfinished, func(f *frames) error {
			return f.WriteContinuation(f.stream, false, f.fields("x-a", strings.Repeat("b", 1000)))
		}),
		floods("flood of empty CONTINUATION", unfinished, func(f *frames) error { return f.WriteContinuation(f.stream, false, nil) }),
		once("headers without an end", unfinished),
		once("headers cut by another frame", func(f *frames) error {
			if err := unfinished(f); err != nil {
				return err
			}
			return f.data(role)
		}),
		once("bomb of HPACK", func(f *frames) error {
			block := f.fields(":status", "200", "x-a", strings.Repeat("b", 4000))
			block = append(block, bytes.Repeat([]byte{0x80 | 62}, 15_000)...) // the newest entry of the table, again and again
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: block, EndHeaders: true})
		}),
		once("garbage of HPACK", func(f *frames) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: bytes.Repeat([]byte{0xff}, 100), EndHeaders: true})
		}),
		once("table of HPACK that grows past its limit", func(f *frames) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: f.stream, BlockFragment: []byte{0x3f, 0xff, 0xff, 0xff, 0xff, 0x0f}, EndHeaders: true})
		}),
		once("list of headers too long", func(f *frames) error {
			if err := unfinished(f); err != nil {
				return err
			}
			for i := range 5000 {
				if err := f.WriteContinuation(f.stream, i == 4999, f.fields(fmt.Sprint("x-", i), strings.Repeat("b", 200))); err != nil {
					return err
				}
			}
			return nil
		}),
		bad("no status", "content-type", "text/event-stream"),
		bad("status that is none", ":status", "abc", "content-type", "text/event-stream"),
		bad("two statuses", ":status", "200", ":status", "500"),
		bad("status of 101", ":status", "101"),
		bad("pseudo header of a request", ":status", "200", ":path", "/"),
		bad("pseudo header at the end", "content-type", "text/event-stream", ":status", "200"),
		bad("capitals in a name", ":status", "200", "Content-Type", "text/event-stream"),
		bad("control characters in a value", ":status", "200", "content-type", "a\x00\x1b[31m\r\nx: y"),
		bad("connection header", ":status", "200", "connection", "close", "transfer-encoding", "chunked", "content-type", "text/plain"),
	}
}

func flowControl() []Behaviour {
	return []Behaviour{
		once("window overflow of the stream", func(f *frames) error {
			for range 3 {
				if err := f.WriteWindowUpdate(f.stream, math.MaxInt32); err != nil {
					return err
				}
			}
			return nil
		}),
		once("window overflow of the stream in mid-answer", func(f *frames) error {
			if err := f.halfway(); err != nil {
				return err
			}
			return f.WriteWindowUpdate(f.stream, math.MaxInt32)
		}),
		once("window overflow of the connection", func(f *frames) error {
			for range 3 {
				if err := f.WriteWindowUpdate(0, math.MaxInt32); err != nil {
					return err
				}
			}
			return nil
		}),
		once("window update of 0", func(f *frames) error { return f.WriteWindowUpdate(f.stream, 0) }),
		once("huge frame", func(f *frames) error { return f.raw(http2.FrameData, 0, f.stream, make([]byte, 1<<24-1)) }),
		once("more padding than payload", func(f *frames) error {
			return f.raw(http2.FrameData, http2.FlagDataPadded, f.stream, []byte{200, 1, 2, 3})
		}),
		onStream("DATA past every window", func(f *frames) {
			if f.begin() != nil {
				return
			}
			part := bytes.Repeat([]byte("a"), 16<<10)
			for f.WriteData(f.stream, false, part) == nil {
				time.Sleep(time.Millisecond)
			}
		}),
	}
}

func streamStates() []Behaviour {
	return []Behaviour{
		once("idle for ever", func(*frames) error { return nil }),
		once("idle after the headers", (*frames).begin),
		once("idle after a token", (*frames).halfway),
		once("early END_STREAM", func(f *frames) error {
			return f.headers(true, ":status", "200", "content-type", "text/event-stream")
		}),
		once("END_STREAM in mid-answer", func(f *frames) error {
			if err := f.halfway(); err != nil {
				return err
			}
			return f.WriteData(f.stream, true, nil)
		}),
		once("DATA before the headers", func(f *frames) error { return f.data(role) }),
		once("DATA on stream 0", func(f *frames) error { return f.raw(http2.FrameData, 0, 0, []byte(role)) }),
		once("headers on stream 0", func(f *frames) error {
			return f.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 0, f.fields(":status", "200"))
		}),
		once("headers on a stream of nobody", func(f *frames) error {
			return f.raw(http2.FrameHeaders, http2.FlagHeadersEndHeaders, f.stream+2, f.fields(":status", "200"))
		}),
		once("settings on a stream", func(f *frames) error { return f.raw(http2.FrameSettings, 0, f.stream, nil) }),
		once("settings of 5 bytes", func(f *frames) error { return f.raw(http2.FrameSettings, 0, 0, make([]byte, 5)) }),
		once("ping of 7 bytes", func(f *frames) error { return f.raw(http2.FramePing, 0, 0, make([]byte, 7)) }),
		once("CONTINUATION without headers", func(f *frames) error { return f.raw(http2.FrameContinuation, 0, f.stream, nil) }),
		once("GOAWAY without an error", func(f *frames) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }),
		once("GOAWAY with an error", func(f *frames) error {
			return f.WriteGoAway(0, http2.ErrCodeEnhanceYourCalm, []byte("\x1b[31m\x00 too many pings"))
		}),
		once("GOAWAY in mid-answer", func(f *frames) error {
			if err := f.halfway(); err != nil {
				return err
			}
			return f.WriteGoAway(f.stream, http2.ErrCodeNo, nil)
		}),
		once("RST_STREAM", func(f *frames) error { return f.WriteRSTStream(f.stream, http2.ErrCodeInternal) }),
		once("RST_STREAM that refuses", func(f *frames) error { return f.WriteRSTStream(f.stream, http2.ErrCodeRefusedStream) }),
		once("RST_STREAM that wants HTTP/1.1", func(f *frames) error { return f.WriteRSTStream(f.stream, http2.ErrCodeHTTP11Required) }),
		once("RST_STREAM in mid-answer", func(f *frames) error {
			if err := f.halfway(); err != nil {
				return err
			}
			return f.WriteRSTStream(f.stream, http2.ErrCodeNo)
		}),
		onStream("closes in mid-answer", func(f *frames) { _ = f.halfway() }),
		onStream("resets in mid-answer", func(f *frames) {
			_ = f.halfway()
			f.conn.reset()
		}),
	}
}
