// Random commands that hit something: sizes around the row borders, sequences around the expected one, types that
// almost match, lifetimes that end soon. Looks at the model for what would be accepted, and then often does otherwise.
import { PAGE_VALUE_BYTES } from '../../src/base/limits.ts';
import { encodePurge, encodeQuota } from '../../src/protocol/bucket-command.ts';
import { joinFrames } from '../../src/protocol/append-batch.ts';
import { TIMESTAMP_MS_MAX, TTL_SECONDS_MAX } from '../../src/protocol/header-values.ts';
import { ROW_PAYLOAD_BYTES_MAX as ROW_BYTES_TARGET } from '../../src/stream/core/row.ts';
import type { Random } from '../support/random.ts';
import type { Model } from './model.ts';
import type { ModelCommand } from './model-command.ts';
import type { ModelStream } from './model-rules.ts';

export interface World {
  readonly random: Random;
  readonly buckets: readonly string[];
  readonly streams: readonly string[];
  readonly producers: readonly string[];
  /** Share of appends that are large. */
  readonly largeShare: number;
  /** Share of creates with a lifetime. */
  readonly lifetimeShare: number;
  nowMs: number;
}

export interface RandomCommand {
  readonly command: ModelCommand;
  readonly attributesAsSent: string | undefined;
}

/** The highest epoch, and the highest bound of a quota. */
const HIGHEST = Number.MAX_SAFE_INTEGER;

const TYPES = [
  '',
  'application/octet-stream',
  'text/plain',
  'text/plain; charset=utf-8',
  'application/json',
  'application/json',
  'application/json',
  'application/json; charset=utf-8',
  'application/json; profile=x',
  'application/json charset=utf-8',
];

/** As sent, and as it should be stored. */
const ATTRIBUTES: readonly (readonly [string, string])[] = [
  ['{}', '{}'],
  [' { "title" : "a" } ', '{"title":"a"}'],
  ['{"metadata":{"k":1.0},"title":"b"}', '{"title":"b","metadata":{"k":1.0}}'],
  ['{"other":1,"metadata":{"k":[1,{"x":null}]}}', '{"metadata":{"k":[1,{"x":null}]}}'],
  ['{"title":null,"metadata":{}}', '{}'],
];

/** A command that asks for nothing yet. */
export function plainCommand(now: number, bucket: string, stream: string): ModelCommand {
  return {
    kind: 'append',
    now,
    bucket,
    stream,
    close: false,
    type: '',
    seq: undefined,
    producer: undefined,
    match: -1,
    expected: -1,
    ttl: -1,
    expires: -1,
    attributes: undefined,
    body: new Uint8Array(0),
    records: undefined,
  };
}

export function randomCommand(world: World, model: Model): RandomCommand {
  const { random } = world;
  world.nowMs += random.chance(0.1) ? random.int(0, 3000) : random.int(0, 3);
  // A new leader's clock may be behind the old one's.
  const now = random.chance(0.02) ? world.nowMs - random.int(0, 2000) : world.nowMs;
  const bucket = random.pick(world.buckets);
  const stream = random.pick(world.streams);
  const base = plainCommand(now, bucket, stream);
  const known = model.live(bucket, stream, now);
  const dice = random.next();
  if (known === undefined ? dice < 0.7 : dice < 0.08) return randomCreate(world, base, known);
  // Closed streams would soon be all there is.
  if (dice > (known?.closed === true ? 0.85 : 0.985))
    return { command: { ...base, kind: 'delete' }, attributesAsSent: undefined };
  if (dice > 0.97) {
    const [sent, stored] = random.pick(ATTRIBUTES);
    return { command: { ...base, kind: 'attributes', attributes: stored }, attributesAsSent: sent };
  }
  if (dice > 0.955) return { command: { ...base, kind: 'touch' }, attributesAsSent: undefined };
  if (dice > 0.945) return { command: { ...base, kind: 'delete-bucket', stream: '' }, attributesAsSent: undefined };
  if (dice > 0.94) return { command: randomTenantCall(random, base), attributesAsSent: undefined };
  if (dice > 0.86) return { command: randomBatch(world, base, known), attributesAsSent: undefined };
  return { command: randomAppend(world, base, known), attributesAsSent: undefined };
}

