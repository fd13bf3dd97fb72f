package lsp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// maxMessage limits a message of the editor, and maxHeader a header line.
const (
	maxMessage = 32 << 20
	maxHeader  = 4 << 10
)

// A message is a request, a notification or a response.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *responseError  `json:"error,omitempty"`
}

// A responseError is the error of a response.
type responseError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (r *responseError) Error() string { return r.Message }

func failf(code int, format string, args ...any) *responseError {
	return &responseError{code, fmt.Sprintf(format, args...)}
}

// A reader reads messages.
type reader struct{ in *bufio.Reader }

func newReader(in io.Reader) *reader { return &reader{bufio.NewReaderSize(in, maxHeader)} }

// next returns the next message. A *responseError concerns one message, and more may follow; any
// other error ends the input.
func (r *reader) next() (*message, error) {
	n, err := r.header()
	if err != nil {
		return nil, err
	}
	if n > maxMessage {
		if _, err := io.CopyN(io.Discard, r.in, n); err != nil {
			return nil, err
		}
		return nil, failf(invalidRequest, "a message of %d bytes: at most %d MiB are read", n, maxMessage>>20)
	}
	var body bytes.Buffer // grows with the data, whatever length was announced
	if _, err := io.CopyN(&body, r.in, n); err != nil {
		return nil, err
	}
	m := new(message)
	if err := json.Unmarshal(body.Bytes(), m); err != nil {
		return nil, failf(parseError, "this is no message: %v", err)
	}
	if len(m.ID) > 0 && !validID(m.ID) {
		return nil, failf(invalidRequest, "an id is a number or a string")
	}
	return m, nil
}

// validID reports whether an id is neither an object nor a list, and not too long to send back.
func validID(id json.RawMessage) bool { return len(id) < 1000 && id[0] != '{' && id[0] != '[' }

// header reads the header of a message and returns the length of its body. It ignores invalid
// lines.
func (r *reader) header() (int64, error) {
	length := int64(-1)
	for {
		line, err := r.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return 0, err
		}
		text := strings.TrimRight(string(line), "\r\n")
		name, value, _ := strings.Cut(text, ":")
		switch {
		case strings.EqualFold(strings.TrimSpace(name), "Content-Length"):
			length, err = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil || length < 0 {
				return 0, failf(invalidRequest, "Content-Length: %.50q is no length", value)
			}
		case text == "" && length >= 0:
			return length, nil
		}
	}
}

