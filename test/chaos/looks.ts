// A chaos run closes, forks and deletes streams, and reads them back on every node, while faults go on.
import assert from 'node:assert/strict';
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { stored } from '../cluster/follow.ts';
import { Shown, type StreamHistory } from '../cluster/history.ts';
import { LostConnection, RETRY_MS, RovingClient, pause } from '../cluster/load.ts';
import type { Random } from '../support/random.ts';
import type { HeaderList, RawResponse } from '../support/raw-client.ts';
import type { KeptStream, World } from './world.ts';

/** Faults last seconds; what takes so long is blocked, even on a machine with much other work. */
const PATIENCE_MS = 600_000;
/** Pause before a node is asked again that is not there, or behind. */
const AGAIN_MS = 100;
/** Streams that stay until the end of the run; older ones are deleted. */
const KEPT_MAX = 60;
/** Bytes of one of them: disks are small. */
const KEPT_BYTES_MAX = 256 * 1024;

export interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers?: HeaderList;
}

/** Asks until there is an answer that is no 503, on any node. Only meaningless once the run is aborted. */
export async function insist(world: World, client: RovingClient, request: Request): Promise<RawResponse> {
  const { method, path, headers = {} } = request;
  const sinceMs = performance.now();
  for (;;) {
    const answer = await asked(client, method, path, headers);
    if (world.load.over.aborted || (answer !== undefined && answer.status < 500)) {
      return answer ?? { status: 0, headers: new Map(), body: Buffer.alloc(0) };
    }
    assert(performance.now() - sinceMs < PATIENCE_MS, `${method} ${path} is refused for ${PATIENCE_MS / 1000} s`);
    await pause(AGAIN_MS);
  }
}

async function asked(
  client: RovingClient,
  method: string,
  path: string,
  headers: HeaderList = {},
): Promise<RawResponse | undefined> {
  try {
    return await client.request(method, path, headers);
  } catch (error) {
    if (!(error instanceof LostConnection)) throw error;
    return undefined;
  }
}

/** All that some node has now; undefined when it was the whole of a closed stream, or nothing could be read. */
export async function catchUp(world: World, client: RovingClient, stream: StreamHistory): Promise<Shown | undefined> {
  const shown = new Shown('a catch-up read');
  for (;;) {
    const answer = await asked(client, 'GET', `${stream.path}?offset=${shown.offset}`);
    if (world.load.over.aborted) return undefined;
    // Another node may not have all that was shown, and says so.
    if (answer === undefined || answer.status === 503) return shown;
    assert.equal(answer.status, 200, `a catch-up read of ${stream.path} at ${shown.offset}: ${answer.status}`);
    shown.take(stored(stream, answer.body));
    assert.equal(Number(answer.headers.get('stream-next-offset')), shown.offset, `${stream.path}: the next offset`);
    if (answer.headers.get('stream-closed') === 'true') return undefined;
    if (answer.headers.get('stream-up-to-date') === 'true') return shown;
  }
}

/** The node that acknowledged an append shows it. */
export async function seesOwn(world: World, client: RovingClient, { path }: StreamHistory, end: number): Promise<void> {
  const { node } = client;
  const answer = await asked(client, 'HEAD', path);
  if (answer === undefined || answer.status === 503 || client.node !== node) return;
  const tail = Number(answer.headers.get('stream-next-offset'));
  const label = `${path}: node ${node} acknowledged an append that ends at ${end}`;
  assert(answer.status === 200 && tail >= end, `${label}, and then said ${answer.status}, tail ${tail}`);
  world.counts.ownReads++;
}

/** The closed stream's content, after seeing that every node has the same. */
export async function readWhole(world: World, stream: StreamHistory, end: number): Promise<Buffer> {
  let content: Buffer | undefined;
  for (const id of world.cluster.ids) {
    const found = await readOn(world, id, stream, true);
    if (world.load.over.aborted) break;
    const label = `${stream.name} on node ${id}`;
    assert.equal(found.length, end, `${label}: its length, and what closing it was answered`);
    content ??= found;
    assert(content.equals(found), `${label} has other bytes than on node ${world.cluster.ids[0]}`);
    world.counts.contents++;
  }
  return content ?? Buffer.alloc(0);
}

