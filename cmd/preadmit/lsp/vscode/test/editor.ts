// A stand-in for VS Code, which can't run here: the parts of its module `vscode` that the extension
// and the client library use. The client library is the real one, and so is the server.
import { minimatch } from 'minimatch';
import Module from 'node:module';
import * as fs from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';

export class Uri {
  constructor(readonly scheme: string, readonly path: string) {}
  static file(path: string): Uri { return new Uri('file', path); }
  static parse(text: string): Uri {
    return text.startsWith('file:') ? Uri.file(fileURLToPath(text)) : new Uri(text.split(':')[0], text.slice(text.indexOf(':') + 1));
  }
  get fsPath(): string { return this.path; }
  toString(): string { return this.scheme === 'file' ? pathToFileURL(this.path).href : `${this.scheme}:${this.path}`; }
}

export class Position {
  constructor(readonly line: number, readonly character: number) {}
}

export class Range {
  readonly start: Position;
  readonly end: Position;
  constructor(a: number | Position, b: number | Position, c?: number, d?: number) {
    [this.start, this.end] = typeof a === 'number' ? [new Position(a, b as number), new Position(c!, d!)] : [a, b as Position];
  }
}

class Disposable {
  constructor(private readonly end: () => void) {}
  static from(...all: { dispose(): void }[]): Disposable { return new Disposable(() => all.forEach((d) => d.dispose())); }
  dispose(): void { this.end(); }
}

export class EventEmitter<T> {
  private readonly listeners = new Set<(e: T) => unknown>();
  readonly event = (listener: (e: T) => unknown, self?: unknown): Disposable => {
    const bound = listener.bind(self);
    this.listeners.add(bound);
    return new Disposable(() => this.listeners.delete(bound));
  };
  fire(e: T): void { [...this.listeners].forEach((l) => l(e)); }
  dispose(): void { this.listeners.clear(); }
}

class CancellationTokenSource {
  private readonly cancelled = new EventEmitter<void>();
  readonly token = { isCancellationRequested: false, onCancellationRequested: this.cancelled.event };
  cancel(): void { this.token.isCancellationRequested = true; this.cancelled.fire(); }
  dispose(): void { this.cancelled.dispose(); }
}

class DiagnosticCollection {
  private readonly all = new Map<string, Diagnostic[]>();
  set(uri: Uri, diagnostics: Diagnostic[]): void {
    this.all.delete(uri.toString());
    if (diagnostics.length > 0) { this.all.set(uri.toString(), diagnostics); }
  }
  has(uri: Uri): boolean { return this.all.has(uri.toString()); }
  forEach(call: (uri: Uri, diagnostics: Diagnostic[]) => void): void { this.all.forEach((d, uri) => call(Uri.parse(uri), d)); }
  clear(): void { this.all.clear(); }
  dispose(): void { this.clear(); }
}

class Diagnostic {
  code?: unknown;
  constructor(readonly range: Range, readonly message: string, readonly severity: number) {}
}

class CodeActionKind {
  static readonly Empty = new CodeActionKind('');
  static readonly QuickFix = new CodeActionKind('quickfix');
  static readonly Refactor = new CodeActionKind('refactor');
  static readonly Source = new CodeActionKind('source');
  constructor(readonly value: string) {}
  append(part: string): CodeActionKind { return new CodeActionKind(this.value === '' ? part : `${this.value}.${part}`); }
}

interface Edit { range: Range; newText: string }

class WorkspaceEdit {
  readonly files = new Map<string, Edit[]>();
  readonly created: Uri[] = [];
  set(uri: Uri, edits: (Edit | [Edit, unknown])[]): void { this.files.set(uri.toString(), edits.map((e) => Array.isArray(e) ? e[0] : e)); }
  createFile(uri: Uri): void { this.created.push(uri); }
  entries(): [Uri, Edit[]][] { return [...this.files].map(([uri, edits]) => [Uri.parse(uri), edits]); }
}

