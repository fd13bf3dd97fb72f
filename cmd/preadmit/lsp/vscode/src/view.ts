// The tree of findings.
import * as vscode from 'vscode';
import { counted, type Finding, type Group, type Grouping, grouped, labelled, Severity, worst } from './findings';

export class FindingsView implements vscode.TreeDataProvider<Group | Finding> {
  private readonly changes = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changes.event;
  private by: Grouping = 'rule';

  constructor(private readonly findings: () => Finding[]) {}

  refresh(by = this.by): void {
    this.by = by;
    this.changes.fire();
  }

  getChildren(of?: Group | Finding): (Group | Finding)[] {
    return of === undefined ? grouped(this.findings(), this.by) : 'findings' in of ? of.findings : [];
  }

  getTreeItem(node: Group | Finding): vscode.TreeItem {
    if ('findings' in node) {
      const item = new vscode.TreeItem(node.name, vscode.TreeItemCollapsibleState.Expanded);
      item.id = `${node.by} ${node.name}`;
      item.description = counted(node.findings);
      item.iconPath = icon(worst(node));
      return item;
    }
    const { label, description } = labelled(node, this.by);
    const item = new vscode.TreeItem(label);
    item.description = description;
    item.tooltip = `${node.rule}\n${node.message}`;
    item.iconPath = icon(node.severity);
    item.contextValue = 'finding';
    const at = new vscode.Position(node.line, node.character);
    item.command = { title: 'Open', command: 'vscode.open', arguments: [vscode.Uri.parse(node.uri), { selection: new vscode.Range(at, at) }] };
    return item;
  }
}

function icon(s: Severity): vscode.ThemeIcon {
  return s === Severity.Error ? new vscode.ThemeIcon('error', new vscode.ThemeColor('list.errorForeground'))
    : s === Severity.Warning ? new vscode.ThemeIcon('warning', new vscode.ThemeColor('list.warningForeground'))
      : new vscode.ThemeIcon('info');
}
