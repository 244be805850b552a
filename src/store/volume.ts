/** Questions about the volume on which the store lies, and about its folder there. */
import { existsSync, mkdirSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { caughtCode, caughtMessage } from '../base/caught.ts';
import { RowDamage } from '../base/row-damage.ts';
import { StorageFullError } from '../shard/ports.ts';
import { DOUBTED, checkTrees } from './data-file.ts';
import { RESTORE_STATE, StateError, damageOf, isLmdbDamage } from './lmdb-damage.ts';
import { LogDamage } from './log-record.ts';
import { FileGone } from './named-file.ts';
import { SEGMENT_SIZES, type SegmentSizes } from './segments.ts';

const STDERR_FD = 2;
/** The system's codes for a full volume, and LMDB's. */
const FULL_CODES: ReadonlySet<unknown> = new Set(['ENOSPC', 28, 'EDQUOT']);
const FULL_WORDS = /no space left on device|disk quota exceeded/i;
/** On a small volume the segments of the log take no more than a few hundredths. */
const SEGMENTS_PER_VOLUME = 64;
const SEGMENT_BYTES_MIN = 256 * 1024;

/**
 * Judges an error of a commit. LMDB reports a short write to a full volume as EIO, so the volume itself is asked too.
 */
export function isFull(directory: string, error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: string };
  if (FULL_CODES.has(code) || FULL_WORDS.test(message ?? '')) return true;
  if (code !== 5 && code !== 'EIO' && !/input\/output/i.test(message ?? '')) return false;
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize < SHORT_WRITE_BYTES;
}

/** The reason why the state was not read or written. LMDB names no file, and errors of another thread have no class. */
export function stateError(directory: string, error: unknown): unknown {
  if (isFull(directory, error)) return new StorageFullError({ cause: error });
  const { code, message = '' } = error as { code?: unknown; message?: string };
  if (code === undefined) return error;
  const file = join(directory, 'data.mdb');
  if (isLmdbDamage(error)) return new StateError(damageOf(file, message), { cause: error });
  return new StateError(`${file}: ${message}`, { cause: error });
}

/** The sentence for the operator when an error of the store ends its shard; undefined: it is a bug. */
export function storeFailure(directory: string, error: unknown): string | undefined {
  const isOfSystem = caughtCode(error) !== '';
  const known = isOfSystem && !isFull(directory, error) ? error : stateError(directory, error);
  if (known instanceof StorageFullError) return `${directory}: no space left for its log; free some and start again`;
  if (known instanceof RowDamage) return `${join(directory, 'data.mdb')}: ${known.message}; ${RESTORE_STATE}`;
  const isSentence = isOfSystem || [LogDamage, StateError, FileGone].some((kind) => known instanceof kind);
  if (!isSentence) return undefined;
  const message = caughtMessage(known);
  return message.includes(directory) ? message : `${directory}: ${message}`;
}

/** After the reason why a node does not start that is the only one with some of its groups. */
const REFUSED =
  'no other node has what is in it: restore the data directory from a copy, or a backup into an empty one, or make a directory of what can be read with millracectl salvage DIR NEW-DIR';

/** `aside`: where the data file is that was rebuilt. */
export function refusalOfStart(directory: string, why: string, aside: string | undefined): LogDamage {
  const changed = aside === undefined ? 'nothing was changed' : `data.mdb was rebuilt, ${aside} is the file before`;
  return new LogDamage(`${directory}: ${why}; ${changed}; ${REFUSED}`);
}

/** Sizes of the log's segments on the volume of `directory`. */
export function segmentSizes(directory: string): SegmentSizes {
  const { blocks, bsize } = statfsSync(directory);
  const share = Math.floor((blocks * bsize) / SEGMENTS_PER_VOLUME / SEGMENT_BYTES_MIN) * SEGMENT_BYTES_MIN;
  const bytesMax = Math.min(SEGMENT_SIZES.bytesMax, Math.max(SEGMENT_BYTES_MIN, share));
  return { bytesMin: Math.min(SEGMENT_SIZES.bytesMin, bytesMax), bytesMax };
}

/**
 * Makes the folder, or checks the data file that is there. Not recursive: a data directory that disappeared since the
 * start is not created again.
 */
export function makeShardFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (caughtCode(error) !== 'EEXIST') throw error;
    const file = join(path, 'data.mdb');
    checkTrees(file, existsSync(file + DOUBTED) ? 'all' : 'first');
    rmSync(file + DOUBTED, { force: true });
  }
}

/**
 * A write ends short when less is left than it wanted, and returns what it took: a turn with a checkpoint is some MiB.
 */
const SHORT_WRITE_BYTES = 8 * 1024 * 1024;

/** LMDB prints the reason of a failed write to stderr without a line end, and the next log line would not be JSON. */
export function endForeignLine(): void {
  try {
    writeSync(STDERR_FD, '\n');
  } catch {
    // It is never read.
  }
}
