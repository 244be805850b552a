/** A node's knowledge of a bucket with a quota, and whether a write fits. */
import { FRAME_HEAD_BYTES, frameCount } from '../protocol/append-batch.ts';
import type { Reply } from '../protocol/reply.ts';
import type { Request } from '../protocol/request.ts';
import { COMMANDS, commandsWhere } from '../protocol/operations.ts';

/** How long the groups' figures are valid while there is space. */
export const FRESH_MS = 1000;
/** Distance from the bound that counts as far: others may have written for a second. */
const MARGIN_STREAMS = 256;
const MARGIN_BYTES = 64 * 1024 * 1024;
/** Minimum distance as a fraction of the bound. */
const MARGIN_PART = 0.1;

export interface Need {
  readonly streams: number;
  readonly bytes: number;
}

/** A waiting write, or a reservation for bytes that come later. */
export interface Waiting {
  readonly need: Need;
  readonly sinceMs: number;
  readonly grant: (isOver: boolean) => void;
  readonly deny: (reply: Reply) => void;
}

export type QuotaEntry = ReturnType<typeof newEntry>;

export function newEntry(bucket: string) {
  return {
    bucket,
    /** -1: none. */
    streamsMax: -1,
    bytesMax: -1,
    /** The groups' last figures, plus what was admitted here since. */
    streams: 0,
    bytes: 0,
    /** The groups have answered. */
    isTold: false,
    /** Time of the query for these figures; -Infinity: they are outdated. */
    toldAtMs: -Infinity,
    /** The groups do not answer, so their last figures are used. */
    isLate: false,
    askedAtMs: -Infinity,
    asking: false,
    /** Reserved and not yet used. */
    reserved: 0,
    /** Writes in progress. */
    pending: 0,
    waiting: [] as Waiting[],
    /** A timer checks the waiting writes. */
    isWatched: false,
  };
}

export function isBounded({ streamsMax, bytesMax }: Pick<QuotaEntry, 'streamsMax' | 'bytesMax'>): boolean {
  return streamsMax >= 0 || bytesMax >= 0;
}

/** Undefined: the groups must be queried first. */
export function verdict(entry: QuotaEntry, need: Need, clockMs: number): 'fits' | 'over' | undefined {
  if (!entry.isTold) return undefined;
  if (entry.isLate) return fits(entry, need) ? 'fits' : 'over';
  if (clockMs - entry.toldAtMs >= FRESH_MS) return undefined;
  const streams = Math.max(MARGIN_STREAMS, entry.streamsMax * MARGIN_PART);
  const bytes = Math.max(MARGIN_BYTES, entry.bytesMax * MARGIN_PART);
  return fits(entry, need, streams, bytes) ? 'fits' : undefined;
}

export function fits(entry: QuotaEntry, need: Need, marginStreams = 0, marginBytes = 0): boolean {
  const { streamsMax, bytesMax } = entry;
  const streams = entry.streams + need.streams + marginStreams;
  const bytes = entry.bytes + entry.reserved + need.bytes + marginBytes;
  // A request is not limited by a kind of which it needs none.
  const hasStreams = streamsMax < 0 || need.streams === 0 || streams <= streamsMax;
  return hasStreams && (bytesMax < 0 || need.bytes === 0 || bytes <= bytesMax);
}

/** Both sides of the comparison: the bounds, and the bucket's usage. */
export function describe({ streamsMax, bytesMax, streams, bytes, reserved }: QuotaEntry): string {
  const parts: string[] = [];
  if (streamsMax >= 0) parts.push(`max_streams is ${streamsMax}, it has ${streams}`);
  if (bytesMax >= 0) parts.push(`max_retained_bytes is ${bytesMax}, it has ${bytes + reserved}`);
  return parts.join('; ');
}

const CREATES_STREAM = commandsWhere(({ createsStream }) => createsStream);

export function needOf({ op, command }: Request): Need {
  const makes = CREATES_STREAM.has(op);
  // A BEGIN's payload names the fork's source; its bytes are reserved when they are known.
  const { payload } = command;
  if (payload === undefined || op === COMMANDS.forkBegin.number) return { streams: makes ? 1 : 0, bytes: 0 };
  const heads = op === COMMANDS.appendBatch.number ? FRAME_HEAD_BYTES * frameCount(payload) : 0;
  return { streams: makes ? 1 : 0, bytes: payload.length - heads };
}
