// A single node of our own with hot state, and the operator's tool at work on it, both with their memory watched.

import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { runLanes, type SetupRequest } from '../load/streams.ts';
import { memoryOf, removeFolder, startChild, temporaryFolder, waitForPort, type Memory } from '../processes.ts';
import { freePort } from '../../test/support/ports.ts';
import { waitForLeaders } from './millrace.ts';
import { streamPath, type StartOptions } from './target.ts';

const SAMPLE_MS = 20;
const FILL_STREAMS = 128;
/** Thirty-two of them at once fit a mailbox. */
const FILL_BODY_BYTES = 128 * 1024;
const CONTENT_TYPE = 'application/octet-stream';
/** A node that is not watched has none. */
const NOTHING: Memory = { residentMiB: 0, anonymousMiB: 0 };

export interface BackupNode {
  readonly port: number;
  memory(): Memory;
  /** Size of the files of LMDB; they grow and never shrink. */
  databaseBytes(): number;
  /** Runs a verb on this node to its end. */
  ctl(verb: string, ...args: readonly string[]): Promise<ToolRun>;
  stop(): Promise<void>;
}

export interface ToolRun {
  readonly seconds: number;
  /** The most that was seen of each. */
  readonly tool: Memory;
  readonly server: Memory;
}

/** `isUsed` = false: nothing is written, so that it can be restored into. */
export async function startBackupNode(options: StartOptions, isUsed = true): Promise<BackupNode> {
  const folder = temporaryFolder(options.dir, 'backup');
  const data = join(folder, 'data');
  const [port, adminPort] = [await freePort(), await freePort()];
  const planes = ['--listen', `127.0.0.1:${port}`, '--admin-listen', `127.0.0.1:${adminPort}`];
  const flags = ['--data', data, ...planes, '--cores', String(options.cores)];
  const child = startChild(process.execPath, [...options.nodeArgs, options.entry, ...flags], options.cpus);
  await waitForPort(child, port, 'millrace');
  if (isUsed) await waitForLeaders(port);
  const config = join(folder, 'cluster.toml');
  writeFileSync(config, `[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = ${adminPort}\n`);
  const entry = join(dirname(options.entry), 'ctl.js');
  return {
    port,
    memory: () => memoryOf(child.pid),
    databaseBytes: () =>
      readdirSync(data)
        .filter((name) => name.startsWith('shard-'))
        .reduce((sum, name) => sum + statSync(join(data, name, 'data.mdb')).size, 0),
    ctl: (verb, ...args) => runTool(entry, [verb, '--config', config, ...args], () => memoryOf(child.pid)),
    stop: async () => {
      await child.stop();
      removeFolder(folder);
    },
  };
}

/** For verbs that ask no node. */
export function runToolAlone(options: StartOptions, ...args: readonly string[]): Promise<ToolRun> {
  return runTool(join(dirname(options.entry), 'ctl.js'), args, () => NOTHING);
}

async function runTool(entry: string, args: readonly string[], server: () => Memory): Promise<ToolRun> {
  const startedMs = performance.now();
  const child = startChild(process.execPath, [entry, ...args]);
  const most = { tool: NOTHING, server: NOTHING };
  const look = (): void => {
    most.tool = larger(most.tool, memoryOf(child.pid));
    most.server = larger(most.server, server());
  };
  const timer = setInterval(look, SAMPLE_MS);
  const code = await child.exited;
  clearInterval(timer);
  const seconds = (performance.now() - startedMs) / 1000;
  await child.closed;
  if (code !== 0) throw new Error(`millracectl ${args[0]} ended with ${code}: ${child.output().trim()}`);
  return { seconds, ...most };
}

/** A process that has ended has no figures any more. */
function larger(a: Memory, b: Memory): Memory {
  return {
    residentMiB: Math.max(a.residentMiB, b.residentMiB || 0),
    anonymousMiB: Math.max(a.anonymousMiB, b.anonymousMiB || 0),
  };
}

/** Hot state of about this many bytes, over all groups. */
export async function fillHot(node: BackupNode, bytes: number): Promise<void> {
  const body = Buffer.alloc(FILL_BODY_BYTES, 'Millrace.');
  const appends = Math.max(1, Math.round(bytes / FILL_STREAMS / FILL_BODY_BYTES));
  const lanes = Array.from({ length: FILL_STREAMS }, (_, i): SetupRequest[] => {
    const path = streamPath(`hot-${i}`);
    const create: SetupRequest = { method: 'PUT', path, contentType: CONTENT_TYPE };
    const append: SetupRequest = { method: 'POST', path, contentType: CONTENT_TYPE, body };
    return [create, ...Array.from({ length: appends }, () => append)];
  });
  await runLanes(node.port, lanes);
}

/** A folder for backups, separate from the nodes'. */
export function backupFolder(options: StartOptions): string {
  const folder = temporaryFolder(options.dir, 'backups');
  mkdirSync(folder, { recursive: true });
  return folder;
}
