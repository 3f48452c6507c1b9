package app

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// ended is what a program that ran to its end left behind.
type ended struct {
	code           int
	stdout, stderr string
}

func runToEnd(t *testing.T, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(testlab.Context(t), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := Run(ctx, args, Options{Stdout: &stdout, Stderr: &stderr, OnListen: func(a net.Addr) {
		t.Errorf("%q listens on %s", args, a)
		cancel()
	}})
	return ended{code, stdout.String(), stderr.String()}
}

// refused runs the program with arguments that it must refuse with one line on
// stderr for each pattern, and nothing else.
func refused(t *testing.T, code int, patterns []string, args ...string) {
	t.Helper()
	got := runToEnd(t, args...)
	if got.code != code {
		t.Errorf("%q: exit code %d, want %d", args, got.code, code)
	}
	if got.stdout != "" {
		t.Errorf("%q: stdout %q", args, got.stdout)
	}
	lines := strings.SplitAfter(got.stderr, "\n")
	if last := len(lines) - 1; lines[last] == "" {
		lines = lines[:last]
	}
	if len(lines) != len(patterns) {
		t.Fatalf("%q: %d lines on stderr, want %d:\n%s", args, len(lines), len(patterns), got.stderr)
	}
	for i, line := range lines {
		if !regexp.MustCompile("^" + patterns[i] + "\n$").MatchString(line) {
			t.Errorf("%q: line %q, want %q", args, line, patterns[i])
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	f := func(want string, args ...string) {
		t.Helper()
		got := runToEnd(t, args...)
		if got.code != cli.ExitOK || got.stderr != "" {
			t.Errorf("%q: exit code %d, stderr %q", args, got.code, got.stderr)
		}
		if n := strings.Count(got.stdout, want); n != 1 {
			t.Errorf("%q: %d times %q in\n%s", args, n, want, got.stdout)
		}
	}
	f("usage: inference_exporter", "--help")
	f("usage: inference_exporter", "-h")
	f("usage: inference_exporter", "help")
	f("  --config.file=FILE ", "serve", "--help")
	f("  --web.listen-address=:10115", "serve", "--help")
	f("Examples:\n", "--help")
	f("TARGET is a URL", "help", "probe")
	f("usage: inference_exporter check", "check", "--help")
	f("  --web.listen-address=", "demo", "--help")
	f("  --web.listen-address=", "simulate", "--help")
	f("stall_before_headers", "simulate", "--help")
	f("inference_exporter, version", "--version")
	f("inference_exporter, version", "check", "--version")
}

func TestFlagsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	f := func(pattern string, args ...string) {
		t.Helper()
		refused(t, cli.ExitUsage, []string{"inference_exporter: " + pattern}, args...)
	}
	f("--log.level=loud: want one of debug, info, warn, error, try inference_exporter serve --help", "--log.level=loud")
	f("--log.format=xml: want one of logfmt, json, try inference_exporter serve --help", "--log.format=xml")
	f("--shard.index=-1: want at least 0, try inference_exporter serve --help", "--shard.index=-1")
	f("--shard.index=1.5: want a whole number, try inference_exporter serve --help", "--shard.index=1.5")
	f("--count=many: want a whole number, try inference_exporter probe --help", "probe", "http://h", "-n", "many")
	f("--timeout=5: want a duration like 1m30s, try inference_exporter probe --help", "probe", "http://h", "--timeout", "5")
	f("--seed=-1: want a whole number from 0, try inference_exporter simulate --help", "simulate", "--seed=-1")
	f("--fault-ratio=few: want a number, try inference_exporter simulate --help", "simulate", "--fault-ratio=few")
	f("check wants one configuration file: inference_exporter check FILE", "check")
	f("check wants one configuration file: .*", "check", "a.yml", "--config.file=a.yml")
	f("nothing to probe: .*--config.file.*--endpoint.*demo")
	f("--config.file and --endpoint are mutually exclusive", "--config.file=a.yml", "--endpoint=http://localhost:8000")
	f("--model goes with --endpoint; .*", "--model=m")
	f("--model goes with --endpoint; .*", "--model=m", "--config.file=a.yml")
	f("model .*control characters", "--model=a\x07", "--endpoint=http://localhost:8000")
	f("--fault-ratio=2: want 0 to 1, try .*", "simulate", "--fault-ratio=2")
	f("--slots=-1: want at least 0, try .*", "simulate", "--slots=-1")
	f("--prefill-rate=NaN: want 0 to .*", "simulate", "--prefill-rate=NaN")
	f("--fault=status_50: unknown; the nearest of [0-9]+ are status_500, status_502, status_503, try inference_exporter simulate --help", "simulate", "--fault=status_50")
	f("open the web server: .*", "demo", "--web.listen-address=127.0.0.1:123456")

	endpoint := "--endpoint=http://127.0.0.1:9"
	f("open the web server: .*address nonsense: missing port in address", endpoint, "--web.listen-address=nonsense")
	f(`path of the metrics "metrics": .*`, endpoint, "--web.telemetry-path=metrics")
	f(`path of the metrics "/-/ready": .*`, endpoint, "--web.telemetry-path=/-/ready")
	f(`web configuration nowhere.yml: .*no such file or directory`, endpoint, "--web.config.file=nowhere.yml")
	broken := writeFile(t, "web.yml", "basic_auth_users: {a: b}\ntls_server_confg: {}\nhttp_server_confg: {}\n")
	f(`web configuration \S+web.yml: .*tls_server_confg.*`, endpoint, "--web.config.file="+broken)
}

// TestUnknownWords checks that the error of an unknown command or flag names the nearest.
func TestUnknownWords(t *testing.T) {
	f := func(pattern string, args ...string) {
		t.Helper()
		refused(t, cli.ExitUsage, []string{"inference_exporter: " + pattern}, args...)
	}
	f(`unknown command "prob": did you mean "probe"\?`, "prob", "http://127.0.0.1:9")
	f(`unknown command "version": did you mean "--version"\?`, "version")
	f(`unknown command "fly", try inference_exporter --help`, "fly")
	f(`unknown command "fly", try inference_exporter --help`, "--help", "fly")
	f(`unknown command "prob": did you mean "probe"\?`, "prob", "--help")
	f(`unknown command "prob": did you mean "probe"\?`, "help", "prob")
	f(`unknown command "nosuch", try inference_exporter --help`, "help", "nosuch")
	f("help takes one command", "help", "probe", "detect")
	f(`"probe" follows flags of another command; the command comes first`, "--config.file=a.yml", "probe")

	f(`"http://h:8000" is no command: to ask it once, inference_exporter probe http://h:8000; to keep asking, inference_exporter --endpoint=http://h:8000`, "http://h:8000")
	f(`"h:8000" is no command: .*`, "h:8000")
	f(`unknown flag "--colour", try inference_exporter serve --help`, "--colour")
	f(`unknown flag "--colour", try inference_exporter serve --help`, "--help", "--colour")
	f(`unknown flag "--config-file": did you mean "--config.file"\?`, "--config-file=a.yml")
	f(`unknown flag "--no-collector.gpus": did you mean "--no-collector.gpu"\?`, "--no-collector.gpus")
	f(`unknown flag "--modul" of probe: did you mean "--module"\?`, "probe", "http://127.0.0.1:9", "--modul=rag")
	f(`unknown flag "-z" of probe, try inference_exporter probe --help`, "probe", "-z")
	f(`unknown flag "--module" before a command: it is one of compare, probe, load, explain, and follows that word`, "--module=rag", "probe", "http://127.0.0.1:9")
	f(`unexpected "b": check takes no such argument, try inference_exporter check --help`, "check", "a", "b")
	f(`unexpected "a": serve takes no such argument, try inference_exporter serve --help`, "serve", "a")
}

// A value from the environment is refused by the name of its variable.
func TestVariablesThatCannotBeUsed(t *testing.T) {
	t.Setenv("SHARD_INDEX", "exporter-3")
	refused(t, cli.ExitUsage, []string{
		"inference_exporter: environment variable SHARD_INDEX=exporter-3, for --shard.index: want a whole number, try inference_exporter serve --help",
	}, "--endpoint=http://127.0.0.1:9")
	t.Setenv("SHARD_INDEX", "3")
	refused(t, cli.ExitUsage, []string{"inference_exporter: shard 3 of 1: .*"}, "--endpoint=http://127.0.0.1:9")
}

func TestConfigurationThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	f := func(file string, patterns ...string) {
		t.Helper()
		refused(t, cli.ExitUsage, patterns, "--config.file="+file)
		refused(t, cli.ExitUsage, patterns, "check", "--config.file="+file)
		refused(t, cli.ExitUsage, patterns, "check", file)
	}
	f("nowhere.yml", "inference_exporter: read configuration: open nowhere.yml: no such file or directory")
	f(t.TempDir(), "inference_exporter: read configuration: read .*: not a regular file")
	f(writeFile(t, "two.yml", `endpoints:
  - url: http://localhost:8000
    modules: [fast]
  - url: ftp://localhost
`),
		`\S+/two.yml:3: endpoints\[0\].modules\[0\]: unknown module "fast".*`,
		`\S+/two.yml:4: endpoints\[1\].url: want a URL that begins with http:// or https://`)
	f(writeFile(t, "secret.yml", `endpoints:
  - url: http://localhost:8000
    http: {authorization: {credentials_file: nowhere}}
`), `\S+/secret.yml:3: endpoints\[0\].http.authorization.credentials_file: .*no such file or directory`)
	f(writeFile(t, "broken.yml", "endpoints: [\n"), `\S+/broken.yml:.*`)
	f(writeFile(t, "empty.yml", ""), `\S+/empty.yml: the file is empty; .*`)

	refused(t, cli.ExitUsage, []string{
		`--endpoint: endpoints\[0\].url: want a URL that begins with http:// or https://`,
		`--endpoint: endpoints\[2\].url: a user or password in the URL; .*`,
	}, "--endpoint=localhost", "--endpoint=http://localhost:8000", "--endpoint=http://me:pass@localhost")
}

func TestCheckOfAGoodFile(t *testing.T) {
	file := writeFile(t, "good.yml", `
modules: {warm: {prefix: warm}}
endpoints:
  - url: http://localhost:8000
  - {url: http://localhost:8001, modules: [interactive, warm]}
`)
	want := ended{cli.ExitOK, file + `: good: 2 endpoints, 3 probes
PROBES OF       TOKENS A DAY  COST A DAY  IN 30 DAYS
localhost:8001  1,843,200     -           -
localhost:8000  921,600       -           -
all             2,764,800     -           -
`, ""}
	for _, args := range [][]string{{file}, {"--config.file=" + file}, {"--config.file", file}} {
		if got := runToEnd(t, append([]string{"check"}, args...)...); got != want {
			t.Errorf("%q: got %+v, want %+v", args, got, want)
		}
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	want := []string{"inference_exporter: open the web server: listen tcp " + regexp.QuoteMeta(taken) + ": bind: address already in use"}
	refused(t, cli.ExitFailure, want, "--endpoint=http://127.0.0.1:9", "--web.listen-address="+taken)
	refused(t, cli.ExitFailure, want, "--endpoint=http://127.0.0.1:9", "--web.listen-address=127.0.0.1:0", "--web.listen-address="+taken)
	refused(t, cli.ExitFailure, want, "demo", "--web.listen-address="+taken)
	refused(t, cli.ExitFailure, want, "simulate", "--web.listen-address="+taken)
}

// TestEndpointWithoutScheme checks that --endpoint takes what probe does.
func TestEndpointWithoutScheme(t *testing.T) {
	t.Parallel()
	p := start(t, "--endpoint=127.0.0.1:9", "--web.listen-address=127.0.0.1:0", "--no-collector.gpu")
	p.stop()
	if len(p.stderr.lines("127.0.0.1:9 has no scheme: asking http://127.0.0.1:9")) != 1 {
		t.Errorf("stderr:\n%s", p.stderr)
	}
}

func TestLogFormats(t *testing.T) {
	t.Parallel()
	f := func(format string, check func(line string) bool) {
		t.Helper()
		p := start(t, "--endpoint=http://127.0.0.1:9", "--web.listen-address=127.0.0.1:0", "--log.format="+format)
		if code := p.stop(); code != cli.ExitOK {
			t.Errorf("exit code %d", code)
		}
		if len(p.stderr.lines("starting")) != 1 || len(p.stderr.lines("stopped")) != 1 {
			t.Errorf("%s: the log does not report start and end:\n%s", format, p.stderr)
		}
		for _, line := range p.stderr.lines("") {
			if !check(line) {
				t.Errorf("not %s: %s", format, line)
			}
		}
	}
	f("json", func(line string) bool { return json.Valid([]byte(line)) })
	f("logfmt", regexp.MustCompile(`^ts=\S+ level=info caller=\S+ msg=.+$`).MatchString)
}
