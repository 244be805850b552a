/** The command that restarts one node: a template of the operator's, run by the shell. */
import { type ChildProcess, spawn } from 'node:child_process';
import process from 'node:process';
import { suggest } from '../config/suggest.ts';
import type { ClusterNode } from '../nodes/cluster-file.ts';
import { Failure, Interrupted, UsageError } from '../nodes/failure.ts';
import type { EnvironmentVariables } from '../config/environment.ts';

/** A map, because an operator may write {constructor}. */
const PLACEHOLDERS: ReadonlyMap<string, (node: ClusterNode) => string> = new Map([
  ['host', ({ host }: ClusterNode) => host],
  ['node_id', ({ id }: ClusterNode) => String(id)],
  ['name', ({ name }: ClusterNode) => name],
  ['instance_id', ({ instanceId }: ClusterNode) => instanceId],
  ['admin_host', ({ adminUrl }: ClusterNode) => new URL(adminUrl).hostname.replace(/^\[|\]$/g, '')],
  ['admin_port', portOf],
  // This opens no tunnel. An operator who has one lists its local end in the cluster file.
  ['local_port', portOf],
]);

/** A failure repeats this much of the command's output. */
const SHOWN_CHARS_MAX = 300;
const KILL_AFTER_MS = 5000;

function portOf({ adminUrl }: ClusterNode): string {
  const { port, protocol } = new URL(adminUrl);
  return port === '' ? (protocol === 'https:' ? '443' : '80') : port;
}

/** `{host}` and so on; `{{` stands for a brace, and `${...}` is the shell's. Throws UsageError. */
export function renderCommand(template: string, node: ClusterNode): string {
  return template.replace(/\{\{|\$\{[^}]*\}|\{(\w+)\}/g, (whole: string, name: string | undefined) => {
    if (whole === '{{') return '{';
    if (name === undefined) return whole;
    const value = PLACEHOLDERS.get(name)?.(node);
    const known = [...PLACEHOLDERS.keys()].map((one) => `{${one}}`);
    if (value === undefined)
      throw new UsageError(
        `the restart command has an unknown ${whole}${suggest(whole, known) || `; there are ${known.join(' ')}`}`,
      );
    if (value === '')
      throw new UsageError(`node ${node.id} has no ${name} in the cluster file, and the restart command wants one`);
    // It becomes part of a shell's line.
    if (!/^[\w.:@%+/-]+$/.test(value))
      throw new UsageError(`node ${node.id}: ${name} ${JSON.stringify(value)} cannot stand in a restart command`);
    return value;
  });
}

/** With several nodes a command without any of these would restart the same one each time. */
export function tellsNodesApart(template: string, nodes: readonly ClusterNode[]): boolean {
  return new Set(nodes.map((node) => renderCommand(template, node))).size === nodes.length;
}

export interface CommandOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly env: EnvironmentVariables;
  /** Receives the command's output. */
  readonly tell: (text: string) => void;
}

/** Resolves when the command ended with 0. */
export async function runCommand(command: string, { timeoutMs, signal, env, tell }: CommandOptions): Promise<void> {
  if (signal.aborted) throw new Interrupted();
  // A group of its own, so that what the shell started ends with it.
  const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'], detached: true, env });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-SHOWN_CHARS_MAX);
      tell(text);
    });
  }
  let stopped: 'late' | 'interrupted' | undefined;
  const stop = (why: 'late' | 'interrupted'): void => {
    stopped ??= why;
    killGroup(child, 'SIGTERM');
    setTimeout(() => killGroup(child, 'SIGKILL'), KILL_AFTER_MS).unref();
  };
  const onAbort = (): void => stop('interrupted');
  const timer = setTimeout(() => stop('late'), timeoutMs);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    const end = await ended(child);
    if (stopped === 'interrupted')
      throw new Failure('interrupted while the restart command ran, so the node may be down');
    if (stopped === 'late')
      throw new Failure(`the restart command did not end within ${timeoutMs / 1000} s and was killed`);
    if (end === 0) return;
    const words = said.trim().split('\n').at(-1) ?? '';
    throw new Failure(`the restart command ended with ${end}${words === '' ? '' : `: ${words}`}`);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
  }
}

/** `exit`, not `close`: a daemon that the command left behind may hold the pipes open without end. */
function ended(child: ChildProcess): Promise<number | string> {
  return new Promise((resolve, reject) => {
    child.once('error', (error) => reject(new Failure(`the restart command cannot be started: ${error.message}`)));
    child.once('exit', (code, signal) => {
      setImmediate(() => {
        child.stdout?.destroy();
        child.stderr?.destroy();
        resolve(code ?? signal ?? -1);
      });
    });
  });
}

function killGroup(child: ChildProcess, signal: NodeJS.Signals): void {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  try {
    process.kill(-child.pid, signal);
  } catch {
    // It ended in this moment.
  }
}
