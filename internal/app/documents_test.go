package app

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// pagesForUsers lists the pages for users.
func pagesForUsers(t *testing.T) []string {
	t.Helper()
	pages := []string{"../../README.md", "../../CONTRIBUTING.md"}
	for _, dir := range []string{"../../docs", "../../examples"} {
		err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(name) == ".md" {
				pages = append(pages, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return pages
}

var (
	fence      = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```")
	inlineCode = regexp.MustCompile("`(?:\\./)?(inference_exporter [^`]+)`")
)

// hereEnd ends the here-documents of the pages.
const hereEnd = "END"

// commandsOn returns the commands of the blocks of a page.
func commandsOn(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
		all = append(all, commandsOf(m[1])...)
	}
	return all
}

// commandsOf returns the commands of a script: lines, of which some go on.
func commandsOf(script string) []string {
	var all []string
	open, loop := "", false
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if open == "" && strings.TrimSpace(line) == "" {
			continue
		}
		open += line + "\n"
		here := strings.Contains(open, "<<'"+hereEnd+"'") && strings.TrimSpace(line) != hereEnd
		loop = strings.HasPrefix(open, "for ") && line != "done"
		if here || loop || strings.HasSuffix(line, `\`) {
			continue
		}
		all = append(all, strings.TrimSpace(open))
		open = ""
	}
	return all
}

// noPrograms runs a command without any program but one that notes its arguments, each with a
// zero after it, in a line of the file args.
const noPrograms = `
command_not_found_handle() { :; }
inference_exporter() { printf '%s\0' "$@" >>args; echo >>args; }
sudo() { "$@"; }
`

// programArgs returns the arguments of each call of the program in a command, as bash has them.
func programArgs(t *testing.T, command string) [][]string {
	t.Helper()
	if !strings.Contains(command, "inference_exporter") && !strings.Contains(command, "go run .") {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", noPrograms+calls.ReplaceAllString(files.ReplaceAllString(command, ""), "inference_exporter")+"\nwait")
	cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH="}
	_ = cmd.Run() // what the other programs would have done is missing
	noted, _ := os.ReadFile(filepath.Join(cmd.Dir, "args"))
	var all [][]string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(noted), "\n"), "\n") {
		if line != "" {
			all = append(all, strings.Split(strings.TrimSuffix(line, "\x00"), "\x00"))
		}
	}
	return all
}

var (
	calls = regexp.MustCompile(`go run \.|\./inference_exporter`) // other ways to call the program
	files = regexp.MustCompile(`> [/~]\S+`)                       // files in folders that are not here
)

// TestDocumentsCallTheProgramRight checks that the command line of the program takes every call
// of it on a page: in a block of commands, or as code in a sentence.
func TestDocumentsCallTheProgramRight(t *testing.T) {
	t.Parallel()
	parse := func(page string, args []string) {
		t.Helper()
		if _, err := newCommandLine(Options{Stdout: io.Discard, Stderr: io.Discard}).parse(args); err != nil {
			t.Errorf("%s: inference_exporter %s: %v", page, strings.Join(args, " "), err)
		}
	}
	for _, page := range pagesForUsers(t) {
		for _, command := range commandsOn(t, page) {
			for _, args := range programArgs(t, command) {
				parse(page, args)
			}
		}
		if filepath.Base(page) == "commands.md" { // synopses
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range inlineCode.FindAllStringSubmatch(fence.ReplaceAllString(string(text), ""), -1) {
			for _, args := range programArgs(t, strings.ReplaceAll(m[1], "\n", " ")) {
				if len(args) == 1 { // its name alone
					args = append(args, "--help")
				}
				parse(page, args)
			}
		}
	}
}

// exceptions match what TestDocumentsRun does not run, each with its reason.
var exceptions = []*regexp.Regexp{
	regexp.MustCompile(`^([A-Z_]+=\S+ )*(make|go) `),                                                   // builds or measures: other tests and jobs do
	regexp.MustCompile(`\b(sudo|docker|kubectl|helm|amtool|claude|cosign|sha256sum)\b|examples/stack`), // needs root, other software or another machine
	regexp.MustCompile(`\b(kill|pidof)\b`),                                                             // signals processes by their name
	regexp.MustCompile(`^cp -r examples/kubernetes`),                                                   // prepares what needs a cluster
	regexp.MustCompile(`^for |/simulator/replicas/`),                                                   // is a part of a drill, which takes minutes; its servers are tested by themselves
	regexp.MustCompile(`api/v1/events`),                                                                // ends with the reader alone
	regexp.MustCompile(`api/v1/gpus`),                                                                  // needs a GPU
	regexp.MustCompile(`--cacert`),                                                                     // asks a daemon with TLS
	regexp.MustCompile(`^sleep `),                                                                      // waits for the daemon of its block
	regexp.MustCompile(`^inference_exporter (simulate|serve|--)`),                                      // runs until it is stopped: the other tests of this package do it
	regexp.MustCompile(`^inference_exporter (compare|load |probe .*baseline)`),                         // takes many pairs, or a minute: the tests of the command do it
}

// attempts is how often a question to the daemon is asked: the latest probe may have been
// too imprecise to publish, on a busy machine.
const attempts = 20

// TestDocumentsRun runs the commands of the pages in an empty folder, with the program in PATH,
// a simulated server for every server and a daemon for the daemon. Each ends with code 0.
func TestDocumentsRun(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	dir := sandbox(t, server)
	daemon := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--web.enable-lifecycle", "--config.file="+filepath.Join(dir, "daemon.yml"))
	daemon.waitFor("first results", func(got metricsPage) bool { return got.Probes("llama") > 0 })
	here := strings.NewReplacer(
		"./inference_exporter", "inference_exporter",
		"http://127.0.0.1:8000", server, "http://vllm.internal:8000", server,
		"http://localhost:10115", daemon.base, "http://exporter:10115", daemon.base,
		"NAME", "llama", "curl -", "curl --fail -",
	)
	for _, page := range pagesForUsers(t) {
		if filepath.Base(page) == "commands.md" { // made of the texts of the commands, which other pages have too
			continue
		}
		for _, command := range commandsOn(t, page) {
			command = here.Replace(command)
			if slices.ContainsFunc(exceptions, func(e *regexp.Regexp) bool { return e.MatchString(command) }) {
				continue
			}
			out, err := runInShell(t, dir, command)
			for again := attempts - 1; err != nil && again > 0 && strings.HasPrefix(command, "curl"); again-- {
				out, err = runInShell(t, dir, command)
			}
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", page, command, err, out)
			}
		}
	}
}

// sandbox returns a folder with the program, under its name, and configurations.
func sandbox(t *testing.T, server string) string {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "grep", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "inference_exporter")); err != nil {
		t.Fatal(err)
	}
	endpoints := fmt.Sprintf("endpoints: [{name: llama, url: %q}]\n", server)
	for name, text := range map[string]string{
		"endpoints.yml": endpoints,
		"daemon.yml":    "global: {interval: 200ms}\nmodules: {interactive: {input_tokens: 16, output_tokens: 2}}\n" + endpoints,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// runInShell runs a command in a folder, and returns what it prints.
func runInShell(t *testing.T, dir, command string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", "set -o pipefail; "+command)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = []string{runAsProgram + "=1", "PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C", "GORACE=atexit_sleep_ms=0"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}