/** All of it on one node, which may have to catch up first, or to come back. */
async function readOn(
  world: World,
  id: number,
  { path, isJson }: Pick<StreamHistory, 'path' | 'isJson'>,
  untilClosed: boolean,
): Promise<Buffer> {
  const client = new RovingClient(world.load, id, [id]);
  const sinceMs = performance.now();
  const parts: Buffer[] = [];
  let offset = 0;
  while (!world.load.over.aborted) {
    const late = `node ${id} does not show ${path} within ${PATIENCE_MS / 1000} s; it got to ${offset}`;
    assert(performance.now() - sinceMs < PATIENCE_MS, late);
    const answer = await asked(client, 'GET', `${path}?offset=${offset}`);
    if (answer === undefined || answer.status === 503) {
      await pause(AGAIN_MS);
      continue;
    }
    assert.equal(answer.status, 200, `node ${id}: GET ${path}?offset=${offset}: ${answer.status}`);
    const part = stored({ isJson }, answer.body);
    parts.push(part);
    offset += part.length;
    assert.equal(Number(answer.headers.get('stream-next-offset')), offset, `${path} on node ${id}: the next offset`);
    const isWhole = answer.headers.get(untilClosed ? 'stream-closed' : 'stream-up-to-date') === 'true';
    if (isWhole) break;
    if (part.length === 0) await pause(AGAIN_MS);
  }
  client.leave();
  return Buffer.concat(parts);
}

interface Source {
  readonly stream: StreamHistory;
  readonly content: Buffer;
  readonly random: Random;
}

/** Forks a closed stream at the end of some append: every node then shows the fork, and it is that part of its source. */
export async function fork(world: World, client: RovingClient, { stream, content, random }: Source): Promise<void> {
  const ends = [...stream.appends.values()].filter(({ outcome }) => outcome === 'acknowledged').map(({ end }) => end);
  if (ends.length === 0) return;
  const end = random.pick(ends);
  const path = `${stream.path}.fork`;
  const headers = { 'Stream-Forked-From': stream.path, 'Stream-Fork-Offset': String(end).padStart(20, '0') };
  const made = await insist(world, client, { method: 'PUT', path, headers });
  if (world.load.over.aborted) return;
  assert([200, 201].includes(made.status), `PUT ${path}: ${made.status} ${made.body.toString('utf8')}`);
  world.counts.forked++;
  for (const id of world.cluster.ids) {
    const found = await readOn(world, id, { path, isJson: stream.isJson }, false);
    if (world.load.over.aborted) return;
    assert(content.subarray(0, end).equals(found), `${path} on node ${id} is not the first ${end} bytes of its source`);
  }
  await eraseEverywhere(world, client, path);
}

/** Deletes it and sees that no node shows it. */
export async function eraseEverywhere(world: World, client: RovingClient, path: string): Promise<void> {
  const { status } = await insist(world, client, { method: 'DELETE', path });
  if (world.load.over.aborted) return;
  // 404: by an attempt whose answer was lost.
  assert([204, 404].includes(status), `DELETE ${path}: ${status}`);
  for (const id of world.cluster.ids) {
    const one = new RovingClient(world.load, id, [id]);
    const sinceMs = performance.now();
    for (;;) {
      const answer = await asked(one, 'HEAD', path);
      if (world.load.over.aborted || answer?.status === 404) break;
      assert(performance.now() - sinceMs < PATIENCE_MS, `node ${id} still shows ${path}, which was deleted`);
      await pause(answer === undefined ? RETRY_MS : AGAIN_MS);
    }
    one.leave();
  }
  world.counts.deleted++;
}

/** Only a digest of it is remembered. */
export async function keepUntilTheEnd(
  world: World,
  client: RovingClient,
  { path, isJson, content }: { readonly path: string; readonly isJson: boolean; readonly content: Buffer },
): Promise<void> {
  if (content.length > KEPT_BYTES_MAX) return await eraseEverywhere(world, client, path);
  world.kept.push({ path, isJson, lengthBytes: content.length, digest: digestOf(content) });
  const oldest = world.kept.length > KEPT_MAX ? world.kept.shift() : undefined;
  if (oldest === undefined) return undefined;
  await checkKept(world, oldest);
  return await eraseEverywhere(world, client, oldest.path);
}

/** It is there still, on every node. */
export async function checkKept(world: World, { path, isJson, lengthBytes, digest }: KeptStream): Promise<void> {
  for (const id of world.cluster.ids) {
    const found = await readOn(world, id, { path, isJson }, true);
    if (world.load.over.aborted) return;
    const label = `${path} on node ${id}, which was right when it was closed (${lengthBytes} bytes)`;
    assert(digestOf(found) === digest, `${label}, now has other content (${found.length} bytes)`);
    world.counts.contents++;
  }
}

function digestOf(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}
