// The comparison itself: two replicas with different flush schedules against the model.
import assert from 'node:assert/strict';
import {
  PUBLISH_HEAD_BYTES,
  type Position,
  encodeRetention,
  writePublishHead,
} from '../../src/protocol/position-command.ts';
import { READ_FLAG_ENVELOPE, READ_FLAG_PARTS } from '../../src/protocol/queries/read.ts';
import {
  READ_NOW,
  READ_OFFSET,
  READ_RECORD,
  READ_RECORD_NOW,
  READ_TAIL_RECORDS,
} from '../../src/protocol/read-fields.ts';
import { inPieces } from './in-pieces.ts';
import { checkNeighbours, plantNeighbours } from './neighbours.ts';
import { Model } from './model.ts';
import { type ModelCommand, type Outcome, outcomeText } from './model-command.ts';
import type { ModelStream } from './model-rules.ts';
import { type ModelRead, modelList, modelRead, modelUsage } from './model-read.ts';
import { Proposer } from './propose.ts';
import { type World, plainCommand, randomCommand } from './random-commands.ts';
import { checkBackup } from './backup/exporting.ts';
import { type Answer, GROUP, Replica } from './replica.ts';
import { checkColdRows } from './cold/rows.ts';
import { ColdRun } from './cold/run.ts';
import { COMMANDS, QUERIES } from '../../src/protocol/operations.ts';
import { requestFor } from '../../src/protocol/request.ts';

const MODES = {
  offset: READ_OFFSET,
  now: READ_NOW,
  record: READ_RECORD,
  'record-now': READ_RECORD_NOW,
  'tail-records': READ_TAIL_RECORDS,
} as const;

/** How often, per entry, each replica flushes, fails to, restarts. */
export interface Schedule {
  readonly flush: number;
  readonly fail: number;
  readonly restart: number;
}

export class Differential {
  readonly world: World;
  readonly model = new Model();
  readonly replicas: readonly Replica[];
  readonly counts = { commands: 0, reads: 0, listings: 0, expiries: 0, trims: 0, inPieces: 0 };
  readonly codes = new Map<string, number>();
  readonly cold: ColdRun;
  readonly #schedules: readonly Schedule[];
  readonly #proposer = new Proposer();
  readonly #incarnations = new Map<number, ModelStream>();
  #index = 0;

  constructor(world: World, schedules: readonly Schedule[]) {
    this.world = world;
    this.#schedules = schedules;
    this.replicas = schedules.map(() => new Replica());
    this.cold = new ColdRun(world.random);
    for (const replica of this.replicas) replica.fetch = (plan) => this.cold.chunks(plan);
    for (const replica of this.replicas) plantNeighbours(replica);
  }

  /** One log entry of a few commands, then mishaps. */
  entry(): void {
    const { random } = this.world;
    const expected: { text: string; kind: string }[] = [];
    const commands = random.int(1, 6);
    for (let i = 0; i < commands; i++) {
      const { command, attributesAsSent } = randomCommand(this.world, this.model);
      const accepted = this.#proposer.add(command, attributesAsSent, random.chance(0.2));
      const outcome = this.model.run(command);
      this.counts.commands++;
      this.codes.set(outcome.code, (this.codes.get(outcome.code) ?? 0) + 1);
      if (outcome.flags.includes('duplicate')) this.codes.set('duplicate', (this.codes.get('duplicate') ?? 0) + 1);
      if (accepted !== 'OK') assert.equal(accepted, outcome.code);
      else expected.push({ text: outcomeText(outcome), kind: `${command.kind} ${command.bucket}/${command.stream}` });
    }
    this.#propose(expected);
    this.#mishaps();
  }

  /** Expires until nothing is due. */
  expire(): void {
    const { nowMs } = this.world;
    const first = this.replicas[0] as Replica;
    for (let round = 0; first.expiryDue(nowMs); round++) {
      assert(round < 1000, 'expiry comes to an end');
      const expire: ModelCommand = { ...plainCommand(nowMs, '', ''), kind: 'expire' };
      this.#proposer.add(expire, undefined, false);
      this.#propose([{ text: outcomeText(this.model.run(expire)), kind: 'expire' }]);
      this.counts.expiries++;
    }
    for (const replica of this.replicas) assert(!replica.expiryDue(nowMs), 'replicas agree that nothing is due');
  }

  /** Something happens in the cold tier; the model knows nothing of it. */
  coldStep(): void {
    const data = this.cold.step((this.replicas[0] as Replica).state, this.world.nowMs);
    if (data !== undefined) this.#commit(data);
    this.#mishaps();
  }

