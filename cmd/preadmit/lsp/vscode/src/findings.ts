// Findings and their groups, as the tree shows them. Nothing here needs VS Code.

/** The severities of VS Code, the worst first. */
export enum Severity { Error, Warning, Information, Hint }

/** A diagnostic of the language server, with its file. */
export interface Finding {
  uri: string;
  file: string; // its name in the folder
  line: number; // from 0, as the character
  character: number;
  severity: Severity;
  rule: string;
  message: string;
}

export type Grouping = 'rule' | 'file';

/** The findings of a rule or a file. */
export interface Group {
  name: string;
  by: Grouping;
  findings: Finding[];
}

/** Groups findings: the group with the worst finding first, then the larger one. */
export function grouped(findings: Finding[], by: Grouping): Group[] {
  const groups = new Map<string, Group>();
  for (const f of [...findings].sort(order)) {
    const name = f[by];
    const group = groups.get(name) ?? { name, by, findings: [] };
    groups.set(name, group);
    group.findings.push(f);
  }
  return [...groups.values()].sort((a, b) =>
    worst(a) - worst(b) || b.findings.length - a.findings.length || compare(a.name, b.name));
}

/** The worst severity in a group. */
export function worst(g: Group): Severity {
  return Math.min(...g.findings.map((f) => f.severity));
}

/** Counts findings by severity, such as "4 errors, 1 warning". The text is empty if there are none. */
export function counted(findings: Finding[]): string {
  const names = ['error', 'warning', 'note', 'note'];
  const counts = new Map<string, number>();
  for (const f of findings) {
    const name = names[f.severity];
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...new Set(names)].filter((name) => counts.has(name))
    .map((name) => `${counts.get(name)} ${name}${counts.get(name) === 1 ? '' : 's'}`).join(', ');
}

/** How a finding reads in a group, which already has its file or its rule as title. */
export function labelled(f: Finding, by: Grouping): { label: string; description: string } {
  const first = f.message.split('\n', 1)[0];
  return by === 'rule' ? { label: `${f.file}:${f.line + 1}`, description: first } : { label: first, description: `${f.rule}, line ${f.line + 1}` };
}

/** Where a new suppression in a text lacks its reason: the line in the text and the character in it. */
export function reasonWanted(text: string): { line: number; character: number } | undefined {
  const lines = text.split('\n');
  const line = lines.findIndex((l) => /^\s*(- )?reason: #/.test(l));
  return line < 0 ? undefined : { line, character: lines[line].indexOf('#') };
}

function order(a: Finding, b: Finding): number {
  return a.severity - b.severity || compare(a.file, b.file) || a.line - b.line || a.character - b.character || compare(a.rule, b.rule) || compare(a.message, b.message);
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
