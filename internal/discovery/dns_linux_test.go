package discovery

import (
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// insideEnv is set if the test runs in its own namespaces.
const insideEnv = "DISCOVERY_TEST_INSIDE"

// TestDNS asks its own name server. As the address of the name server is in a
// file of the system, it runs in namespaces where that is another file, and port
// 53 is free.
func TestDNS(t *testing.T) {
	if os.Getenv(insideEnv) != "" {
		testDNS(t)
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestDNS$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EINVAL) {
		t.Skipf("no namespaces here: %v", err)
	}
	if bytes.Contains(out, []byte("--- SKIP: TestDNS")) {
		t.Skipf("%s", out)
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestDNS")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func testDNS(t *testing.T) {
	answer := startNameServer(t)
	l := newLab(t, parse(t, "", `
discovery:
  - dns_sd_configs:
      - {names: [_http._tcp.llm.test.], refresh_interval: 100ms}
      - {names: [llm.test.], type: A, port: 8000, refresh_interval: 100ms}
`))
	l.awaitLog("Error refreshing DNS targets")
	if got := l.Endpoints(l.cfg); got.Waiting != 2 {
		t.Errorf("%d wait, want 2: no lookup was answered", got.Waiting)
	}
	answer.Store(answerGood)
	l.await("10.0.0.1:8000 10.0.0.2:8000 vllm-0.llm.test:8001")

	answer.Store(answerFailure)
	l.log.take("")
	l.awaitLog("Error refreshing DNS targets")
	l.awaitLog("Error refreshing DNS targets") // the first may be of the answer before
	l.await("10.0.0.1:8000 10.0.0.2:8000 vllm-0.llm.test:8001")
	l.wantFailures("prometheus_sd_dns_lookup_failures_total")

	answer.Store(answerNoName)
	l.await("")
	answer.Store(answerGood)
	l.await("10.0.0.1:8000 10.0.0.2:8000 vllm-0.llm.test:8001")
}

const (
	answerFailure int32 = iota
	answerGood
	answerNoName
)

// startNameServer starts a name server, which gives the answer that is returned,
// and makes it that of the system.
func startNameServer(t *testing.T) *atomic.Int32 {
	t.Helper()
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	err := errors.Join(
		os.WriteFile(resolv, []byte("nameserver 127.0.0.1\noptions timeout:2\n"), 0o600),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount(resolv, "/etc/resolv.conf", "", unix.MS_BIND, ""),
		raiseLoopback(),
	)
	if err != nil {
		t.Skipf("cannot set up the namespaces: %v", err)
	}
	conn, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		t.Fatal(err)
	}
	answer := new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		serveDNS(conn, answer)
	}()
	t.Cleanup(func() {
		// Lookups that have begun get their answer: else they would wait for it.
		_ = conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
		<-done
		_ = conn.Close()
	})
	return answer
}

func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}

// serveDNS answers until the connection's deadline.
func serveDNS(conn net.PacketConn, answer *atomic.Int32) {
	buf := make([]byte, 4096)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		var query dnsmessage.Message
		if query.Unpack(buf[:n]) != nil || len(query.Questions) != 1 {
			continue
		}
		q := query.Questions[0]
		reply := dnsmessage.Message{
			Header:    dnsmessage.Header{ID: query.ID, Response: true},
			Questions: query.Questions,
		}
		switch answer.Load() {
		case answerFailure:
			reply.RCode = dnsmessage.RCodeServerFailure
		case answerNoName:
			reply.RCode = dnsmessage.RCodeNameError
		default:
			reply.Answers = records(q)
		}
		if packed, err := reply.Pack(); err == nil {
			_, _ = conn.WriteTo(packed, from)
		}
	}
}

// records are what there is of a name.
func records(q dnsmessage.Question) []dnsmessage.Resource {
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 1}
	switch q.Type {
	case dnsmessage.TypeSRV:
		return []dnsmessage.Resource{{Header: header, Body: &dnsmessage.SRVResource{
			Port: 8001, Target: dnsmessage.MustNewName("vllm-0.llm.test."),
		}}}
	case dnsmessage.TypeA:
		return []dnsmessage.Resource{
			{Header: header, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, 2}}},
			{Header: header, Body: &dnsmessage.AResource{A: [4]byte{10, 0, 0, 1}}},
		}
	}
	return nil
}