  /** A snapshot of some stream is published, and the floor rises to a border up to there. */
  retain(): void {
    const { random, nowMs } = this.world;
    const bucket = random.pick(this.world.buckets);
    const name = random.pick(this.world.streams);
    const stream = this.model.live(bucket, name, nowMs);
    if (stream === undefined) return;
    const count = stream.messages.length;
    stream.snapshot = random.int(Math.max(stream.first, stream.snapshot), count);
    const first = random.chance(0.3) ? stream.snapshot : random.int(stream.first, stream.snapshot);
    const { incarnation } = (this.replicas[0] as Replica).head(bucket, name);
    const at = (record: number): Position => {
      const offset = record === 0 ? 0 : (stream.ends[record - 1] as number);
      const byRecord = stream.json && random.chance(0.5);
      const value = byRecord ? record : offset;
      return { byRecord, value, checkedIncarnation: incarnation, checkedOffset: offset, checkedRecord: record };
    };
    const payload = new Uint8Array(PUBLISH_HEAD_BYTES + random.pick([0, 10, 5000]));
    writePublishHead(payload, { position: at(stream.snapshot), digest: new Uint8Array(32), match: undefined });
    this.#commit(this.cold.propose(COMMANDS.publishSnapshot.number, bucket, payload, nowMs, name));
    this.#commit(this.cold.propose(COMMANDS.retention.number, bucket, encodeRetention(at(first)), nowMs, name));
    this.model.retain(bucket, stream, first);
    this.counts.trims++;
  }

  #commit(data: Uint8Array): void {
    this.#index++;
    for (const replica of this.replicas) {
      for (const { code } of replica.applyEntry(this.#index, data)) assert.equal(code, 'OK');
    }
  }

  /** Everything is moved to the cold store. */
  freeze(): void {
    for (const data of this.cold.flushAll((this.replicas[0] as Replica).state, this.world.nowMs)) this.#commit(data);
  }

  /** Every stream is deleted, and with the last expire command nothing is left in the cold store. */
  deleteAll(): void {
    const { state } = this.replicas[0] as Replica;
    for (const data of this.cold.finish(state, this.world.nowMs)) this.#commit(data);
    for (const key of [...this.model.streams.keys()]) {
      const cut = key.indexOf('\0');
      const command: ModelCommand = {
        ...plainCommand(this.world.nowMs, key.slice(0, cut), key.slice(cut + 1)),
        kind: 'delete',
      };
      this.#proposer.add(command, undefined, false);
      this.#propose([{ text: outcomeText(this.model.run(command)), kind: 'delete' }]);
    }
    this.expire();
    for (;;) {
      const data = this.cold.collect((this.replicas[0] as Replica).state, this.world.nowMs, 100, true);
      if (data === undefined) break;
      this.#commit(data);
    }
    assert.deepEqual([...this.cold.objects.keys()], [], 'the cold store is empty');
    for (const { state: one } of this.replicas) {
      const { bytes, objects, objectBytes, gcLength } = one.cold;
      assert.deepEqual([one.hotBytes, bytes, objects, objectBytes, gcLength], [0, 0, 0, 0, 0]);
    }
  }

  #propose(expected: readonly { readonly text: string; readonly kind: string }[]): void {
    const data = this.#proposer.finish();
    if (expected.length === 1 && this.world.random.chance(0.3)) return this.#inPieces(data, expected[0]?.text);
    this.#index++;
    for (const replica of this.replicas) {
      const outcomes = replica.applyEntry(this.#index, data);
      assert.equal(outcomes.length, expected.length);
      outcomes.forEach((outcome, i) => assert.equal(outcomeText(outcome), expected[i]?.text, expected[i]?.kind));
    }
  }

  #inPieces(data: Uint8Array, expected: string | undefined): void {
    for (const { piece, isLast } of inPieces(data, this.world.random)) {
      this.#index++;
      for (const replica of this.replicas) {
        const [outcome] = replica.applyEntry(this.#index, piece) as [Outcome];
        if (isLast) assert.equal(outcomeText(outcome), expected, 'in pieces');
        else assert.equal(outcome.code, 'OK');
      }
      this.#mishaps();
    }
    this.counts.inPieces++;
  }

  #mishaps(): void {
    const { random } = this.world;
    this.replicas.forEach((replica, i) => {
      const schedule = this.#schedules[i] as Schedule;
      if (random.chance(schedule.fail)) replica.flushInVain();
      if (random.chance(schedule.flush)) replica.flush();
      if (random.chance(schedule.restart)) replica.restart(random.chance(0.3));
    });
  }

