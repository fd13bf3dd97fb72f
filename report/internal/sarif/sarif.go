// Package sarif is the part of SARIF 2.1.0 that preadmit writes: types alone,
// with their fields in the order in which they are written. The names are the
// specification's (OASIS SARIF 2.1.0 errata 01, section 3).
package sarif

// Schema and Version identify the format of a log.
const (
	Schema  = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
	Version = "2.1.0"
)

// A Log is a SARIF file.
type Log struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []Run  `json:"runs"`
}

// A Run is one run of one tool.
type Run struct {
	Tool               Tool                    `json:"tool"`
	AutomationDetails  AutomationDetails       `json:"automationDetails"`
	ColumnKind         string                  `json:"columnKind"`
	OriginalURIBaseIDs map[string]ArtifactBase `json:"originalUriBaseIds"`
	Invocations        []Invocation            `json:"invocations"`
	Results            []Result                `json:"results"`
	Properties         RunProperties           `json:"properties"`
}

// RunProperties are ours: what a run holds and leaves out.
type RunProperties struct {
	Profile  string   `json:"preadmit/profile"` // "github"
	Deployed string   `json:"preadmit/deployed,omitempty"`
	Omitted  int      `json:"preadmit/omittedResults,omitempty"`
	Notes    []string `json:"preadmit/notes,omitempty"`
}

// AutomationDetails name the category of a run.
type AutomationDetails struct {
	ID string `json:"id"`
}

// ArtifactBase describes a uriBaseId without revealing a local path.
type ArtifactBase struct {
	Description Text `json:"description"`
}

// A Tool is the program that wrote the run.
type Tool struct {
	Driver Driver `json:"driver"`
}

// A Driver is the tool's program.
type Driver struct {
	Name            string       `json:"name"`
	Version         string       `json:"version,omitempty"`
	SemanticVersion string       `json:"semanticVersion,omitempty"`
	InformationURI  string       `json:"informationUri"`
	Rules           []Descriptor `json:"rules"`
	Notifications   []Descriptor `json:"notifications,omitempty"`
}

// A Descriptor is a reportingDescriptor: a rule, or a kind of notification.
type Descriptor struct {
	ID                   string         `json:"id"`
	Name                 string         `json:"name,omitempty"`
	ShortDescription     *Text          `json:"shortDescription,omitempty"`
	FullDescription      *Text          `json:"fullDescription,omitempty"`
	Help                 *Text          `json:"help,omitempty"`
	HelpURI              string         `json:"helpUri,omitempty"`
	DefaultConfiguration *Configuration `json:"defaultConfiguration,omitempty"`
	Properties           *RuleTags      `json:"properties,omitempty"`
}

// Configuration holds a descriptor's level.
type Configuration struct {
	Level string `json:"level"`
}

// RuleTags are the properties of a rule that GitHub reads.
type RuleTags struct {
	Tags             []string `json:"tags"`
	Precision        string   `json:"precision"`
	ProblemSeverity  string   `json:"problem.severity"`
	SecuritySeverity string   `json:"security-severity,omitempty"`
}

// Text is a message or a multiformatMessageString.
type Text struct {
	Text     string `json:"text"`
	Markdown string `json:"markdown,omitempty"`
}

// An Invocation says whether the run succeeded.
type Invocation struct {
	ExecutionSuccessful bool           `json:"executionSuccessful"`
	Notifications       []Notification `json:"toolExecutionNotifications"`
}

// A Notification is something about the run itself.
type Notification struct {
	Descriptor     Reference  `json:"descriptor"`
	AssociatedRule *Reference `json:"associatedRule,omitempty"`
	Level          string     `json:"level"`
	Message        Text       `json:"message"`
	Locations      []Location `json:"locations,omitempty"`
}

// A Reference points at a Descriptor.
type Reference struct {
	ID    string `json:"id"`
	Index int    `json:"index"`
}

// A Result is one alert.
type Result struct {
	RuleID              string            `json:"ruleId"`
	RuleIndex           int               `json:"ruleIndex"`
	Level               string            `json:"level"`
	Message             Text              `json:"message"`
	Locations           []Location        `json:"locations"`
	RelatedLocations    []Location        `json:"relatedLocations,omitempty"`
	CodeFlows           []CodeFlow        `json:"codeFlows,omitempty"`
	Fixes               []Fix             `json:"fixes,omitempty"`
	PartialFingerprints map[string]string `json:"partialFingerprints,omitempty"`
	OccurrenceCount     int               `json:"occurrenceCount,omitempty"`
	Properties          ResultProperties  `json:"properties"`
}

// ResultProperties are ours: the objects that a result is about.
type ResultProperties struct {
	Outcome     string   `json:"outcome"`
	Objects     []string `json:"objects"`
	ObjectCount int      `json:"objectCount"`
	Fields      []string `json:"fields,omitempty"`
	Assumed     []string `json:"assumed,omitempty"`
	Base        string   `json:"base,omitempty"` // that the base fails, too
}

// A Location is a place that a result names.
type Location struct {
	ID       int              `json:"id,omitempty"`
	Physical PhysicalLocation `json:"physicalLocation"`
	Message  *Text            `json:"message,omitempty"`
}

// A PhysicalLocation is a region of a file.
type PhysicalLocation struct {
	Artifact ArtifactLocation `json:"artifactLocation"`
	Region   Region           `json:"region"`
}

// An ArtifactLocation is a file.
type ArtifactLocation struct {
	URI       string `json:"uri"`
	URIBaseID string `json:"uriBaseId"`
}

// A Region is a part of a file; columns count from 1, ends are exclusive.
type Region struct {
	StartLine   int   `json:"startLine"`
	StartColumn int   `json:"startColumn,omitempty"`
	EndLine     int   `json:"endLine,omitempty"`
	EndColumn   int   `json:"endColumn,omitempty"`
	Snippet     *Text `json:"snippet,omitempty"`
}

// A Fix is a change of files that removes a result.
type Fix struct {
	Description Text             `json:"description"`
	Changes     []ArtifactChange `json:"artifactChanges"`
}

// An ArtifactChange is the change of one file.
type ArtifactChange struct {
	Artifact     ArtifactLocation `json:"artifactLocation"`
	Replacements []Replacement    `json:"replacements"`
}

// A Replacement is a new text for a region.
type Replacement struct {
	Deleted  Region `json:"deletedRegion"`
	Inserted Text   `json:"insertedContent"`
}

// A CodeFlow is the way of a value through the files.
type CodeFlow struct {
	ThreadFlows []ThreadFlow `json:"threadFlows"`
}

// A ThreadFlow is a CodeFlow's sequence.
type ThreadFlow struct {
	Locations []FlowLocation `json:"locations"`
}

// A FlowLocation is a step of a ThreadFlow.
type FlowLocation struct {
	Location Location `json:"location"`
}