function randomCreate(world: World, base: ModelCommand, known: ModelStream | undefined): RandomCommand {
  const { random } = world;
  // Half of the creates of something that exists describe it well.
  const same = known !== undefined && random.chance(0.5);
  const type = same ? known.type : random.pick(TYPES);
  const attributes = random.chance(0.15) ? random.pick(ATTRIBUTES) : undefined;
  let ttl = -1;
  let expires = -1;
  if (same) ({ ttl, expires } = known);
  else if (random.chance(world.lifetimeShare)) {
    if (random.chance(0.5)) ttl = random.pick([0, 1, 5, 30, 3600, TTL_SECONDS_MAX]);
    else expires = base.now + random.pick([-1000, 0, 1, 500, 20_000, TIMESTAMP_MS_MAX - base.now]);
  }
  const withBody = random.chance(0.4);
  const command: ModelCommand = {
    ...base,
    kind: 'create',
    type,
    ttl,
    expires,
    close: same ? known.closed : random.chance(0.04),
    seq: randomSeq(random, known),
    producer: random.chance(0.15)
      ? { id: random.pick(world.producers), epoch: random.int(0, 3), seq: random.int(0, 1) }
      : undefined,
    attributes: same && attributes === undefined && known.attributes !== '{}' ? known.attributes : attributes?.[1],
    ...(withBody ? randomBody(world, type, 1) : {}),
  };
  return { command, attributesAsSent: attributes?.[0] ?? command.attributes };
}

function randomAppend(world: World, base: ModelCommand, known: ModelStream | undefined): ModelCommand {
  const { random } = world;
  const type =
    known !== undefined && known.type !== '' && random.chance(0.95) ? known.type : random.pick(TYPES.slice(1));
  const close = random.chance(0.012);
  const empty = close && random.chance(0.5);
  const count = known?.messages.length ?? 0;
  return {
    ...base,
    type: empty ? '' : type,
    close,
    seq: random.chance(0.2) ? randomSeq(random, known) : undefined,
    producer: random.chance(0.4) ? randomProducer(world, known) : undefined,
    match: random.chance(0.1) && !empty ? Math.max(0, count - (random.chance(0.3) ? random.int(-1, 1) : 0)) : -1,
    expected: randomExpected(random, known),
    ...(empty ? {} : randomBody(world, type, random.chance(0.2) ? random.int(2, 12) : 1)),
  };
}

/** Mostly quotas, and most of those none, or everything would be refused. */
function randomTenantCall(random: Random, base: ModelCommand): ModelCommand {
  if (random.chance(0.15)) return { ...base, kind: 'purge', stream: '', body: encodePurge('') };
  const bound = (bounds: readonly number[]): number => (random.chance(0.85) ? -1 : random.pick(bounds));
  const quota = [bound([0, 1, 3, 100, HIGHEST]), bound([0, 1000, 30_000, 300_000, HIGHEST])] as const;
  const body = encodeQuota({ streamsMax: quota[0], retainedBytesMax: quota[1] });
  return { ...base, kind: 'quota', stream: '', quota, body };
}

function randomBatch(world: World, base: ModelCommand, known: ModelStream | undefined): ModelCommand {
  const { random } = world;
  const type =
    known !== undefined && known.type !== '' && random.chance(0.95) ? known.type : random.pick(TYPES.slice(1));
  const frames = Array.from({ length: random.int(1, 6) }, () =>
    random.chance(0.08)
      ? { body: new Uint8Array(0), records: undefined }
      : randomBody(world, type, random.chance(0.3) ? random.int(2, 5) : 1),
  );
  return {
    ...base,
    kind: 'batch',
    type,
    producer: random.chance(0.4) ? randomProducer(world, known) : undefined,
    expected: randomExpected(random, known),
    body: joinFrames(frames.map(({ body }) => body)),
    records: undefined,
    frames,
  };
}

function randomExpected(random: Random, known: ModelStream | undefined): number {
  if (!random.chance(0.15)) return -1;
  return Math.max(0, (known?.tail ?? 0) - (random.chance(0.3) ? random.int(-1, 1) : 0));
}

function randomSeq(random: Random, known: ModelStream | undefined): string | undefined {
  if (random.chance(0.5)) return undefined;
  const last = Number(known?.lastSeq ?? '100000');
  return String(Math.max(0, last + random.int(-1, 3))).padStart(6, '0');
}