/** A document that the editor has open. */
class Document {
  version = 1;
  languageId = 'yaml';
  constructor(readonly uri: Uri, private text: string) {}
  get fileName(): string { return this.uri.fsPath; }
  getText(): string { return this.text; }
  replace(edit: Edit): { range: Range; text: string } {
    const lines = this.text.split(/(?<=\n)/);
    const offset = (p: Position) => lines.slice(0, p.line).join('').length + p.character;
    this.text = this.text.slice(0, offset(edit.range.start)) + edit.newText + this.text.slice(offset(edit.range.end));
    this.version++;
    return { range: edit.range, text: edit.newText };
  }
}

/** Anything that is not here: a class, an enumeration or a function that registers something. */
const other: unknown = new Proxy(class { dispose(): void { /* there is nothing to end */ } }, {
  get: (c, name) => Reflect.get(c, name) ?? 0,
  apply: () => new Disposable(() => undefined),
});
const register = () => new Disposable(() => undefined);

function known<T extends object>(parts: T): T {
  return new Proxy(parts, { get: (all, name) => Reflect.get(all, name) ?? (/^(on|register)/.test(String(name)) ? register : undefined) });
}

export interface Shown { kind: string; text: string }

/** What a test sets, and what the extension did. */
export class Editor {
  settings: Record<string, unknown> = {};
  folders: { uri: Uri; name: string; index: number }[] = [];
  readonly documents: Document[] = [];
  readonly shown: Shown[] = []; // messages and documents
  readonly log: string[] = [];
  readonly picks: string[][] = []; // what was to choose from
  pick = (labels: string[]): string | undefined => labels[0];
  activeTextEditor?: { document: Document; selection: { active: Position } };
  readonly contexts = new Map<unknown, unknown>();
  readonly commands = new Map<string, (...args: never[]) => unknown>([['setContext', (name, value) => this.contexts.set(name, value)]]);
  readonly providers = new Map<string, unknown>(); // of trees and tasks
  readonly status = { text: '', tooltip: '', visible: false, show(): void { this.visible = true; }, hide(): void { this.visible = false; }, dispose(): void { this.visible = false; } };
  readonly changed = { folders: new EventEmitter<void>(), settings: new EventEmitter<{ affectsConfiguration(s: string): boolean }>() };
  private readonly opened = new EventEmitter<Document>();
  private readonly edited = new EventEmitter<unknown>();

  open(file: string): Document {
    const uri = Uri.file(file);
    let document = this.documents.find((d) => d.uri.path === file);
    if (document === undefined) {
      document = new Document(uri, fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '');
      this.documents.push(document);
      this.opened.fire(document);
    }
    return document;
  }

  edit(file: string, edits: Edit[]): void {
    const document = this.open(file);
    this.edited.fire({ document, contentChanges: edits.map((e) => document.replace(e)) });
  }

  run(command: string, ...args: unknown[]): Promise<unknown> {
    return Promise.resolve((this.commands.get(command) as (...all: unknown[]) => unknown)(...args));
  }

  /** The module `vscode` for this editor. */
  readonly module = this.parts();

