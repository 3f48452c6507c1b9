package store

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
)

// keepSaving makes the test binary a process that saves without end in a directory.
const keepSaving = "INFERENCE_EXPORTER_TEST_STORE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(keepSaving); dir != "" {
		saveForever(dir)
	}
	os.Exit(m.Run())
}

const (
	// generation is how many records each save has; all of them are the same number.
	generation = 20_000
	// steps is how many lines the process prints in each save, the first with the
	// number.
	steps = 10
)

// saveForever saves 1, then 2, and so on.
func saveForever(dir string) {
	st, _ := open(dir)
	for n := 1; ; n++ {
		f := st.parts[0]
		f.Revision = func() uint64 { return uint64(n) }
		f.Save = func(put func(any) error) error {
			for i := range generation {
				if i%(generation/steps) == 0 {
					fmt.Println(n)
				}
				if err := put(n); err != nil {
					return err
				}
			}
			return nil
		}
		st.save(st.parts, newPace(context.Background(), true))
	}
}

// A process that is killed while it writes leaves a file that is whole: the one
// that it was writing, or the one before.
func TestKilledWhileWriting(t *testing.T) {
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for range 10 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), keepSaving+"="+dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 2*steps + random.IntN(2*steps) { // in the third save or the fourth
			lines.Scan()
		}
		_ = cmd.Process.Kill()
		begun := lines.Text()
		for lines.Scan() {
			begun = lines.Text()
		}
		_ = cmd.Wait()

		st, s := mustOpen(t, dir)
		st.Release()
		if len(s.numbers) != generation {
			t.Fatalf("%d records after the begin of save %s", len(s.numbers), begun)
		}
		for _, n := range s.numbers {
			if n != s.numbers[0] || fmt.Sprint(n) != begun && fmt.Sprint(n+1) != begun {
				t.Fatalf("records %d and %d after the begin of save %s", s.numbers[0], n, begun)
			}
		}
	}
}
