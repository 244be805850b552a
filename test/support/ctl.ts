// The operator's tool as a process, and a cluster file for it.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { REPO_ROOT } from './paths.ts';
import type { TestCluster } from './cluster.ts';

export const CTL_ENTRY: string = join(REPO_ROOT, 'dist', 'ctl.js');

export interface CtlRun {
  readonly child: ChildProcess;
  stdout: string;
  stderr: string;
  /** Exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | string>;
}

export interface CtlResult {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

const running = new Set<ChildProcess>();
process.on('exit', () => running.forEach((child) => child.kill('SIGKILL')));

export function startCtl(
  args: readonly string[],
  { input = '', env = {} }: { readonly input?: string; readonly env?: Readonly<Record<string, string>> } = {},
): CtlRun {
  const child = spawn(process.execPath, [CTL_ENTRY, ...args], { env: { ...process.env, ...env }, stdio: 'pipe' });
  running.add(child);
  const run: CtlRun = {
    child,
    stdout: '',
    stderr: '',
    ended: new Promise((resolve) => {
      child.once('close', (code, signal) => {
        running.delete(child);
        resolve(code ?? signal ?? -1);
      });
    }),
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (run.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (run.stderr += text));
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  return run;
}

export async function ctl(
  args: readonly string[],
  options: { readonly input?: string; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<CtlResult> {
  const run = startCtl(args, options);
  const code = await run.ended;
  return { code, stdout: run.stdout, stderr: run.stderr };
}

/** A file that is removed when this process ends. */
export function scratchFile(name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-ctl-'));
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}

/** The cluster file of a running cluster. Nodes must have been started once: their ports are chosen then. */
export function clusterToml(cluster: TestCluster, ids: readonly number[] = cluster.ids): string {
  return ids
    .map((id) =>
      ['[[nodes]]', `id = ${id}`, 'host = "127.0.0.1"', `admin_port = ${cluster.node(id).adminPort}`, ''].join('\n'),
    )
    .join('\n');
}
