// Three real nodes, one of them behind thin links, while clients go on writing: every group must take appends again.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type TestCluster, withCluster } from '../support/cluster.ts';
import { until } from '../support/until.ts';
import { RawClient } from '../support/raw-client.ts';
import { pause } from './load.ts';
import { streamOfEachGroup } from './resume.ts';

const GROUPS = 6;
const THIN = 1;
const BYTES_PER_SECOND = 50_000;
/** Together many times what the thin links carry, in entries that are small against it. */
const BODY = Buffer.alloc(1024, 'b');
const WRITERS_PER_GROUP = 6;
/** Appends that each group must take behind thin links. */
const APPENDS = 20;
const ROUNDS = 2;
const TEXT = { 'Content-Type': 'text/plain' } as const;
/** After each append or refusal: enough is written nonetheless. */
const PAUSE_MS = 20;

interface Writing {
  stop: boolean;
  /** By group: acknowledged appends; when the last one was, and the longest time without one. */
  readonly done: number[];
  readonly lastMs: number[];
  readonly silentMs: number[];
}

function newWriting(): Writing {
  const zeros = (): number[] => Array.from({ length: GROUPS }, () => 0);
  return { stop: false, done: zeros(), lastMs: zeros().map(() => performance.now()), silentMs: zeros() };
}

function noteSilence(writing: Writing, group: number): void {
  const nowMs = performance.now();
  writing.silentMs[group] = Math.max(writing.silentMs[group] ?? 0, nowMs - (writing.lastMs[group] ?? 0));
}

/** Appends through a node with good links, one after the other. */
async function write(cluster: TestCluster, path: string, group: number, writing: Writing): Promise<void> {
  const client = await RawClient.connect(cluster.node(2 + (group % 2)).port);
  while (!writing.stop) {
    const { status } = await client.request('POST', path, TEXT, BODY);
    assert([204, 503].includes(status), `an append to ${path}: ${status}`);
    if (status === 204) {
      noteSilence(writing, group);
      writing.lastMs[group] = performance.now();
      writing.done[group] = (writing.done[group] ?? 0) + 1;
    }
    await pause(PAUSE_MS);
  }
  client.destroy();
}

async function leads(cluster: TestCluster): Promise<number> {
  return (await cluster.groups(THIN)).filter(({ leader }) => leader === THIN).length;
}

const CASES = [
  ['to one node', false],
  ['to and from one node', true],
] as const;

test('every group takes appends while the links to, or also from, one node are thin', async (t) => {
  await withCluster({ groups: GROUPS, network: true }, async (cluster) => {
    const paths = await streamOfEachGroup(cluster);
    const writing = newWriting();
    const writers = paths.flatMap((path, group) =>
      Array.from({ length: WRITERS_PER_GROUP }, () => write(cluster, path, group, writing)),
    );
    /** Every group takes appends that it had not taken before. */
    const goesOn = async (): Promise<void> => {
      const before = [...writing.done];
      await until(
        () => `groups ${stalled(writing, before).join(', ')} take appends again`,
        () => stalled(writing, before).length === 0,
      );
    };
    try {
      for (const [what, isBoth] of CASES) {
        await until('the node leads something', async () => (await leads(cluster)) > 0);
        await goesOn();
        writing.silentMs.fill(0);
        for (const other of [2, 3]) {
          cluster.network.limit(other, THIN, BYTES_PER_SECOND);
          if (isBoth) cluster.network.limit(THIN, other, BYTES_PER_SECOND);
        }
        const sinceMs = performance.now();
        // Messages under way when the links get thin may still come through in the first.
        for (let round = 1; round <= ROUNDS; round++) {
          await goesOn();
          for (const group of paths.keys()) noteSilence(writing, group);
          const silent = writing.silentMs.map((ms) => Math.round(ms)).join(' ');
          t.diagnostic(
            `${what}, round ${round}: ${Math.round(performance.now() - sinceMs)} ms; longest without an append, by group: ${silent} ms; node ${THIN} leads ${await leads(cluster)}`,
          );
          await pause(Number(process.env['THIN_PAUSE_MS'] ?? 0));
        }
        cluster.network.heal();
      }
    } finally {
      writing.stop = true;
      cluster.network.heal();
      await Promise.all(writers);
    }
    await cluster.settled();
  });
});

function stalled(writing: Writing, before: readonly number[]): number[] {
  return [...before.keys()].filter((group) => (writing.done[group] ?? 0) < (before[group] ?? 0) + APPENDS);
}
