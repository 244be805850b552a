// Trials of a shard alone: its groups answer, without threads and without HTTP.
import assert from 'node:assert/strict';
import { cpSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { errorCode } from '../../src/base/errors.ts';
import { fnv1a64mod } from '../../src/base/hash.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { REPLY_CLOSED, REPLY_UP_TO_DATE, type Reply } from '../../src/protocol/reply.ts';
import { type Request, type StreamTarget, beginCommand, newRequest, requestFor } from '../../src/protocol/request.ts';
import { PROCESS_RUNTIME } from '../../src/server/runtime.ts';
import { Shard } from '../../src/shard/shard.ts';
import { ShardStore } from '../../src/store/shard-store.ts';
import { storeFailure } from '../../src/store/volume.ts';
import { find } from '../shard/harness.ts';
import { ArraySource, ArrayTarget } from '../shard/memory-ports.ts';
import { STORE_OPTIONS } from '../store/temporary.ts';
import { createRandom } from '../support/random.ts';
import { type Expected, type Phase, asWritten, difference, expectedOf } from './content.ts';
import { type Verdict, ofLooks } from './ending.ts';
import { damage } from './faults.ts';
import { filesOf, isOwnPast } from './places.ts';
import { GROUPS, SINGLES } from './prepared.ts';
import type { SingleTrial } from './single.ts';
import type { Place } from './trial.ts';

const AGAIN = 0.2;
/** Streams that a shard gets beside those that are there, and the turns in which it writes all that to its state. */
const PROBES = 12;
const PROBE_BYTES = 6000;
const TURNS = 30;
const TURN_MS = 100;

export async function shard({ trial, prepared, folder, note }: SingleTrial, place: Place): Promise<Verdict> {
  await prepared.make('single');
  const random = createRandom(trial.seed ^ 0x51);
  const how = random.pick(SINGLES);
  const other = how === 'killed' ? 'stopped' : 'killed';
  cpSync(join(prepared.single(how), 'shard-0'), join(folder, 'shard-0'), { recursive: true });
  const others = isOwnPast(place, how) ? [] : filesOf(place, prepared.single(other));
  const did = damage(filesOf(place, folder), others, trial.fault, random);
  note(`${how}: ${did}`);
  const phases: readonly Phase[] = how === 'killed' ? ['early', 'late'] : ['early'];
  const starts = random.chance(AGAIN) ? 2 : 1;
  for (let i = 1; ; i++) {
    const verdict = await lookAt(join(folder, 'shard-0'), expectedOf(phases));
    if (verdict.ending !== 'served' || i === starts) return verdict;
  }
}

/** The files change while the shard has them open; it is read, writes over pages and frees some, and is opened again. */
export async function open({ trial, prepared, folder, note }: SingleTrial, place: Place): Promise<Verdict> {
  await prepared.make('single');
  const random = createRandom(trial.seed ^ 0x6f);
  const how = random.pick(SINGLES);
  const directory = join(folder, 'shard-0');
  cpSync(join(prepared.single(how), 'shard-0'), directory, { recursive: true });
  const phases: readonly Phase[] = how === 'killed' ? ['early', 'late'] : ['early'];
  const expected = expectedOf(phases);
  const deleted = random.pick(expected.filter(({ content }) => content !== undefined));
  const later = expected.map((one) => (one === deleted ? { ...one, content: undefined } : one));
  const verdict = await withShard(directory, (asked) => {
    note(`${how}: ${damage(filesOf(place, folder), [], trial.fault, random)}`);
    const wrong = expected.flatMap((one) => asked.differs(one) ?? []);
    asked.change(deleted);
    return [...wrong, ...later.flatMap((one) => asked.differs(one) ?? [])];
  });
  return verdict.ending === 'served' ? await lookAt(directory, later) : verdict;
}

async function lookAt(directory: string, expected: readonly Expected[]): Promise<Verdict> {
  // A node does not open such a shard.
  const { size = 0 } = statSync(join(directory, 'data.mdb'), { throwIfNoEntry: false }) ?? {};
  if (size === 0) return { ending: 'refused', why: 'data.mdb is missing or empty' };
  return await withShard(directory, (asked) => expected.flatMap((one) => asked.differs(one) ?? []));
}

/** `body` tells what is wrong. */
async function withShard(directory: string, body: (asked: AskedShard) => readonly string[]): Promise<Verdict> {
  let store: ShardStore | undefined;
  try {
    store = new ShardStore(directory, STORE_OPTIONS);
    const asked = new AskedShard(store, GROUPS);
    const wrong = body(asked);
    asked.stop();
    return ofLooks([{ refused: asked.refused, wrong }]);
  } catch (error) {
    // As the thread of a shard does it.
    const refused = storeFailure(directory, error);
    if (refused !== undefined) return { ending: 'refused', why: refused };
    return { ending: 'BAD', why: String(error instanceof Error ? error.stack : error) };
  } finally {
    await store?.close();
  }
}

interface Found {
  readonly code: string;
  readonly content: string;
  readonly isClosed: boolean;
}

/** A shard that reads of a test are put to. */
export class AskedShard {
  readonly #source = new ArraySource();
  readonly #target = new ArrayTarget();
  readonly #shard: Shard;
  readonly #groups: number;
  readonly refused: string[] = [];
  #slot = 0;
  #nowMs = PROCESS_RUNTIME.nowMs();
  #clockMs = PROCESS_RUNTIME.monotonicMs();

  constructor(storage: ShardStore, groups: number) {
    this.#groups = groups;
    this.#shard = new Shard({
      ...{ shard: 0, nodeId: 1, nodes: [1], voters: [1], seed: 7, boot: 7 },
      groups: Array.from({ length: groups }, (_, group) => group),
      storage,
      requests: this.#source,
      replies: this.#target,
      runtime: PROCESS_RUNTIME,
      log: () => undefined,
    });
    this.#shard.start(this.#clockMs);
    this.#turn();
  }

  differs(expected: Expected): string | undefined {
    const { stream, content, closes } = expected;
    const found = this.read(expected);
    if (content === undefined) return found.code === 'OK' ? `${stream}: it is there, and was deleted` : undefined;
    if (found.code === 'OK') {
      if (found.isClosed !== closes) return `${stream}: closed ${!closes}`;
      return found.content === content ? undefined : `${stream}: ${difference(found.content, content)}`;
    }
    if (found.code === 'STREAM_NOT_FOUND' || found.code === 'INTERNAL') return `${stream}: ${found.code}`;
    this.refused.push(found.code);
    return undefined;
  }

  /** The whole stream, or why not. */
  read({ bucket, stream, isJson }: Pick<Expected, 'bucket' | 'stream' | 'isJson'>): Found {
    let content = '';
    for (let value = 0; ;) {
      const reply = this.#ask(bucket, stream, value);
      const code = errorCode(reply.code);
      if (code === 'OK') content += asWritten(Buffer.from(reply.body ?? []).toString('utf8'), isJson);
      if (code !== 'OK' || reply.has(REPLY_UP_TO_DATE)) return { code, content, isClosed: reply.has(REPLY_CLOSED) };
      assert(reply.nextOffset > value, `a read from ${value} goes on at ${reply.nextOffset}`);
      value = reply.nextOffset;
    }
  }

  /** Deletes the stream, and creates some. */
  change(deleted: Pick<Expected, 'bucket' | 'stream'>): void {
    const ask = (request: Request): void => {
      this.#source.push(request, ++this.#slot);
      const code = errorCode(find(this.#turn(), this.#slot).code);
      if (code !== 'OK') this.refused.push(code);
    };
    const at = ({ bucket, stream }: Pick<Expected, 'bucket' | 'stream'>): StreamTarget => ({
      ...{ bucket, stream },
      group: fnv1a64mod(bucket, stream, this.#groups),
    });
    for (let n = 0; n < PROBES; n++) {
      const request = newRequest();
      const command = beginCommand(request, COMMANDS.create, at({ bucket: deleted.bucket, stream: `probe-${n}` }));
      command.contentType = 'text/plain';
      command.payload = new Uint8Array(PROBE_BYTES).fill(n);
      ask(request);
    }
    const request = newRequest();
    beginCommand(request, COMMANDS.deleteStream, at(deleted));
    ask(request);
    for (let n = 0; n < TURNS; n++) this.#turn(TURN_MS);
  }

  stop(): void {
    this.#shard.stop(++this.#nowMs, ++this.#clockMs);
  }

  #ask(bucket: string, stream: string, value: number): Reply {
    const group = fnv1a64mod(bucket, stream, this.#groups);
    this.#source.push(requestFor(QUERIES.read, group, { bucket, stream, topic: 0, value }), ++this.#slot);
    return find(this.#turn(), this.#slot);
  }

  #turn(afterMs = 1): Reply[] {
    this.#nowMs += afterMs;
    this.#clockMs += afterMs;
    this.#shard.turn(this.#nowMs, this.#clockMs);
    return this.#target.take();
  }
}
