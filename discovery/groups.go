package discovery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/config"
)

// What a list of targets may take of the memory, apart from the limits of the
// configuration.
const (
	// maxLabelBytes bounds the labels of all targets, those of a group counted for
	// each of its targets.
	maxLabelBytes = 64 << 20
	// maxValues and the values for each target that is allowed bound what a list
	// may have of values before it is parsed, as each takes far more memory then.
	maxValues          = 100_000
	maxValuesPerTarget = 32
)

// listed is a group of targets as it is written.
type listed struct {
	Targets []string       `json:"targets" yaml:"targets"`
	Labels  model.LabelSet `json:"labels"  yaml:"labels"`
}

// list is a list of groups that is being read.
type list struct {
	place  string          // the file or the URL
	label  model.LabelName // of all targets, with the place
	limits config.Limits

	groups              []*targetgroup.Group
	targets, labelBytes int
}

// parse reads the text of a list, YAML or JSON.
func (l *list) parse(text []byte, isYAML bool) ([]*targetgroup.Group, error) {
	values := bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("\n"))
	if most := maxValues + maxValuesPerTarget*l.limits.DiscoveryTargets; values > most {
		return nil, fmt.Errorf("a list of more than %d values", most)
	}
	read := l.parseJSON
	if isYAML {
		read = l.parseYAML
	}
	if err := read(text); err != nil {
		return nil, err
	}
	return l.groups, nil
}

func (l *list) parseYAML(text []byte) error {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var all []*listed
	if err := dec.Decode(&all); err != nil && !errors.Is(err, io.EOF) { // an empty file has no targets
		return err
	}
	for _, g := range all {
		if err := l.add(g); err != nil {
			return err
		}
	}
	return nil
}

// parseJSON reads group by group, so that a list of too many is not read to its
// end.
func (l *list) parseJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if begin, err := dec.Token(); err != nil {
		return err
	} else if begin != json.Delim('[') {
		return errors.New("want a list of groups of targets")
	}
	for dec.More() {
		var g *listed
		if err := dec.Decode(&g); err != nil {
			return err
		}
		if err := l.add(g); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more after the list of groups of targets")
	}
	return nil
}

// add adds a group, unless the list then holds too much.
func (l *list) add(g *listed) error {
	if g == nil {
		return errors.New("a group of targets that is null")
	}
	size := 0
	for name, value := range g.Labels {
		size += len(name) + len(value)
	}
	l.targets += len(g.Targets)
	l.labelBytes += size * len(g.Targets)
	switch most := l.limits.DiscoveryTargets; {
	case l.targets > most:
		return tooManyError{most}
	case len(l.groups) == most:
		return fmt.Errorf("more than %d groups of targets; see global.limits.discovery_targets", most)
	case l.labelBytes > maxLabelBytes:
		return fmt.Errorf("labels of more than %d MiB for all targets together", maxLabelBytes>>20)
	}
	group := &targetgroup.Group{
		Source:  l.place + ":" + strconv.Itoa(len(l.groups)),
		Labels:  g.Labels,
		Targets: make([]model.LabelSet, len(g.Targets)),
	}
	if group.Labels == nil {
		group.Labels = model.LabelSet{}
	}
	group.Labels[l.label] = model.LabelValue(l.place)
	for i, address := range g.Targets {
		group.Targets[i] = model.LabelSet{model.AddressLabel: model.LabelValue(address)}
	}
	l.groups = append(l.groups, group)
	return nil
}

// tooManyError is that of more targets than are allowed.
type tooManyError struct{ most int }

func (e tooManyError) Error() string {
	return fmt.Sprintf("more than %d targets; see global.limits.discovery_targets", e.most)
}

// emptied returns groups without targets in place of those of a longer list of
// before.
func emptied(place string, from, to int) []*targetgroup.Group {
	var gone []*targetgroup.Group
	for i := from; i < to; i++ {
		gone = append(gone, &targetgroup.Group{Source: place + ":" + strconv.Itoa(i)})
	}
	return gone
}

// readBounded reads all of r, unless it is longer than most.
func readBounded(r io.Reader, most config.Bytes) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err == nil && int64(len(text)) > int64(most) {
		return nil, tooLongError{most}
	}
	return text, err
}

// tooLongError is that of a list of more bytes than are allowed.
type tooLongError struct{ most config.Bytes }

func (e tooLongError) Error() string {
	return fmt.Sprintf("more than %s; see global.limits.discovery_bytes", e.most)
}
