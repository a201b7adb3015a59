package main

import (
	"bytes"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"fmt"
)

// checkHeader rejects a program of a different platform, and a Linux program that requires a library.
func checkHeader(program []byte, p platform) error {
	var machine any
	var err error
	r := bytes.NewReader(program)
	switch p.system {
	case "linux":
		var f *elf.File
		if f, err = elf.NewFile(r); err == nil {
			machine = f.Machine
			for _, part := range f.Progs {
				if part.Type == elf.PT_INTERP {
					return fmt.Errorf("is not static, must be a program that needs no library")
				}
			}
		}
	case "darwin":
		var f *macho.File
		if f, err = macho.NewFile(r); err == nil {
			machine = f.Cpu
		}
	case "windows":
		var f *pe.File
		if f, err = pe.NewFile(r); err == nil {
			machine = f.Machine
		}
	}
	if err != nil {
		return fmt.Errorf("is no program for %v: %w", p, err)
	}
	want := map[platform]any{
		{"linux", "amd64"}: elf.EM_X86_64, {"linux", "arm64"}: elf.EM_AARCH64,
		{"darwin", "amd64"}: macho.CpuAmd64, {"darwin", "arm64"}: macho.CpuArm64,
		{"windows", "amd64"}: uint16(pe.IMAGE_FILE_MACHINE_AMD64), {"windows", "arm64"}: uint16(pe.IMAGE_FILE_MACHINE_ARM64),
	}[p]
	if machine != want {
		return fmt.Errorf("is for the processor %v, must be %v", machine, want)
	}
	return nil
}
