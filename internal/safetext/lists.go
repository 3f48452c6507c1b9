package safetext

import "strconv"

// maxBetween is how many characters may be between two bytes of a list: ", ", or a
// line break with what indents the next line.
const maxBetween = 16

// lists returns what the lists of bytes in a text say, which careless servers print
// of a key: decimal ones, as of %v in Go, and hexadecimal ones, as in de:ad:be and
// 0xde, 0xad. There is a line break after each list. Those that are too short for a
// secret are left out.
func (l layer) lists() []layer {
	numbers := numbersIn(l.bytes)
	if len(numbers) < minSecret {
		return nil
	}
	var all []layer
	for _, base := range []int{10, 16} {
		if found := l.listsOf(numbers, base); found.bytes != "" {
			all = append(all, found)
		}
	}
	return all
}

// numbersIn returns where a text has what may be a byte: two hexadecimal digits or up to
// three decimal ones, with or without 0x, between other characters.
func numbersIn(text string) []span {
	var all []span
	for i := 0; i < len(text); i++ {
		begin := i
		for i < len(text) && isWord(text[i]) {
			i++
		}
		if i-begin == len("0xff") && text[begin] == '0' && text[begin+1]|0x20 == 'x' {
			begin += len("0x")
		}
		if n := i - begin; n >= 1 && n <= 3 {
			all = append(all, span{begin: begin, end: i})
		}
	}
	return all
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// listsOf returns the bytes of the lists in one base.
func (l layer) listsOf(numbers []span, base int) layer {
	var bytes []byte
	var at []int
	begin, end := 0, 0 // of the list, in bytes; of its latest number, in l
	finish := func() {
		if len(bytes)-begin < minSecret {
			bytes, at = bytes[:begin], at[:begin]
			return
		}
		bytes, at = append(bytes, '\n'), append(at, l.where(end))
		begin = len(bytes)
	}
	for _, n := range numbers {
		v, err := strconv.ParseUint(l.bytes[n.begin:n.end], base, 8)
		if err != nil || base == 16 && n.end-n.begin != 2 {
			continue
		}
		if n.begin-end > maxBetween {
			finish()
		}
		bytes, at = append(bytes, byte(v)), append(at, l.where(n.begin))
		end = n.end
	}
	finish()
	return layer{string(bytes), append(at, l.where(end))}
}
