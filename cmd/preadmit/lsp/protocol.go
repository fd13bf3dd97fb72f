package lsp

import "encoding/json"

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
		Capabilities     struct {
			General struct {
				PositionEncodings []Encoding `json:"positionEncodings"`
			} `json:"general"`
			Window struct {
				WorkDoneProgress bool `json:"workDoneProgress"`
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

	codeAction struct {
		Title       string         `json:"title"`
		Kind        string         `json:"kind"`
		Diagnostics []diagnostic   `json:"diagnostics"`
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
