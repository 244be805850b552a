// Appends to one stream of a real server whose power fails, and a count of those that its disk still has.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { ShardStore } from '../../src/store/shard-store.ts';
import { AskedShard } from '../campaign/shard.ts';
import { STORE_OPTIONS } from '../store/temporary.ts';
import { RawClient } from '../support/raw-client.ts';
import { TestServer, removeFolder, temporaryFolder } from '../support/server.ts';
import { Recording } from './recording.ts';

/** With 160 of them segments are filled, freed by checkpoints and used again. */
const BODY_BYTES = 16 * 1024;
export const PATH = '/power/s';
export const TEXT = { 'Content-Type': 'text/plain' };
export const ACKNOWLEDGED = 'HTTP/1.1 204';

const bodyOf = (i: number): string => `${i};`.padEnd(BODY_BYTES - 1, 'x').concat('\n');

interface Sent {
  readonly dataDir: string;
  /** Number of the first append, and how many follow it. */
  readonly from: number;
  readonly count: number;
  /** Another program than the server. */
  readonly server?: { readonly entry: string; readonly env: Readonly<Record<string, string>> };
}

/** A client appends under strace, from that number on. */
export async function record(t: TestContext, { dataDir, from, count, server: other }: Sent): Promise<Recording> {
  const recording = new Recording(dataDir);
  const { wrapper } = recording;
  const server = new TestServer({ process: true, cores: 1, groups: 1, dataDir, wrapper, env: other?.env ?? {} });
  if (other !== undefined) server.entry = other.entry;
  t.after(async () => {
    await server.dispose();
    recording.remove();
  });
  await server.start();
  const client = await RawClient.connect(server.port);
  await client.request('PUT', PATH, TEXT);
  for (let i = from; i < from + count; i++) {
    const { status } = await client.request('POST', PATH, TEXT, bodyOf(i));
    assert.equal(status, 204);
  }
  await client.request('HEAD', `${PATH}?offset=0`);
  client.destroy();
  await server.kill();
  recording.read();
  assert.equal(recording.answers(ACKNOWLEDGED).length, count);
  return recording;
}

/** A directory on which a server stopped before. */
export async function used(t: TestContext): Promise<string> {
  const folder = temporaryFolder('power-data');
  const dataDir = join(folder, 'data');
  const server = new TestServer({ cores: 1, groups: 1, dataDir });
  t.after(async () => {
    await server.dispose();
    removeFolder(folder);
  });
  await server.start();
  await server.client.create(PATH, TEXT);
  assert.equal(await server.stop(), 0);
  return dataDir;
}

/** The number of appends that a shard finds; its log is whole, or this throws. */
export async function countIn(dataDir: string): Promise<number> {
  const store = new ShardStore(join(dataDir, 'shard-0'), STORE_OPTIONS);
  try {
    const { code, content } = new AskedShard(store, 1).read({ bucket: 'power', stream: 's', isJson: false });
    assert.equal(code, 'OK');
    return countOf(content);
  } finally {
    await store.close();
  }
}

/** The appends in it, all in order and nothing else. */
export function countOf(content: string): number {
  const count = content.length / BODY_BYTES;
  assert(content === Array.from({ length: count }, (_, i) => bodyOf(i)).join(''), 'something else is there');
  return count;
}
