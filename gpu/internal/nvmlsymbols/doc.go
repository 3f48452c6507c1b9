// Package nvmlsymbols defines, in C, every function of the driver's library
// that the NVML binding refers to. The binding leaves them undefined for the
// dynamic linker, which ends the process at the first call of one that the
// driver of the machine does not have, and at the start of the program where
// symbols are bound at once: hardened tool chains, LD_BIND_NOW, musl. With
// these definitions such a call returns NVML_ERROR_FUNCTION_NOT_FOUND, in every
// build and before the library is loaded as well.
//
// A program imports it for its effect on linking; there is nothing to call.
package nvmlsymbols