  /** One random read of one random stream, from every replica. */
  read(): void {
    const { random, nowMs } = this.world;
    const bucket = random.pick(this.world.buckets);
    const name = random.pick(this.world.streams);
    const stream = this.model.live(bucket, name, nowMs);
    const read = randomRead(this.world, stream);
    const { value, maxBytes, maxRecords } = read;
    const readFlags = (read.envelope ? READ_FLAG_ENVELOPE : 0) | (read.parts ? READ_FLAG_PARTS : 0);
    const asked = { bucket, stream: name, mode: MODES[read.mode], value, maxBytes, maxRecords, readFlags };
    const request = requestFor(QUERIES.read, 0, asked);
    for (const replica of this.replicas) {
      const answer = replica.query(request, nowMs);
      // A cold answer may be short because it would take too many chunks; the model's is cut to the same end.
      const expected = modelRead(stream, answer.short ? cutTo(read, answer, stream) : read);
      const what = `${bucket}/${name} ${JSON.stringify(read)}`;
      assert.equal(outcomeText(answer.outcome), outcomeText(expected.outcome), what);
      assert(answer.body.equals(expected.body), `body of ${what}`);
    }
    this.counts.reads++;
    if (stream !== undefined) this.#readTail(bucket, name, stream);
  }

  #readTail(bucket: string, name: string, stream: ModelStream): void {
    const { random } = this.world;
    // A tail event starts where some append started.
    const before = stream.messages.length - random.int(0, 3);
    const from = Math.max(stream.startOffset, before <= 0 ? 0 : (stream.ends[before - 1] as number));
    const budget = random.pick([0, 100, 10_000, 65_536]);
    const whole = { mode: 'offset', value: from, maxBytes: 0, maxRecords: 0, envelope: false, parts: false } as const;
    for (const replica of this.replicas) {
      const body = replica.tail(bucket, name, from, budget);
      const cold = from < replica.head(bucket, name).hotStart;
      assert.equal(body === undefined, stream.tail - from > budget || cold);
      if (body !== undefined)
        assert(body.equals(modelRead(stream, whole).body), `tail of ${bucket}/${name} from ${from}`);
    }
  }

  /** Everything that can be seen without reading bytes. */
  survey(): void {
    const { random, nowMs } = this.world;
    const lists = this.world.buckets.map((bucket) => {
      const name = random.pick(this.world.streams);
      const prefix = [...name].slice(0, random.int(0, 2)).join('');
      const after = random.chance(0.5) ? '' : [...random.pick(this.world.streams)].slice(0, random.int(1, 4)).join('');
      return { bucket, prefix, after, limit: random.pick([1, 3, 10, 1000]) };
    });
    for (const replica of this.replicas) {
      for (const { bucket, prefix, after, limit } of lists) {
        const expected = modelList(this.model, bucket, prefix, after, limit, nowMs);
        assert.deepEqual(replica.list(bucket, prefix, after, limit, nowMs), expected);
        this.counts.listings++;
      }
      assert.deepEqual(replica.usage(), modelUsage(this.model));
    }
    for (const bucket of this.world.buckets) for (const name of this.world.streams) this.#head(bucket, name);
    checkBackup(this.replicas.at(-1) as Replica, this.model.streams.size);
  }

  #head(bucket: string, name: string): void {
    const { nowMs } = this.world;
    const stream = this.model.live(bucket, name, nowMs);
    for (const replica of this.replicas) {
      const head = replica.askHead(bucket, name, nowMs);
      const attributes = replica.askAttributes(bucket, name, nowMs);
      if (stream === undefined) {
        assert.equal(head.outcome.code, 'STREAM_NOT_FOUND');
        assert.equal(attributes.outcome.code, 'STREAM_NOT_FOUND');
        continue;
      }
      assert(head.shown !== undefined);
      const { ttlSeconds: ttl, expiresAtMs: expires, incarnation } = head.shown;
      assert.deepEqual([ttl, expires], [stream.ttl, stream.expires], `lifetime of ${bucket}/${name}`);
      assert.equal(head.outcome.next, stream.tail);
      assert.equal(head.outcome.start, stream.startOffset);
      assert.equal(head.outcome.type, stream.shownType);
      assert.equal(head.outcome.flags.includes('closed'), stream.closed);
      const count = stream.messages.length;
      assert.equal(head.outcome.records, stream.json ? `${stream.first}/${count}/${count}` : '');
      assert.equal(attributes.body.toString(), stream.attributes, `attributes of ${bucket}/${name}`);
      if (stream.incarnation === 0) stream.incarnation = incarnation;
      assert.equal(incarnation, stream.incarnation, 'a stream keeps its incarnation');
      const first = this.#incarnations.get(incarnation) ?? stream;
      assert.equal(first, stream, 'no two streams share an incarnation');
      this.#incarnations.set(incarnation, stream);
    }
  }

  /** After everything is flushed and reclaimed the stores hold the same rows, and rows of living streams only. */
  finish(): void {
    for (const replica of this.replicas) replica.settle();
    const [first, ...others] = this.replicas as [Replica, ...Replica[]];
    for (const other of others) {
      const rows = [...other.tx.entries()];
      let i = 0;
      for (const [key, value] of first.tx.entries()) {
        const row = rows[i++];
        assert.equal(describeKey(row?.[0] ?? ''), describeKey(key), `key of row ${i}`);
        assert(Buffer.compare(row?.[1] as Uint8Array, value) === 0, `value of ${describeKey(key)}`);
      }
      assert.equal(rows.length, i);
    }
    for (const replica of this.replicas) checkNeighbours(replica);
    this.survey();
    this.#checkRows(first);
  }

  /** No row outlives its stream, except what a listed deadline still needs. */
  #checkRows(replica: Replica): void {
    const living = new Set<number>();
    for (const [key, stream] of this.model.streams) {
      const cut = key.indexOf('\0');
      const head = replica.askHead(key.slice(0, cut), key.slice(cut + 1), this.world.nowMs);
      // Expired ones that were not removed still have their rows.
      if (!stream.expired(this.world.nowMs)) living.add(head.shown?.incarnation ?? 0);
    }
    const expired = [...this.model.streams.values()].some((stream) => stream.expired(this.world.nowMs));
    assert(!expired, 'finish() comes after all has expired');
    for (const [key] of replica.tx.entries()) {
      if (!key.startsWith(String.fromCharCode(GROUP >> 8, GROUP & 0xff))) continue;
      const tag = key[2] as string;
      if ('acCdprs'.includes(tag))
        assert(living.has(number(key, 3, 6)), `${describeKey(key)} belongs to a living stream`);
      if (tag === 'x' || tag === 'f')
        assert(living.has(number(key, 11, 6)), `${describeKey(key)} lists a living stream`);
      assert(tag !== 'g' && tag !== 'w', 'garbage is reclaimed');
    }
    checkColdRows(replica.tx, GROUP, replica.state);
  }
}

