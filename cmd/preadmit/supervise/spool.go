package supervise

import (
	"bytes"
	"io"
	"os"
)

// A spool stores a child's output until the child has ended successfully: in memory, or in an
// unlinked file if it is larger than inMemory.
type spool struct {
	memory bytes.Buffer
	file   *os.File
	to     *Pipe // into memory or the file
	err    error
}

const inMemory = 32 << 20

func (s *spool) add(k Kind, payload []byte) {
	if s.err != nil {
		return
	}
	if s.file == nil && s.memory.Len()+len(payload) > inMemory {
		if s.file, s.err = os.CreateTemp("", "preadmit-*"); s.err != nil {
			return
		}
		os.Remove(s.file.Name())
		if _, s.err = s.memory.WriteTo(s.file); s.err != nil {
			return
		}
		s.to = NewPipe(s.file)
	}
	if s.to == nil {
		s.to = NewPipe(&s.memory)
	}
	s.err = s.to.Send(k, payload)
}

// print writes everything to standard output and standard error, in order. It
// returns the error of standard output.
func (s *spool) print(stdout, stderr io.Writer) error {
	if s.err != nil {
		return s.err
	}
	var from io.Reader = &s.memory
	if s.file != nil {
		if _, err := s.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		from = s.file
	}
	var failed error
	var room []byte
	for r := NewReader(from); ; {
		k, payload, err := r.nextIn(room)
		room = payload
		switch {
		case err == io.EOF:
			return failed
		case err != nil:
			return err
		case k == Stderr:
			stderr.Write(payload)
		case failed == nil:
			_, failed = stdout.Write(payload)
		}
	}
}

func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
}
