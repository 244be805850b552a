// Directories that trials copy: made once, by processes that are killed or stopped.
import assert from 'node:assert/strict';
import { cpSync, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type ClusterOptions, TestCluster } from '../support/cluster.ts';
import { ctl, scratchFile } from '../support/ctl.ts';
import { TestServer } from '../support/server.ts';
import { until } from '../support/until.ts';
import { type Phase, write } from './content.ts';

export const GROUPS = 2;
export const NODES = [1, 2, 3];
/** A log that is longer than what groups keep of it for slow followers, so that they get snapshots. */
const FILLER_BYTES = 1024 * 1024;
const FILLERS = 12;

const WITH_COLD: readonly Phase[] = ['cold', 'early', 'late'];
export const HOT: readonly Phase[] = ['early', 'late'];

const COLD = '[storage.cold]\nbackend = "dir"\n';
export const NOTHING_MOVES = `${COLD}flush_interval = "1h"\n`;
const ALL_MOVES = `${COLD}flush_interval = "50ms"\nflush_size = 1\n`;

export const CLUSTER: ClusterOptions = { groups: GROUPS, cores: 1 };

/** How the node ended. What was acknowledged before a kill is in the log alone. */
export const SINGLES = ['killed', 'stopped'] as const;
export type Single = (typeof SINGLES)[number];

async function withNode(dataDir: string, toml: string, body: (server: TestServer) => Promise<void>): Promise<void> {
  const server = new TestServer({ process: true, cores: 1, groups: GROUPS, dataDir, toml });
  try {
    await server.start();
    await body(server);
  } finally {
    await server.dispose();
  }
}

/** `behind`: node 3 was away while the others wrote more log than they keep; `lagging`: it lacks the last entries. */
export type ClusterKind = 'level' | 'lagging' | 'behind';

export class Prepared {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  single(how: Single): string {
    return join(this.folder, 'single', how);
  }

  get backup(): string {
    return join(this.folder, 'backup');
  }

  /** Data directory of a node. */
  node(how: ClusterKind, id: number): string {
    return join(this.folder, how, `node-${id}`);
  }

  /** Some places need more than others; each is made at its first use, and is there as a whole or not at all. */
  async make(what: 'single' | 'backup' | ClusterKind): Promise<void> {
    const target = join(this.folder, what);
    if (existsSync(target)) return;
    const unfinished = `${target}.${process.pid}`;
    mkdirSync(unfinished, { recursive: true });
    if (what === 'single') await makeSingle(unfinished);
    else if (what === 'backup') await makeBackup(unfinished);
    else await makeCluster(unfinished, what);
    try {
      renameSync(unfinished, target);
    } catch (error) {
      // Another process was first.
      if (!existsSync(target)) throw error;
      rmSync(unfinished, { recursive: true });
    }
  }
}

/** A part in the cold store, a part in rows, and in the one that was killed a part in the log alone. */
async function makeSingle(folder: string): Promise<void> {
  const dataDir = join(folder, 'data');
  await withNode(dataDir, ALL_MOVES, async (server) => {
    await write(server.port, 'cold', WITH_COLD);
    await until('all is in the cold store', async () => (await server.metrics())['cold_hot_bytes'] === 0);
    await server.stop();
  });
  await withNode(dataDir, NOTHING_MOVES, async (server) => {
    await write(server.port, 'early', WITH_COLD);
    await server.stop();
  });
  cpSync(dataDir, join(folder, 'stopped'), { recursive: true });
  await withNode(dataDir, NOTHING_MOVES, async (server) => {
    await write(server.port, 'late', WITH_COLD);
    await server.kill();
  });
  renameSync(dataDir, join(folder, 'killed'));
}

async function makeBackup(folder: string): Promise<void> {
  const server = new TestServer({ cores: 1, groups: GROUPS });
  try {
    await server.start();
    for (const phase of ['early', 'late'] as const) await write(server.port, phase, HOT);
    const config = scratchFile('c.toml', clusterFile(server));
    const { code, stderr } = await ctl(['backup-create', '--config', config, '--location', folder]);
    assert.equal(code, 0, stderr);
  } finally {
    await server.dispose();
  }
}

export const clusterFile = ({ adminPort }: TestServer): string =>
  `[[nodes]]\nid = 1\nhost = "127.0.0.1"\nadmin_port = ${adminPort}\n`;

async function makeCluster(folder: string, how: ClusterKind): Promise<void> {
  const cluster = await TestCluster.create({ ...CLUSTER, process: true });
  try {
    await cluster.startAll();
    await write(cluster.node(1).port, 'early', HOT);
    await cluster.settled();
    if (how !== 'level') {
      await cluster.kill(3);
      await cluster.ready([1, 2]);
    }
    if (how === 'behind') await fill(cluster);
    await write(cluster.node(1).port, 'late', HOT);
    await cluster.settled();
    for (const id of cluster.runningIds) await cluster.kill(id);
    for (const id of NODES) cpSync(cluster.node(id).dataDir, join(folder, `node-${id}`), { recursive: true });
  } finally {
    await cluster.dispose();
  }
}

/** Deletes again what it writes, so the state stays small. */
async function fill(cluster: TestCluster): Promise<void> {
  const client = cluster.client(1);
  for (let n = 0; n < FILLERS * GROUPS; n++) {
    const path = `/filler/${n}`;
    await client.create(path, { 'Content-Type': 'text/plain' }, Buffer.alloc(FILLER_BYTES, 'f'));
    await client.delete(path);
  }
}
