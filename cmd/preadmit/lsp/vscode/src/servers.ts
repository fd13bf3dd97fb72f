// The language servers: one for each folder of the workspace.
import { createInterface } from 'node:readline';
import * as vscode from 'vscode';
import { CloseAction, LanguageClient, RevealOutputChannelOn, State, type DynamicFeature, type ErrorHandler, type StaticFeature } from 'vscode-languageclient/node';
import type { Finding } from './findings';
import { type Found, serverArguments } from './program';

/** The unsaved text of these files goes to the server. All others are checked as they are saved. */
const files = '**/*.{yaml,yml,json,tpl,rego,jsonnet,libsonnet}';

/**
 * A client that leaves two things to the extension: the commands of the server, since each can be
 * registered only once, whatever the number of servers; and to say that a server has ended.
 */
class Client extends LanguageClient {
  started = false; // for the first time
  ended: () => void = () => undefined; // called when it was started and is not started again

  override registerFeature(feature: StaticFeature | DynamicFeature<unknown>): void {
    if (!('registrationType' in feature) || feature.registrationType.method !== 'workspace/executeCommand') {
      super.registerFeature(feature);
    }
  }

  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }

  /** Starts a server that crashes again, unless it ends while it starts. */
  override createDefaultErrorHandler(restarts?: number): ErrorHandler {
    const usual = super.createDefaultErrorHandler(restarts);
    return {
      error: (error, message, count) => usual.error(error, message, count),
      closed: async () => {
        const result = this.state === State.Starting ? { action: CloseAction.DoNotRestart } : await usual.closed();
        if (result.action === CloseAction.DoNotRestart && this.started) {
          this.ended();
        }
        return result;
      },
    };
  }
}

/** What the servers of the workspace do as a whole. */
export type Status = 'off' | 'starting' | 'running' | 'failed';

export class Servers implements vscode.Disposable {
  private readonly clients = new Map<string, LanguageClient>(); // by the URI of their folder
  private readonly changes = new vscode.EventEmitter<void>();
  private work: Promise<void> = Promise.resolve(); // starts and ends of servers, one after another
  readonly onDidChange = this.changes.event; // the findings or the status
  problem = ''; // why no server can be started

  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly find: () => Found,
    private readonly flags: () => string[],
    private readonly ended: (folder: string, why: string) => void, // unless the extension has ended the server
  ) {}

  /** Starts the servers of new folders, and ends those of folders that are gone. */
  update(): Promise<void> {
    this.work = this.work.then(() => this.apply());
    return this.work;
  }

  /** Ends all servers, and starts them with the current settings. */
  restart(): Promise<void> {
    this.work = this.work.then(() => this.stop(() => true));
    return this.update();
  }

  dispose(): Promise<void> {
    this.work = this.work.then(() => this.stop(() => true));
    return this.work;
  }

  get status(): Status {
    const states = [...this.clients.values()].map((c) => c.state);
    if (this.problem !== '' || states.some(isEnd)) {
      return 'failed';
    }
    return states.length === 0 ? 'off' : states.every((s) => s === State.Running) ? 'running' : 'starting';
  }

  /** The server that has findings in a file. */
  of(uri: vscode.Uri): LanguageClient | undefined {
    return [...this.clients.values()].find((c) => c.diagnostics?.has(uri));
  }

  /** The findings that the servers have published. */
  findings(): Finding[] {
    const all: Finding[] = [];
    for (const client of this.clients.values()) {
      client.diagnostics?.forEach((uri, diagnostics) => {
        const file = vscode.workspace.asRelativePath(uri);
        for (const d of diagnostics) {
          const rule = String(typeof d.code === 'object' ? d.code.value : d.code ?? '');
          all.push({ uri: uri.toString(), file, line: d.range.start.line, character: d.range.start.character, severity: d.severity as number, rule, message: d.message });
        }
      });
    }
    return all;
  }

  private async apply(): Promise<void> {
    const folders = outermost(vscode.workspace.workspaceFolders ?? []).filter((f) =>
      vscode.workspace.getConfiguration('preadmit', f.uri).get<boolean>('enable', true));
    await this.stop((uri) => !folders.some((f) => f.uri.toString() === uri));
    const found = folders.length === 0 ? { file: '' } : this.find();
    this.problem = 'problem' in found ? found.problem : '';
    let args: string[] = [];
    try {
      args = serverArguments(this.flags());
    } catch (e) {
      this.problem ||= e instanceof Error ? e.message : String(e);
    }
    if ('file' in found && this.problem === '') {
      folders.filter((f) => !this.clients.has(f.uri.toString())).forEach((f) => void this.start(f, found.file, args));
    }
    this.changes.fire();
  }

  /** Starts a server. Nothing waits for it, because a wrong program may never answer. */
  private async start(folder: vscode.WorkspaceFolder, command: string, args: string[]): Promise<void> {
    const key = folder.uri.toString();
    let said = ''; // the last line on standard error
    const client = new Client('preadmit', 'preadmit', { command, args, options: { cwd: folder.uri.fsPath } }, {
      documentSelector: [{ scheme: 'file', pattern: { baseUri: key, pattern: files } }],
      workspaceFolder: folder,
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationFailedHandler: () => false,
      stdioOptions: {
        stdout: () => undefined, // has the protocol
        stderr: (input) => createInterface(input).on('line', (line) => {
          said = line;
          this.log.error(line);
        }),
      },
      middleware: {
        handleDiagnostics: (uri, diagnostics, next) => {
          next(uri, diagnostics);
          this.changes.fire();
        },
      },
    });
    client.onDidChangeState(() => this.changes.fire());
    const ended = (why: string) => this.clients.get(key) === client && this.ended(folder.name, why);
    client.ended = () => ended(said);
    this.clients.set(key, client);
    this.log.info(`${folder.name}: ${[command, ...args].join(' ')}`);
    try {
      await client.start();
      client.started = true;
    } catch (e) {
      ended(said || String(e));
    }
  }

  private async stop(which: (uri: string) => boolean): Promise<void> {
    await Promise.all([...this.clients].filter(([uri]) => which(uri)).map(async ([uri, client]) => {
      this.clients.delete(uri);
      if (!isEnd(client.state)) { // one that is starting rejects this, and is killed after two seconds
        await client.dispose().catch((e: unknown) => this.log.warn(String(e)));
      }
    }));
  }
}

function isEnd(s: State): boolean {
  return s === State.Stopped || s === State.StartFailed;
}

/** The folders that are in no other one: a server checks the folders in its own, too. */
function outermost(folders: readonly vscode.WorkspaceFolder[]): vscode.WorkspaceFolder[] {
  return folders.filter((f) => f.uri.scheme === 'file' && !folders.some((g) => f.uri.toString().startsWith(g.uri.toString() + '/')));
}
