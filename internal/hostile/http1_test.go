package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"time"
)

// Parts of replies.
const (
	eventStream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	toTheEnd    = eventStream + "Connection: close\r\n\r\n"
	chunked     = eventStream + "Transfer-Encoding: chunked\r\n\r\n"
	object      = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
	role        = `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	token       = `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}` + "\n\n"
	thought     = `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"reasoning_content":"hm "},"finish_reason":null}]}` + "\n\n"
	finish      = `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}` + "\n\n"
	end         = "data: [DONE]\n\n"
)

// usage is an event with a count of prompt tokens as the server writes it.
func usage(prompt string) string {
	return `data: {"id":"x","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":` + prompt +
		`,"completion_tokens":8,"total_tokens":` + prompt + `}}` + "\n\n"
}

// answer is a complete reply but for its end marker.
func answer() string { return toTheEnd + role + strings.Repeat(token, 8) + finish }

// http1 lists what a server of HTTP/1.1 can do.
func http1() []Behaviour {
	var all []Behaviour
	for _, list := range [][]Behaviour{connections(), heads(), statuses(), bodies(), streams(), counts()} {
		all = append(all, list...)
	}
	return all
}

// onAccept does something before the request is read, over plain TCP.
func onAccept(name string, serve func(*conn)) Behaviour {
	return Behaviour{Name: name, Scheme: "http", serve: serve}
}

// onRequest does something once a request was read.
func onRequest(name string, serve func(*conn)) Behaviour {
	return onAccept(name, func(c *conn) {
		if c.request() {
			serve(c)
		}
	})
}

// reply answers each request with a text and closes the connection.
func reply(name, text string) Behaviour {
	return onRequest(name, func(c *conn) { c.say(text) })
}

// floodAfter begins a reply and then repeats something for ever.
func floodAfter(name, begin, again string) Behaviour {
	again = strings.Repeat(again, max(1, (16<<10)/len(again)))
	return onRequest(name, func(c *conn) {
		c.say(begin)
		c.flood(again)
	})
}

// hangAfter begins a reply and never goes on.
func hangAfter(name, begin string) Behaviour {
	return onRequest(name, func(c *conn) {
		c.say(begin)
		c.wait()
	})
}

func connections() []Behaviour {
	plainOnTLS := onAccept("plain HTTP on a TLS port", func(c *conn) {
		c.say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
		c.wait()
	})
	plainOnTLS.Scheme = "https"
	silentTLS := onAccept("TLS port that never answers", (*conn).wait)
	silentTLS.Scheme = "https"
	early := onAccept("reply before the request", func(c *conn) {
		c.say(answer() + end)
		c.wait()
	})
	early.Answers = true // where the request was already on its way
	return []Behaviour{
		onAccept("never answers", (*conn).wait),
		onAccept("closes after accept", func(*conn) {}),
		onAccept("resets after accept", (*conn).reset),
		onAccept("never reads", func(c *conn) { c.flood("HTTP/1.1 100 Continue\r\n\r\n") }),
		onAccept("TLS on a plain port", func(c *conn) {
			c.say("\x15\x03\x01\x00\x02\x02\x16")
			c.wait()
		}),
		onAccept("noise", func(c *conn) { c.flood(strings.Repeat("\x00\x01\xff\x1b[2J", 1<<10)) }),
		onAccept("closes after the request", func(c *conn) { c.request() }),
		onRequest("one byte in 10 s", func(c *conn) { c.drip(answer()+end, 10*time.Second) }),
		onRequest("one byte in 100 ms", func(c *conn) { c.drip(answer()+end, 100*time.Millisecond) }),
		onAccept("413 before the body is read", func(c *conn) {
			c.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			c.reset()
		}),
		onRequest("half a reply, then RST", func(c *conn) {
			c.say(toTheEnd + role + token)
			c.reset()
		}),
		reply("half a reply, then FIN", toTheEnd+role+token),
		plainOnTLS, silentTLS, early,
	}
}

func heads() []Behaviour {
	ok := "HTTP/1.1 200 OK\r\n"
	all := []Behaviour{
		floodAfter("endless headers", ok, "X-A: b\r\n"),
		floodAfter("endless cookies", ok, "Set-Cookie: a=b; Path=/\r\n"),
		floodAfter("endless header", ok+"X-A: ", "a"),
		floodAfter("endless name of a header", ok, "a"),
		floodAfter("endless folded header", ok+"X-A: b\r\n", " c\r\n"),
		floodAfter("endless status line", "HTTP/1.1 200 ", "a"),
		floodAfter("endless line before the reply", "", "\r\n"),
		hangAfter("head without an end", ok+"Content-Type: text/event-stream\r\n"),
		reply("negative Content-Length", eventStream+"Content-Length: -1\r\n\r\n"+role+token),
		reply("garbage Content-Length", eventStream+"Content-Length: 1e3\r\n\r\n"+role+token),
		reply("huge Content-Length", eventStream+"Content-Length: 9223372036854775807\r\n\r\n"+role+token),
		reply("Content-Length past int64", eventStream+"Content-Length: 99999999999999999999\r\n\r\n"+role+token),
		reply("two Content-Lengths", eventStream+"Content-Length: 10\r\nContent-Length: 20\r\n\r\n"+role+token),
		reply("two codings", eventStream+"Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"),
		reply("NUL in a header", ok+"X-A: \x00\x01\x7f\r\nContent-Type: text/event-stream\r\n\r\n"),
		reply("control characters in the content type", ok+"Content-Type: a\x1b[31m/b\r\nConnection: close\r\n\r\n"+role),
		reply("no colon in a header", ok+"nothing\r\n\r\n"),
		reply("another protocol", "SSH-2.0-OpenSSH_9.9\r\n"),
		reply("HTTP/0.9", "<html>it works</html>\n"),
		reply("HTTP/9.9", "HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n"),
		reply("status without a reason", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"),
	}
	for _, status := range []string{"100 Continue", "102 Processing", "103 Early Hints", "199 Odd"} {
		all = append(all, floodAfter("flood of "+status[:3], "", "HTTP/1.1 "+status+"\r\nLink: </a>; rel=preload\r\n\r\n"))
	}
	return all
}

func statuses() []Behaviour {
	status := func(line, more string) Behaviour {
		return reply("status "+line, "HTTP/1.1 "+line+"\r\n"+more+"Connection: close\r\n\r\n"+`{"error":{"message":"no \u001b[31m\u0000","code":"x"}}`)
	}
	all := []Behaviour{
		hangAfter("status 101, then silence", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"),
		floodAfter("status 101, then a flood", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", role),
		floodAfter("status 500 with an endless body", "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", "a"),
		hangAfter("status 500 with a body that hangs", "HTTP/1.1 500 No\r\nContent-Length: 100\r\n\r\n{"),
		status("301 Loop", "Location: /v1/chat/completions\r\n"),
		status("307 File", "Location: file:///etc/passwd\r\n"),
		status("308 Far", "Location: http://169.254.169.254/latest/meta-data/\r\n"),
		status("302 Control", "Location: http://\x1b[31m\r\n"),
		status("429 Later", "Retry-After: 99999999999999999999\r\n"),
		status("503 Sooner", "Retry-After: -5\r\n"),
	}
	for _, line := range []string{"204 None", "206 Part", "304 Same", "400 Bad", "401 Who", "403 No", "404 Where", "418 Teapot", "529 Busy", "599 Odd", "999 Odd", "000 Odd", "abc Odd", "20 Odd"} {
		all = append(all, status(line, ""))
	}
	return all
}

func bodies() []Behaviour {
	gz := strings.Replace(toTheEnd, "Connection", "Content-Encoding: gzip\r\nConnection", 1)
	return []Behaviour{
		floodAfter("endless chunk extensions", chunked+"5;", "a=b;"),
		floodAfter("a chunk extension for each byte", chunked, "1;"+strings.Repeat("a", 100)+"\r\n:\r\n"),
		floodAfter("endless trailers", chunked+"0\r\n", "X-A: b\r\n"),
		floodAfter("endless size of a chunk", chunked, "0"),
		reply("huge chunk", chunked+"ffffffffffffffff\r\n"+role),
		hangAfter("chunk of 2^62 bytes", chunked+"3fffffffffffffff\r\n"+role),
		reply("negative chunk", chunked+"-5\r\nabcde\r\n0\r\n\r\n"),
		reply("garbage for a chunk", chunked+"zz\r\nabcde\r\n0\r\n\r\n"),
		reply("chunk without an end", chunked+"5\r\nabcdefgh"),
		floodAfter("endless body", toTheEnd, strings.Repeat("a", 99)+"\n"),
		floodAfter("endless line", toTheEnd+"data: ", "a"),
		floodAfter("endless blanks", toTheEnd, " "),
		floodAfter("endless lines without a name", toTheEnd, "\n"),
		floodAfter("endless names of events", toTheEnd, "event: "+strings.Repeat("a", 1000)+"\n"),
		floodAfter("endless string in JSON", object+`{"error":"`, `\u0000`),
		floodAfter("endless array in JSON", object+`{"data":[`, "{},"),
		reply("line of 8 MiB", toTheEnd+"data: "+strings.Repeat("a", 8<<20)+"\n\n"),
		reply("event of 8 MiB in lines", toTheEnd+strings.Repeat("data: "+strings.Repeat("a", 1<<10)+"\n", 8<<10)+"\n"),
		reply("string of 7 MiB in JSON", toTheEnd+`data: {"choices":[{"index":0,"delta":{"content":"`+strings.Repeat(`\u0001`, 7<<20/6)+"\"}}]}\n\n"),
		reply("100,000 values of JSON", toTheEnd+`data: {"choices":[{"index":0,"delta":{}}`+strings.Repeat(`,{"index":1}`, 100_000)+"]}\n\n"),
		reply("100,000 keys of JSON", toTheEnd+"data: {"+strings.Repeat(`"a":1,`, 100_000)+"\"b\":2}\n\n"),
		reply("a million brackets", toTheEnd+"data: "+strings.Repeat("[", 1_000_000)+"\n\n"),
		reply("deep JSON", toTheEnd+"data: "+strings.Repeat(`{"choices":[`, 100_000)+strings.Repeat("]}", 100_000)+"\n\n"),
		reply("deep JSON as an object", object+strings.Repeat(`{"error":`, 100_000)+"1"+strings.Repeat("}", 100_000)),
		reply("gzip bomb in one line", gz+bomb("data: ", "a")),
		reply("gzip bomb in events", gz+bomb("", role)),
		reply("gzip that is none", gz+role+token+finish+end),
		reply("unknown coding", strings.Replace(toTheEnd, "Connection", "Content-Encoding: br\r\nConnection", 1)+role),
		reply("page of HTML", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<script>alert(1)</script>"),
		reply("nothing", toTheEnd),
	}
}