  private parts(): object {
    const message = (kind: string) => (text: string): Promise<undefined> => { this.shown.push({ kind, text }); return Promise.resolve(undefined); };
    const log = (kind: string) => (text: unknown): number => this.log.push(`${kind}: ${text}`);
    const parts = {
      version: '1.91.0', Uri, Position, Range, Disposable, EventEmitter, CancellationTokenSource, Diagnostic, CodeActionKind, WorkspaceEdit,
      CancellationError: class extends Error {},
      RelativePattern: class { constructor(readonly base: Uri, readonly pattern: string) {} },
      TextEdit: class { constructor(readonly range: Range, readonly newText: string) {} },
      TreeItem: class { constructor(readonly label: string) {} },
      ThemeIcon: class { constructor(readonly id: string) {} },
      ProcessExecution: class { constructor(readonly process: string, readonly args: string[], readonly options: object) {} },
      Task: class { constructor(readonly definition: object, readonly scope: object, readonly name: string, readonly source: string, readonly execution: object, readonly problemMatchers: string[]) {} },
      TreeItemCollapsibleState: { Expanded: 2 }, StatusBarAlignment: { Left: 1 }, DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2, Hint: 3 },
      LogLevel: { Off: 0, Trace: 1, Debug: 2, Info: 3, Warning: 4, Error: 5 },
      env: { appName: 'stand-in', language: 'en' },
      languages: known({
        createDiagnosticCollection: () => new DiagnosticCollection(),
        match: (selector: { scheme?: string; pattern?: { base: Uri; pattern: string } }[], d: Document) =>
          Number(selector.some((s) => s.scheme === d.uri.scheme && minimatch(d.uri.path, `${s.pattern!.base.path}/${s.pattern!.pattern}`, { dot: true }))),
      }),
      commands: {
        registerCommand: (name: string, run: (...args: never[]) => unknown) => {
          if (this.commands.has(name)) { throw new Error(`command '${name}' already exists`); }
          this.commands.set(name, run);
          return new Disposable(() => this.commands.delete(name));
        },
        executeCommand: (name: string, ...args: unknown[]) => this.run(name, ...args),
      },
      tasks: { registerTaskProvider: (name: string, p: unknown) => { this.providers.set(name, p); return register(); } },
      window: known({
        createOutputChannel: () => ({ logLevel: 3, onDidChangeLogLevel: register, show: () => undefined, dispose: () => undefined, appendLine: log('text'), trace: () => 0, debug: () => 0, info: log('info'), warn: log('warning'), error: log('error') }),
        createStatusBarItem: () => this.status,
        registerTreeDataProvider: (name: string, p: unknown) => { this.providers.set(name, p); return register(); },
        showErrorMessage: message('error'), showWarningMessage: message('warning'), showInformationMessage: message('information'),
        showTextDocument: (uri: Uri, options: { selection?: Range }) => {
          const document = this.open(uri.path);
          this.shown.push({ kind: 'document', text: document.getText() });
          this.activeTextEditor = { document, selection: { active: options.selection?.start ?? new Position(0, 0) } };
          return Promise.resolve(this.activeTextEditor);
        },
        showQuickPick: (items: { label: string }[]) => {
          this.picks.push(items.map((i) => i.label));
          const label = this.pick(items.map((i) => i.label));
          return Promise.resolve(items.find((i) => i.label === label));
        },
        withProgress: (_: unknown, run: (p: object, token: object) => unknown) => run({ report: () => undefined }, new CancellationTokenSource().token),
        tabGroups: known({ all: [] }), visibleTextEditors: [],
      }),
      workspace: known({
        notebookDocuments: [], textDocuments: this.documents,
        onDidOpenTextDocument: this.opened.event, onDidChangeTextDocument: this.edited.event,
        onDidChangeWorkspaceFolders: this.changed.folders.event, onDidChangeConfiguration: this.changed.settings.event,
        getConfiguration: (section: string) => ({ get: (name: string, or: unknown) => this.settings[`${section}.${name}`] ?? or }),
        asRelativePath: (uri: Uri) => {
          const folder = this.folders.find((f) => uri.path.startsWith(f.uri.path + '/'));
          return folder === undefined ? uri.path : (this.folders.length > 1 ? folder.name + '/' : '') + uri.path.slice(folder.uri.path.length + 1);
        },
        applyEdit: (edit: WorkspaceEdit) => {
          edit.entries().forEach(([uri, edits]) => this.edit(uri.path, edits));
          return Promise.resolve(true);
        },
      }),
    };
    Object.defineProperty(parts.workspace, 'workspaceFolders', { get: () => this.folders });
    Object.defineProperty(parts.window, 'activeTextEditor', { get: () => this.activeTextEditor });
    return new Proxy(parts, { get: (all, name) => Reflect.get(all, name) ?? (name === '__esModule' ? true : other) });
  }
}

/** The editor of this process: whoever requires `vscode` gets its module. */
export const editor = new Editor();

const loader = Module as unknown as { _load(request: string, ...more: unknown[]): unknown };
const load = loader._load;
loader._load = (request, ...more) => request === 'vscode' ? editor.module : load.call(loader, request, ...more);
