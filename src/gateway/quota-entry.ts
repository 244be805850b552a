/** What a node knows of a bucket with a quota, and whether a write fits. */
import { FRAME_HEAD_BYTES, frameCount } from '../protocol/append-batch.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Request } from '../protocol/request.ts';
import { COMMANDS, commandsWhere } from '../protocol/operations.ts';

/** What the groups said is good for so long while there is room. */
export const FRESH_MS = 1000;
/** Far from the bound: others may have written for a second. */
const MARGIN_STREAMS = 256;
const MARGIN_BYTES = 64 * 1024 * 1024;
/** Of the bound, at least. */
const MARGIN_PART = 0.1;

export interface Need {
  readonly streams: number;
  readonly bytes: number;
}

/** A write that waits, or somebody who wants room for bytes that he brings later. */
export interface Waiting {
  readonly need: Need;
  readonly sinceMs: number;
  readonly grant: (isOver: boolean) => void;
  readonly deny: (reply: Reply) => void;
}

export interface Entry {
  readonly bucket: string;
  /** -1: none. */
  streamsMax: number;
  bytesMax: number;
  /** What the groups said last, and what was admitted here since. */
  streams: number;
  bytes: number;
  /** The groups have said something. */
  isTold: boolean;
  /** When they were asked what they said; -Infinity: it is out of date. */
  toldAtMs: number;
  /** They do not answer: what they said last has to do. */
  isLate: boolean;
  askedAtMs: number;
  asking: boolean;
  /** Room that was given away and is not used yet. */
  reserved: number;
  /** Writes under way. */
  pending: number;
  waiting: Waiting[];
  /** A timer looks after those who wait. */
  isWatched: boolean;
}

export function newEntry(bucket: string): Entry {
  return {
    bucket,
    streamsMax: -1,
    bytesMax: -1,
    streams: 0,
    bytes: 0,
    isTold: false,
    toldAtMs: -Infinity,
    isLate: false,
    askedAtMs: -Infinity,
    asking: false,
    reserved: 0,
    pending: 0,
    waiting: [],
    isWatched: false,
  };
}

export function isBounded({ streamsMax, bytesMax }: Pick<Entry, 'streamsMax' | 'bytesMax'>): boolean {
  return streamsMax >= 0 || bytesMax >= 0;
}

/** Undefined: the groups are to be asked first. */
export function verdict(entry: Entry, need: Need, clockMs: number): 'fits' | 'over' | undefined {
  if (!entry.isTold) return undefined;
  if (entry.isLate) return fits(entry, need) ? 'fits' : 'over';
  if (clockMs - entry.toldAtMs >= FRESH_MS) return undefined;
  const streams = Math.max(MARGIN_STREAMS, entry.streamsMax * MARGIN_PART);
  const bytes = Math.max(MARGIN_BYTES, entry.bytesMax * MARGIN_PART);
  return fits(entry, need, streams, bytes) ? 'fits' : undefined;
}

export function fits(entry: Entry, need: Need, marginStreams = 0, marginBytes = 0): boolean {
  const { streamsMax, bytesMax } = entry;
  const streams = entry.streams + need.streams + marginStreams;
  const bytes = entry.bytes + entry.reserved + need.bytes + marginBytes;
  // What brings none of a kind is not held up by that kind.
  const hasStreams = streamsMax < 0 || need.streams === 0 || streams <= streamsMax;
  return hasStreams && (bytesMax < 0 || need.bytes === 0 || bytes <= bytesMax);
}

/** Both sides: the bounds, and what the bucket has. */
export function describe({ streamsMax, bytesMax, streams, bytes, reserved }: Entry): string {
  const parts: string[] = [];
  if (streamsMax >= 0) parts.push(`max_streams is ${streamsMax}, it has ${streams}`);
  if (bytesMax >= 0) parts.push(`max_retained_bytes is ${bytesMax}, it has ${bytes + reserved}`);
  return parts.join('; ');
}

const CREATES_STREAM = commandsWhere(({ createsStream }) => createsStream);

export function needOf({ op, command }: Request): Need {
  const makes = CREATES_STREAM.has(op);
  // The payload of a BEGIN says what is forked; its bytes are reserved when they are known.
  const { payload } = command;
  if (payload === undefined || op === COMMANDS.forkBegin.number) return { streams: makes ? 1 : 0, bytes: 0 };
  const heads = op === COMMANDS.appendBatch.number ? FRAME_HEAD_BYTES * frameCount(payload) : 0;
  return { streams: makes ? 1 : 0, bytes: payload.length - heads };
}