// bomb returns 100 MiB of a text behind a beginning, compressed.
func bomb(begin, again string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	part := []byte(strings.Repeat(again, (1<<20)/len(again)))
	_, _ = z.Write([]byte(begin))
	for range 100 {
		_, _ = z.Write(part)
	}
	_ = z.Close()
	return b.String()
}

func streams() []Behaviour {
	all := []Behaviour{
		reply("a million events", toTheEnd+strings.Repeat("data: {}\n\n", 1_000_000)),
		reply("a million comments", toTheEnd+strings.Repeat(":\n\n", 1_000_000)),
		floodAfter("comments for ever", toTheEnd, ": ping\n\n"),
		floodAfter("empty events for ever", toTheEnd, "data:\n\n"),
		floodAfter("no token for ever", toTheEnd, role),
		floodAfter("tokens for ever", toTheEnd+role, token),
		floodAfter("thoughts for ever", toTheEnd+role, thought),
		hangAfter("stall after the first token", toTheEnd+role+token),
		hangAfter("stall before the first token", toTheEnd+role),
		reply("NUL everywhere", toTheEnd+strings.ReplaceAll(role+token+finish, "{", "{\x00")+end),
		reply("control characters in an error", toTheEnd+`data: {"error":{"message":"a\u001b[31m\u0000\u2028\u202e\r\n level=error msg=forged","code":"\u0007"}}`+"\n\n"),
		reply("raw control characters in an error", toTheEnd+"data: {\"error\":{\"message\":\"a\x1b[31m\x00\x07\",\"code\":\"\x07\"}}\n\n"),
		reply("broken UTF-8", toTheEnd+strings.ReplaceAll(token, "word", "\xff\xfe\xc0\x80")),
		reply("no JSON", toTheEnd+"data: nonsense\n\n"),
		reply("error in the stream", toTheEnd+role+`data: {"error":{"message":"out of memory","code":500}}`+"\n\n"),
		reply("events without a blank line", toTheEnd+strings.ReplaceAll(role+token, "\n\n", "\n")),
		reply("end marker alone", toTheEnd+end),
	}
	for _, b := range []Behaviour{
		reply("lines that end with CR", toTheEnd+strings.ReplaceAll(role+strings.Repeat(token, 8)+finish+end, "\n", "\r")),
		floodAfter("a complete answer that goes on for ever", answer(), ": ping\n\n"),
		hangAfter("a complete answer that never ends", answer()),
	} {
		b.Answers = true
		all = append(all, b)
	}
	return all
}

// counts are complete answers with a count of tokens that cannot be true.
func counts() []Behaviour {
	var all []Behaviour
	for _, prompt := range []string{"99999999", "1", "0", "-1", "1e300", "9223372036854775808", "null", `"16"`, "0.5", "[]"} {
		b := reply(fmt.Sprintf("prompt_tokens %s", strings.Trim(prompt, `"`)), answer()+usage(prompt)+end)
		b.Answers = true
		all = append(all, b)
	}
	return all
}
