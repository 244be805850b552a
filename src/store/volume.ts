/** Questions about the volume on which the store lies, and about its folder there. */
import { mkdirSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { caughtCode } from '../base/caught.ts';
import { StorageFullError } from '../shard/ports.ts';
import { checkTrees } from './data-file.ts';
import { SEGMENT_SIZES, type SegmentSizes } from './segments.ts';

const STDERR_FD = 2;
/** On a small volume the segments of the log take no more than a few hundredths. */
const SEGMENTS_PER_VOLUME = 64;
const SEGMENT_BYTES_MIN = 256 * 1024;

/**
 * Judges an error of a commit. LMDB reports a short write to a full volume as EIO, so the volume itself is asked too.
 */
export function isFull(directory: string, error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: string };
  if (code === 'ENOSPC' || code === 28 || code === 'EDQUOT' || /no space left|quota/i.test(message ?? '')) return true;
  if (code !== 5 && code !== 'EIO' && !/input\/output/i.test(message ?? '')) return false;
  const { bavail, bsize } = statfsSync(directory);
  return bavail * bsize < SHORT_WRITE_BYTES;
}

/** The reason why a commit of the state failed. LMDB names no file, and errors of another thread have no class. */
export function stateError(directory: string, error: unknown): unknown {
  if (isFull(directory, error)) return new StorageFullError({ cause: error });
  const { code, message = '' } = error as { code?: unknown; message?: string };
  return code === undefined ? error : new Error(`${join(directory, 'data.mdb')}: ${message}`, { cause: error });
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
    checkTrees(join(path, 'data.mdb'));
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