function randomProducer(world: World, known: ModelStream | undefined): { id: string; epoch: number; seq: number } {
  const { random } = world;
  const id = random.pick(world.producers);
  const producer = known?.producers.get(id);
  if (producer === undefined)
    return { id, epoch: random.pick([0, 1, 2, HIGHEST]), seq: random.chance(0.9) ? 0 : random.int(1, 2) };
  const dice = random.next();
  if (dice < 0.65) return { id, epoch: producer.epoch, seq: producer.seq + 1 };
  if (dice < 0.85) return { id, epoch: producer.epoch, seq: Math.max(0, producer.seq - random.int(0, 8)) };
  if (dice < 0.9) return { id, epoch: producer.epoch, seq: producer.seq + random.int(2, 4) };
  if (dice < 0.93) return { id, epoch: Math.max(0, producer.epoch - 1), seq: producer.seq + 1 };
  const epoch = Math.min(HIGHEST, producer.epoch + random.int(1, 2));
  return { id, epoch, seq: random.chance(0.7) ? 0 : 1 };
}

/** Mostly small, sometimes right at a border between rows. */
function randomSize(world: World): number {
  const { random } = world;
  if (!random.chance(world.largeShare)) return random.chance(0.6) ? random.int(1, 300) : random.int(300, 3000);
  const near = random.pick([
    ROW_BYTES_TARGET,
    ROW_BYTES_TARGET,
    ROW_BYTES_TARGET / 2,
    PAGE_VALUE_BYTES,
    2 * PAGE_VALUE_BYTES,
  ]);
  if (random.chance(0.7)) return near + random.int(-2, 2);
  return random.chance(0.9)
    ? random.int(ROW_BYTES_TARGET, PAGE_VALUE_BYTES)
    : random.int(PAGE_VALUE_BYTES, 5 * PAGE_VALUE_BYTES);
}

function randomBody(world: World, type: string, records: number): Pick<ModelCommand, 'body' | 'records'> {
  const { random } = world;
  if (!type.startsWith('application/json')) return { body: randomBytes(random, randomSize(world)), records: undefined };
  if (random.chance(0.01))
    return { body: new Uint8Array(Buffer.from(random.pick(['{"a":', '[1,]', 'nul', '1 2']))), records: undefined };
  if (random.chance(0.01)) return { body: new Uint8Array(Buffer.from(random.pick(['[]', ' [ ] ']))), records: [] };
  const texts: string[] = [];
  const parts: string[] = [];
  const blank = (): string => random.pick(['', '', ' ', '\n', '\t\r\n ']);
  for (let i = 0; i < records; i++) {
    const { compact, spaced } = randomValue(random, Math.ceil(randomSize(world) / records), blank);
    texts.push(compact);
    parts.push(`${blank()}${spaced}${blank()}`);
  }
  // A lone array would be taken apart.
  const wrap = records > 1 || (texts[0] as string).startsWith('[') || random.chance(0.5);
  const text = wrap ? `${blank()}[${parts.join(',')}]${blank()}` : (parts[0] as string);
  return { body: new Uint8Array(Buffer.from(text)), records: texts };
}

function randomValue(random: Random, size: number, blank: () => string): { compact: string; spaced: string } {
  const filler = 'x'.repeat(Math.max(0, size - 12));
  switch (random.int(0, 6)) {
    case 0:
      return { compact: '-0', spaced: '-0' };
    case 1:
      return { compact: '1e400', spaced: '1e400' };
    case 2:
      return { compact: `[1,["${filler}"]]`, spaced: `[${blank()}1${blank()},[${blank()}"${filler}"]${blank()}]` };
    case 3:
      return {
        compact: `{"b":"é\\u00e9\\n","a":"${filler}"}`,
        spaced: `{"b":"é\\u00e9\\n"${blank()},"a"${blank()}:${blank()}"${filler}"}`,
      };
    default:
      return { compact: `"${filler}"`, spaced: `"${filler}"` };
  }
}

/** Cheap noise that still shows where a byte came from. */
function randomBytes(random: Random, size: number): Uint8Array {
  const bytes = new Uint8Array(size);
  let state = random.int(1, 2 ** 31);
  for (let i = 0; i < size; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

/**
 * Four stream names of the bucket "bucket" with one hash in the head cache, so that chains are walked and unlinked in
 * the middle. FNV-1a goes byte by byte: what is appended to two texts of equal hash leaves them equal, so two pairs of
 * endings make four names. To find the pairs takes seconds.
 */
export const COLLIDING_NAMES: readonly string[] = ['c354008', 'c1101474'].flatMap((front) => [
  `${front}c767649`,
  `${front}c1089386`,
]);
