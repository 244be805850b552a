/**
 * The row by which a shard's store says in which run of which directory it was last used. Versions before leave it alone: they ask
 * for their own rows by key.
 */
import { Reader, Writer, textFieldBytes } from '../base/cursor.ts';
import { f64, struct, u32 } from '../base/struct.ts';
import { systemKey } from './rows.ts';

const RUN_TAG = 0x72;
export const RUN_KEY = systemKey(RUN_TAG, 0);

export const RUN_ROW = struct({ shard: u32, incarnation: f64 }, 'directory: its bytes u16, then UTF-8');

/** A shard's part in a run of the data directory. */
export interface ShardRun {
  readonly shard: number;
  /** Counts the starts on the directory. */
  readonly incarnation: number;
  readonly directory: string;
}

export function encodeRun({ shard, incarnation, directory }: ShardRun): Uint8Array {
  const writer = new Writer(new Uint8Array(RUN_ROW.size + textFieldBytes(directory)));
  writer.record(RUN_ROW, { shard, incarnation });
  writer.text(directory);
  return writer.finish();
}

/** Undefined: it is damaged. */
export function decodeRun(row: Uint8Array): ShardRun | undefined {
  const reader = new Reader(row);
  const run = { ...reader.record(RUN_ROW), directory: reader.text() };
  return reader.finished ? run : undefined;
}
