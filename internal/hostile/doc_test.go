// Package hostile runs the program against servers that mean harm, and with few
// resources of its own: make hostile. It has tests only. Each server does to its
// clients one thing that a broken or malicious endpoint can do.
package hostile
