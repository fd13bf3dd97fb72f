// The extension: it starts the servers, and connects the view, the commands and the task to them.
import * as fs from 'node:fs';
import * as os from 'node:os';
import * as vscode from 'vscode';
import { accept, explain, fix } from './actions';
import { counted, type Finding } from './findings';
import { argumentsFrom, checkArguments, findProgram, type Found } from './program';
import { Servers } from './servers';
import { FindingsView } from './view';

let servers: Servers | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel('preadmit', { log: true });
  const all = servers = new Servers(log, program, flags, (folder, why) => {
    const text = `preadmit has ended in ${folder}: ${why.replace(/^preadmit: /, '') || 'its output may say why'}`;
    void offer(text, 'Show Output', () => log.show());
  });
  const view = new FindingsView(() => all.findings());
  const status = vscode.window.createStatusBarItem('preadmit', vscode.StatusBarAlignment.Left);
  status.name = 'preadmit';
  context.subscriptions.push(
    log, status,
    all.onDidChange(() => {
      view.refresh();
      showStatus(status, all);
    }),
    vscode.window.registerTreeDataProvider('preadmit.findings', view),
    vscode.tasks.registerTaskProvider('preadmit', { provideTasks, resolveTask }),
    vscode.workspace.onDidChangeWorkspaceFolders(() => all.update()),
    vscode.workspace.onDidChangeConfiguration((e) => e.affectsConfiguration('preadmit') ? start(all, () => all.restart()) : undefined),
    command('restart', () => start(all, () => all.restart())),
    command('showOutput', () => log.show()),
    command('groupByRule', () => view.refresh('rule')),
    command('groupByFile', () => view.refresh('file')),
    command('fix', async (f?: Finding) => withFinding(all, f, (g) => fix(all, g))),
    command('accept', async (f?: Finding) => withFinding(all, f, (g) => accept(all, g))),
    command('explain', async (at?: Finding | ServerPosition, rule?: string) =>
      at !== undefined && 'textDocument' in at
        ? explain(all, vscode.Uri.parse(at.textDocument.uri), at.position, rule ?? '')
        : withFinding(all, at, (g) => explain(all, vscode.Uri.parse(g.uri), g, g.rule))),
  );
  await vscode.commands.executeCommand('setContext', 'preadmit.active', true); // shows the view
  await start(all, () => all.update());
}

export async function deactivate(): Promise<void> {
  await servers?.dispose();
}

/** The argument that the server gives its command preadmit.explain in a code action. */
interface ServerPosition {
  textDocument: { uri: string };
  position: { line: number; character: number };
}

/** Starts servers, and says what to do if there is no program. */
async function start(all: Servers, begin: () => Promise<void>): Promise<void> {
  await begin();
  if (all.problem !== '') {
    void offer(all.problem, 'Open Settings', () => vscode.commands.executeCommand('workbench.action.openSettings', 'preadmit.path'));
  }
}

/** Shows a message with a button. */
async function offer(text: string, button: string, run: () => unknown): Promise<void> {
  if (await vscode.window.showWarningMessage(text, button) === button) {
    await run();
  }
}

/** Registers a command whose errors are shown. */
function command<A extends unknown[]>(name: string, run: (...args: A) => unknown): vscode.Disposable {
  return vscode.commands.registerCommand(`preadmit.${name}`, async (...args: A) => {
    try {
      await run(...args);
    } catch (e) {
      void vscode.window.showWarningMessage(`preadmit: ${e instanceof Error ? e.message : e}`);
    }
  });
}

/** Calls a function with a finding: that of the tree, or one on the line of the cursor. */
async function withFinding(all: Servers, f: Finding | undefined, call: (f: Finding) => Promise<void>): Promise<void> {
  if (f === undefined) {
    const editor = vscode.window.activeTextEditor;
    const here = all.findings().filter((g) => g.uri === editor?.document.uri.toString() && g.line === editor.selection.active.line);
    if (here.length === 0) {
      throw new Error('there is no finding on this line');
    }
    f = here.length === 1 ? here[0] : (await vscode.window.showQuickPick(here.map((g) => ({ label: g.rule, description: g.message, finding: g }))))?.finding;
  }
  if (f !== undefined) {
    await call(f);
  }
}

function showStatus(item: vscode.StatusBarItem, all: Servers): void {
  const findings = counted(all.findings());
  item.command = 'preadmit.findings.focus';
  switch (all.status) {
    case 'off':
      item.hide();
      return;
    case 'failed':
      item.text = '$(warning) preadmit';
      item.tooltip = all.problem || 'preadmit has ended. Its output says why.';
      item.command = 'preadmit.showOutput';
      break;
    case 'starting':
      item.text = '$(loading~spin) preadmit';
      item.tooltip = 'preadmit is starting.';
      break;
    case 'running':
      item.text = findings === '' ? 'preadmit' : `preadmit: ${findings}`;
      item.tooltip = findings === '' ? 'preadmit is running, and has shown no findings.' : `preadmit: ${findings}`;
  }
  item.show();
}

/** The program and its flags come from the settings of the user or the machine, never of the workspace. */
function program(): Found {
  return findProgram(vscode.workspace.getConfiguration('preadmit').get<string>('path', ''), {
    platform: process.platform, path: process.env.PATH ?? '', home: os.homedir(),
    folders: (vscode.workspace.workspaceFolders ?? []).map((f) => real(f.uri.fsPath)), real, runs,
  });
}

function flags(): string[] {
  return argumentsFrom(vscode.workspace.getConfiguration('preadmit').get<unknown>('flags', []), 'The setting preadmit.flags');
}

function real(file: string): string {
  try {
    return fs.realpathSync(file);
  } catch {
    return file;
  }
}

function runs(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

function provideTasks(): vscode.Task[] {
  return (vscode.workspace.workspaceFolders ?? []).flatMap((folder) => checkTask({ type: 'preadmit' }, folder) ?? []);
}

function resolveTask(task: vscode.Task): vscode.Task | undefined {
  return typeof task.scope === 'object' ? checkTask(task.definition, task.scope) : undefined;
}

function checkTask(definition: vscode.TaskDefinition, folder: vscode.WorkspaceFolder): vscode.Task | undefined {
  const found = program();
  if ('problem' in found) {
    return undefined;
  }
  const run = new vscode.ProcessExecution(found.file, checkArguments(flags(), argumentsFrom(definition.flags ?? [], '"flags" of a task')), { cwd: folder.uri.fsPath });
  return new vscode.Task(definition, folder, 'check', 'preadmit', run, ['$preadmit', '$preadmit-warning', '$preadmit-note']);
}
