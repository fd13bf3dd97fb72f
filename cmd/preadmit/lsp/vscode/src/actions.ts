// What can be done about a finding. The server proposes each edit and explains.
import * as vscode from 'vscode';
import { CodeAction, CodeActionRequest, ExecuteCommandRequest, type LanguageClient } from 'vscode-languageclient/node';
import { type Finding, reasonWanted } from './findings';
import type { Servers } from './servers';

/** Makes the fix of a finding that the user chooses. The only one is made at once if it is safe. */
export async function fix(servers: Servers, f: Finding): Promise<void> {
  const [client, all] = await proposals(servers, f, 'quickfix.fix');
  if (all.length === 0) {
    throw new Error(`no edit is proved to fix ${f.rule} here`);
  }
  const action = all.length === 1 && all[0].isPreferred ? all[0] : await chosen(all, `How to fix ${f.rule}`);
  if (action !== undefined) {
    await apply(client, action);
  }
}

/** Adds a suppression, and shows where to write the reason. */
export async function accept(servers: Servers, f: Finding): Promise<void> {
  const [client, all] = await proposals(servers, f, 'quickfix.accept');
  if (all.length === 0) {
    throw new Error(`${f.rule} can't be accepted here`);
  }
  const action = await chosen(all, 'What to accept');
  if (action !== undefined) {
    await apply(client, action);
  }
}

/** Makes the server open the explanation of the findings of a rule at a position. */
export async function explain(servers: Servers, uri: vscode.Uri, at: { line: number; character: number }, rule: string): Promise<void> {
  const argument = { textDocument: { uri: uri.toString() }, position: at };
  await serverOf(servers, uri).sendRequest(ExecuteCommandRequest.type, { command: 'preadmit.explain', arguments: [argument, rule] });
}

/** The code actions of a kind for a finding. The server gives those of all findings on a line. */
async function proposals(servers: Servers, f: Finding, kind: string): Promise<[LanguageClient, CodeAction[]]> {
  const uri = vscode.Uri.parse(f.uri);
  const client = serverOf(servers, uri);
  const at = { line: f.line, character: f.character };
  const all = await client.sendRequest(CodeActionRequest.type, {
    textDocument: { uri: client.code2ProtocolConverter.asUri(uri) }, range: { start: at, end: at }, context: { diagnostics: [], only: [kind] },
  }) ?? [];
  return [client, all.filter((a): a is CodeAction => CodeAction.is(a) && a.edit !== undefined &&
    (a.diagnostics ?? []).some((d) => d.code === f.rule && d.message === f.message && d.range.start.line === f.line))];
}

function serverOf(servers: Servers, uri: vscode.Uri): LanguageClient {
  const client = servers.of(uri);
  if (client === undefined) {
    throw new Error(`there is no finding in ${vscode.workspace.asRelativePath(uri)}`);
  }
  return client;
}

async function chosen(all: CodeAction[], title: string): Promise<CodeAction | undefined> {
  return (await vscode.window.showQuickPick(all.map((action) => ({ label: action.title, action })), { title }))?.action;
}

/** Applies an action's edit, and shows the last place that it changes. The user saves the files. */
async function apply(client: LanguageClient, action: CodeAction): Promise<void> {
  const edit = await client.protocol2CodeConverter.asWorkspaceEdit(action.edit);
  if (edit === undefined || !await vscode.workspace.applyEdit(edit)) {
    throw new Error(`VS Code could not make the edit "${action.title}"`);
  }
  for (const [uri, edits] of edit.entries().slice(-1)) {
    const { range: { start }, newText } = edits[edits.length - 1];
    const reason = reasonWanted(newText);
    const at = reason === undefined ? start : new vscode.Position(start.line + reason.line, reason.character);
    await vscode.window.showTextDocument(uri, { selection: new vscode.Range(at, at) });
  }
}