function randomRead({ random }: World, stream: ModelStream | undefined): ModelRead {
  const tail = stream?.tail ?? 0;
  const count = stream?.messages.length ?? 0;
  const mode = random.pick([
    'offset',
    'offset',
    'offset',
    'now',
    'record',
    'record',
    'record-now',
    'tail-records',
  ] as const);
  let value = 0;
  if (mode === 'offset') {
    value = random.chance(0.3)
      ? random.int(0, tail + 1)
      : ((stream?.ends[random.int(0, Math.max(0, count - 1))] ?? 0) as number);
    if (random.chance(0.2)) value = 0;
  } else if (mode === 'record') value = random.int(0, count + 1);
  else if (mode === 'tail-records') value = random.int(0, count + 2);
  return {
    mode,
    value,
    maxBytes: random.chance(0.4) ? random.pick([1, 10, 1000, 8000, 70_000, 300_000]) : 0,
    maxRecords: random.chance(0.3) ? random.pick([1, 2, 7, 100]) : 0,
    envelope: random.chance(0.2),
    parts: random.chance(0.15),
  };
}

/** The same read, bounded to what `answer` holds, which must be something. */
function cutTo(read: ModelRead, { outcome }: Answer, stream: ModelStream | undefined): ModelRead {
  if (stream === undefined || outcome.code !== 'OK') return read;
  assert(outcome.next > outcome.start, 'a short answer is not empty');
  if (!stream.json && !read.parts) return { ...read, maxBytes: outcome.next - outcome.start };
  const records = stream.ends.filter((end) => end > outcome.start && end <= outcome.next).length;
  return { ...read, maxRecords: records };
}

function number(key: string, at: number, size: number): number {
  let value = 0;
  for (let i = at; i < at + size; i++) value = value * 256 + key.charCodeAt(i);
  return value;
}

function describeKey(key: string): string {
  return `${key[2] ?? 'nothing'} ${Buffer.from(key.slice(3), 'latin1').toString('hex')}`;
}
