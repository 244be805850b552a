/**
 * The row by which a shard's store says in which run of which directory it was last used. Versions before leave it alone: they ask
 * for their own rows by key.
 *
 *   shard u32 | incarnation f64 | directory text
 */
import { Reader, Writer, textFieldBytes } from '../base/cursor.ts';
import { systemKey } from './rows.ts';

const RUN_TAG = 0x72;
export const RUN_KEY = systemKey(RUN_TAG, 0);

/** A shard's part in a run of the data directory. */
export interface ShardRun {
  readonly shard: number;
  /** Counts the starts on the directory. */
  readonly incarnation: number;
  readonly directory: string;
}

export function encodeRun({ shard, incarnation, directory }: ShardRun): Uint8Array {
  const writer = new Writer(new Uint8Array(12 + textFieldBytes(directory)));
  writer.u32(shard);
  writer.int53(incarnation);
  writer.text(directory);
  return writer.finish();
}

/** Undefined: it is damaged. */
export function decodeRun(row: Uint8Array): ShardRun | undefined {
  const reader = new Reader(row);
  const run = { shard: reader.u32(), incarnation: reader.int53(), directory: reader.text() };
  return reader.finished ? run : undefined;
}
