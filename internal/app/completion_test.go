package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

func TestSuggestions(t *testing.T) {
	f := func(words string, want ...string) {
		t.Helper()
		var got []string
		printed := runToEnd(t, append([]string{"complete", "--"}, strings.Split(words, " ")...)...)
		for line := range strings.Lines(printed.stdout) {
			word, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			got = append(got, word)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", words, got, want)
		}
	}
	f("de", "demo", "detect")
	f("check ")               // any file
	f("rules --config.file ") // any file
	f("rules --config.file=") // any file
	f("nonsense ")            // not a command
	f("completion ", "bash", "zsh", "fish")
	f("completion z", "zsh")
	f("completion zsh ")
	f("--log.level ", "debug", "info", "warn", "error")
	f("--log.level w", "warn")
	f("--log.level=w", "--log.level=warn")
	f("--log.format json che", "check")
	f("--log.format=json che", "check")
	f("probe -n 3 -o ", "text", "json", "junit")
	f("probe --output=j", "--output=json", "--output=junit")
	f("probe --outp", "--output")
	f("probe --api=gem", "--api=gemini")
	f("explain --module ra", "rag")
	f("check --outp") // of another command
	f("--web.te", "--web.telemetry-path")
	f("serve --collector.g", "--collector.gpu")
	f("--no-collector.g", "--no-collector.gpu")
	f("--no-gpu.p") // off already
	f("--log.level=warn --version de", "demo", "detect")
	// A flag of the default command decides for it: the parser takes no other after that.
	f("--collector.gpu de")
	f("--no-collector.gpu de")
	f("--config.file=x.yml de")
	f("--config.file x.yml --collector.g", "--collector.gpu")
}

func TestCompletionCommands(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if got := runToEnd(t, "completion", shell); got.code != cli.ExitOK || !strings.Contains(got.stdout, " complete -- ") {
			t.Errorf("%s: exit code %d: %s", shell, got.code, got.stdout)
		}
	}
	refused(t, cli.ExitUsage, []string{"inference_exporter: SHELL \"csh\": want one of bash, zsh, fish, try inference_exporter completion --help"}, "completion", "csh")
	got := runToEnd(t, "complete", "--", "--log.level", "d")
	if want := (ended{cli.ExitOK, "debug\n", ""}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := runToEnd(t, "complete", "--", "chec"); !strings.HasPrefix(got.stdout, "check\tCheck ") {
		t.Errorf("no meaning: %q", got.stdout)
	}
	if got := runToEnd(t, "complete"); got != (ended{}) {
		t.Errorf("without a word: %+v", got)
	}
}

// aFile is the configuration in the folder of a shell.
const aFile = `modules: {quick: {prompt: Hello}}
endpoints: [{name: llama, url: http://a}, {name: qwen, url: http://b, http: {authorization: {credentials: "${NOT_SET_IN_TESTS}"}}}]
`

// shell runs a script in a real shell, with this test as the program, and
// returns the lines that it prints. It skips where the shell is not there.
func shell(t *testing.T, name, script string) []string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(self, filepath.Join(dir, "inference_exporter")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a-file.yml"), []byte(aFile), 0o600); err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Abs("../cli/completion")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "-c", script)
	cmd.Dir = dir
	cmd.Env = []string{runAsProgram + "=1", "PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir, "SCRIPTS=" + scripts, "LANG=C"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// shellCase is a line as typed, and the words that a shell must offer.
type shellCase struct {
	typed string
	want  []string
}

func TestBashCompletes(t *testing.T) {
	t.Parallel()
	for _, tc := range []shellCase{
		{"inference_exporter de", []string{"demo", "detect"}},
		{"inference_exporter completion ", []string{"bash", "zsh", "fish"}},
		{"inference_exporter serve --log.level ", []string{"debug", "info", "warn", "error"}},
		{"inference_exporter --log.level=w", []string{"warn"}}, // what replaces the word after =
		{"inference_exporter rules --conf", []string{"--config.file"}},
		{"inference_exporter probe --config.file=a-file.yml ", []string{"llama", "qwen"}},
		{"inference_exporter compare --config.file a-file.yml llama q", []string{"qwen"}},
		{"inference_exporter probe --config.file a-file.yml --module q", []string{"quick"}},
		{"inference_exporter probe --config.file no-file.yml ", []string{""}},
		{"inference_exporter rules --config.file ", []string{""}}, // bash offers files itself
	} {
		got := shell(t, "bash", `. "$SCRIPTS/inference_exporter.bash"
			COMP_LINE='`+tc.typed+`' COMP_POINT=${#COMP_LINE}
			_inference_exporter inference_exporter
			printf '%s\n' "${COMPREPLY[@]}"`)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.typed, got, tc.want)
		}
	}
}

func TestFishCompletes(t *testing.T) {
	t.Parallel()
	for _, tc := range []shellCase{ // in fish's own order
		{"inference_exporter de", []string{"demo", "detect"}},
		{"inference_exporter completion ", []string{"bash", "fish", "zsh"}},
		{"inference_exporter --log.level=w", []string{"--log.level=warn"}},
		{"inference_exporter rules --config.file a", []string{"a-file.yml"}},
		{"inference_exporter rules --config.file=a", []string{"--config.file=a-file.yml"}},
	} {
		got := shell(t, "fish", `source $SCRIPTS/inference_exporter.fish
			complete -C '`+tc.typed+`' | string replace -r '\t.*' ''; true`)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%q: got %q, want %q", tc.typed, got, tc.want)
		}
	}
}

// The functions of zsh's completion need a terminal: stubs replace them and print
// their arguments.
func TestZshCompletes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		words string
		want  []string
	}{
		{"inference_exporter chec", []string{"check:Check a configuration file and print every problem with its place."}},
		{"inference_exporter completion ''", []string{"bash", "zsh", "fish"}},
		{"inference_exporter --log.level=w", []string{"--log.level=warn"}},
		{"inference_exporter rules --config.file ''", []string{"compset -P *=", "files"}},
	} {
		got := shell(t, "zsh", `compdef() { [[ $* == '_inference_exporter inference_exporter' ]] || print "compdef $*" }
			_describe() { print -rl -- ${(P)2} }
			_files() { print files }
			compset() { print -r -- compset $* }
			source $SCRIPTS/_inference_exporter
			words=(`+tc.words+`) CURRENT=$#words
			_inference_exporter`)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %q, want %q", tc.words, got, tc.want)
		}
	}
}