// A writer sends messages. It is safe for concurrent use.
type writer struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *writer) send(m *message) {
	m.JSONRPC = "2.0"
	data, err := json.Marshal(m)
	if err != nil {
		return // can't happen with the values that are sent
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// If the editor has ended, its input is closed too, and the server ends.
	_, _ = fmt.Fprintf(w.out, "Content-Length: %d\r\n\r\n%s", len(data), data)
}

func (w *writer) notify(method string, params any) {
	w.send(&message{Method: method, Params: encoded(params)})
}

// respond answers a request with err, or with result if err is nil.
func (w *writer) respond(id json.RawMessage, result any, err error) {
	m := &message{ID: id}
	var failed *responseError
	switch {
	case err == nil:
		m.Result = encoded(result)
	case errors.As(err, &failed):
		m.Error = failed
	default:
		m.Error = &responseError{internalError, err.Error()}
	}
	if len(m.ID) == 0 {
		m.ID = json.RawMessage("null")
	}
	w.send(m)
}

func encoded(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return data
}

// The types of the specification that the server needs, with its names and its fields.
type (
	// A Position is a line and a character in it, both from 0. The Encoding defines the unit of
	// characters.
	Position struct {
		Line      int `json:"line"`
		Character int `json:"character"`
	}

	// A Range is a range of a text. Its end is exclusive.
	Range struct {
		Start Position `json:"start"`
		End   Position `json:"end"`
	}

	// A Location is a range of a file.
	Location struct {
		URI   string `json:"uri"`
		Range Range  `json:"range"`
	}

	initializeParams struct {
		RootURI          *string           `json:"rootUri"`
		RootPath         *string           `json:"rootPath"`
		WorkspaceFolders []workspaceFolder `json:"workspaceFolders"`
		Settings         json.RawMessage   `json:"initializationOptions"`
		Capabilities     struct {
			General struct {
				PositionEncodings []Encoding `json:"positionEncodings"`
			} `json:"general"`
			Window struct {
				WorkDoneProgress bool `json:"workDoneProgress"`
				ShowDocument     struct {
					Support bool `json:"support"`
				} `json:"showDocument"`
			} `json:"window"`
			Workspace struct {
				WorkspaceEdit struct {
					DocumentChanges    bool     `json:"documentChanges"`
					ResourceOperations []string `json:"resourceOperations"`
				} `json:"workspaceEdit"`
			} `json:"workspace"`
			TextDocument struct {
				PublishDiagnostics struct {
					RelatedInformation bool `json:"relatedInformation"`
				} `json:"publishDiagnostics"`
			} `json:"textDocument"`
		} `json:"capabilities"`
	}

	workspaceFolder struct {
		URI  string `json:"uri"`
		Name string `json:"name"`
	}

	textDocument struct {
		URI     string `json:"uri"`
		Version *int   `json:"version"`
	}

	configurationParams struct {
		Settings json.RawMessage `json:"settings"`
	}

	foldersParams struct {
		Event struct {
			Added, Removed []workspaceFolder
		} `json:"event"`
	}

	documentParams struct {
		TextDocument textDocument `json:"textDocument"`
	}

	didOpenParams struct {
		TextDocument struct {
			textDocument
			Text string `json:"text"`
		} `json:"textDocument"`
	}

	didChangeParams struct {
		TextDocument   textDocument    `json:"textDocument"`
		ContentChanges []contentChange `json:"contentChanges"`
	}

	contentChange struct {
		Range *Range `json:"range"` // nil: Text is the whole document
		Text  string `json:"text"`
	}

	textDocumentPositionParams struct {
		TextDocument textDocument `json:"textDocument"`
		Position     Position     `json:"position"`
	}

	codeActionParams struct {
		TextDocument textDocument `json:"textDocument"`
		Range        Range        `json:"range"`
		Context      struct {
			Only []string `json:"only"`
		} `json:"context"`
	}

	executeCommandParams struct {
		Command   string            `json:"command"`
		Arguments []json.RawMessage `json:"arguments"`
	}

	publishDiagnosticsParams struct {
		URI         string       `json:"uri"`
		Version     *int         `json:"version,omitempty"`
		Diagnostics []diagnostic `json:"diagnostics"`
	}

	diagnostic struct {
		Range              Range                `json:"range"`
		Severity           Severity             `json:"severity"`
		Code               string               `json:"code,omitempty"`
		CodeDescription    *codeDescription     `json:"codeDescription,omitempty"`
		Source             string               `json:"source"`
		Message            string               `json:"message"`
		RelatedInformation []relatedInformation `json:"relatedInformation,omitempty"`
	}

	codeDescription struct {
		Href string `json:"href"`
	}

	relatedInformation struct {
		Location Location `json:"location"`
		Message  string   `json:"message"`
	}

	hover struct {
		Contents markupContent `json:"contents"`
		Range    Range         `json:"range"`
	}

	markupContent struct {
		Kind  string `json:"kind"`
		Value string `json:"value"`
	}

	completionItem struct {
		Label         string   `json:"label"`
		Kind          int      `json:"kind"`
		Detail        string   `json:"detail,omitempty"`
		Documentation string   `json:"documentation,omitempty"`
		TextEdit      textEdit `json:"textEdit"`
	}

	codeAction struct {
		Title       string         `json:"title"`
		Kind        string         `json:"kind"`
		Diagnostics []diagnostic   `json:"diagnostics"`
		IsPreferred bool           `json:"isPreferred,omitempty"`
		Edit        *workspaceEdit `json:"edit,omitempty"`
		Command     *command       `json:"command,omitempty"`
	}

	command struct {
		Title     string `json:"title"`
		Command   string `json:"command"`
		Arguments []any  `json:"arguments"`
	}

	workspaceEdit struct {
		Changes         map[string][]textEdit `json:"changes,omitempty"`
		DocumentChanges []any                 `json:"documentChanges,omitempty"`
	}

	textEdit struct {
		Range   Range  `json:"range"`
		NewText string `json:"newText"`
	}

	createFile struct {
		Kind    string            `json:"kind"`
		URI     string            `json:"uri"`
		Options createFileOptions `json:"options"`
	}

	createFileOptions struct {
		IgnoreIfExists bool `json:"ignoreIfExists"`
	}

	textDocumentEdit struct {
		TextDocument textDocument `json:"textDocument"`
		Edits        []textEdit   `json:"edits"`
	}
)

// A Severity is the severity of a diagnostic, or the type of a shown message.
type Severity int

// The severities.
const (
	Error       Severity = 1
	Warning     Severity = 2
	Information Severity = 3
)

// The codes of errors.
const (
	parseError           = -32700
	invalidRequest       = -32600
	methodNotFound       = -32601
	invalidParams        = -32602
	internalError        = -32603
	serverNotInitialized = -32002
	requestCancelled     = -32800
)
